"""Files that are not there, lead elsewhere, or are not what an index says are refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from helpers.model_folders import (
    refused,
    write_index,
)

from regard.models import CheckpointError, load


def test_a_folder_that_is_no_model_folder_is_told_so(folder: Path) -> None:
    (folder / "config.json").unlink()
    refused(folder, "config.json", "save_pretrained")
    refused(folder / "tokenizer.json", "be a folder", "a file")
    refused(folder / "no-such", "be a folder", "nothing there")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    refused(folder, "model.safetensors", "other.safetensors")


@pytest.mark.parametrize("name", ["", "a\0b", "../../no-such", "https://x/y", "a/b/c", "-x"])
def test_a_name_that_can_be_no_model_is_refused_without_asking_anyone(name: str) -> None:
    with pytest.raises(CheckpointError, match="must be a"):
        load(name)


def read_index(folder: Path) -> dict[str, str]:
    return json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]


@pytest.mark.parametrize(
    "shard",
    [
        "../outside.safetensors",
        "sub/../../outside.safetensors",
        "{absolute}",
        "sub/inside.safetensors",
        "..\\outside.safetensors",
        "C:outside.safetensors",
        "..",
        "",
        ".safetensors",
        "a\nb.safetensors",
    ],
)
def test_a_shard_by_any_but_a_bare_name_is_refused(shards: Path, shard: str) -> None:
    places = read_index(shards)
    first = next(iter(places.values()))
    (shards / "sub").mkdir()
    for copy in (shards.parent / "outside.safetensors", shards / "sub" / "inside.safetensors"):
        shutil.copy(shards / first, copy)
    hostile = shard.replace("{absolute}", str(shards.parent / "outside.safetensors"))
    places = {name: hostile if file == first else file for name, file in places.items()}
    write_index(shards, places)
    refused(shards, "bare names")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_that_leads_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "outside")
    (folder / name).symlink_to(folder.parent / "outside")
    refused(folder, name, "leads out of it")
    (folder / name).unlink()
    (folder / name).symlink_to(folder / "nowhere")
    refused(folder, name, "leads nowhere")
    (folder / name).unlink()
    (folder / name).symlink_to(name)  # a circle
    refused(folder, name, "leads nowhere")


def test_a_shard_that_is_a_link_out_of_the_folder_is_refused(shards: Path) -> None:
    first = next(iter(read_index(shards).values()))
    (shards / first).rename(shards.parent / "outside")
    (shards / first).symlink_to(shards.parent / "outside")
    refused(shards, first, "leads out of it")


def test_a_cache_whose_blobs_lead_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "cache" / "snapshots" / "abc"
    shutil.copytree(folder, snapshot)
    (snapshot / "config.json").rename(folder.parent / "stolen")
    (tmp_path / "cache" / "blobs").symlink_to(folder.parent)
    (snapshot / "config.json").symlink_to(Path("..", "..", "blobs", "stolen"))
    refused(snapshot, "config.json", "leads out of it")


def test_what_is_no_regular_file_is_refused_without_waiting(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    refused(folder, "model.safetensors", "regular file")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    refused(folder, "config.json", "regular file")


@pytest.mark.parametrize("places", [None, [], "a.safetensors", {"w": 3}, {"w": None}])
def test_an_index_without_a_map_is_refused(shards: Path, places: object) -> None:
    write_index(shards, places)
    refused(shards, "index.json", "weight_map")


def test_an_index_that_does_not_fit_its_shards_is_refused_all_at_once(shards: Path) -> None:
    places = read_index(shards)
    files = sorted(set(places.values()))
    moved, added = next(iter(places)), "no.such.tensor"
    other = next(file for file in files if file != places[moved])
    write_index(shards, places | {moved: other, added: other})
    refused(shards, f"{moved} is not in {other}", f"{added} is not in {other}", places[moved])
    write_index(shards, {name: file for name, file in places.items() if name != moved})
    refused(shards, moved, "not by the index")
    write_index(shards, places)
    (shards / files[0]).unlink()
    (shards / files[1]).unlink()
    refused(shards, files[0], files[1], "every shard")
