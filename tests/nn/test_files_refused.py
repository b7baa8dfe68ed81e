"""A folder that came from elsewhere is data: whatever is wrong with it is refused in words."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.saved_models import MODELS
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.models import CheckpointError
from regard.nn import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A language model in a folder, to be spoilt."""
    MODELS["language"].save(tmp_path / "model")
    return tmp_path / "model"


def refused(folder: Path, *words: str, **how: Any) -> CheckpointError:
    """Loading must fail with CheckpointError that says all of this, in the usual form."""
    with pytest.raises(CheckpointError) as caught:
        load(folder, **how)
    said = str(caught.value)
    assert re.match(r"load\(\): .+ must .+; got .+\. .+[.?]$", said, re.DOTALL), said
    assert said.isprintable()
    for word in words:
        assert word in said, said
    return caught.value


def edit(folder: Path, **changes: Any) -> None:
    """Change fields of the config inside of config.json."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content["config"].update(changes)
    path.write_text(json.dumps(content))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)


def test_what_is_no_model_folder_is_told_so(folder: Path) -> None:
    refused(folder.parent / "no-such", "be a folder", "nothing there")
    refused(folder / "config.json", "be a folder", "a file")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "pickles", "never run", "model.save(folder)")
    (folder / "pytorch_model.bin").unlink()
    refused(folder, "hold model.safetensors", "model.save(folder)")
    (folder / "config.json").unlink()
    refused(folder, "hold config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_that_leads_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "outside")
    (folder / name).symlink_to(folder.parent / "outside")
    refused(folder, name, "leads out of it")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, name, "regular file")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "JSON object"),
        ("[]", "an array"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": "regard.nn"}', "version 1"),
        ('{"format": "regard.nn", "version": 2, "config": {}}', "version 1"),
        ('{"format": "regard.nn", "version": true, "config": {}}', "version 1"),
        ('{"format": "regard.nn", "version": 1}', "describe a model"),
        ('{"format": "regard.nn", "version": 1, "config": {}, "auto_map": {}}', "auto_map"),
        ('{"format": "regard.nn", "version": 1, "config": 3}', "an object with a type"),
        ('{"format": "regard.nn", "version": 1, "config": {"type": "Rotary"}}', "Rotary"),
        ('{"format": "\\u001b[2J", "version": 1, "config": {}}', "regard.nn"),
        ('{"model_type": "bert"}', "regard.models.load"),
        ("{" + " " * 1_000_001 + "}", "at most 1,000,000 bytes"),
    ],
)
def test_a_config_file_of_another_kind_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer": 3}, "it must have no 'layer'"),
        ({"trust_remote_code": True}, "no 'trust_remote_code'"),
        ({"type": "StackConfig"}, "no 'vocabulary'"),
        ({"type": "_TokenConfig"}, "type must be one of"),
        ({"type": "Position"}, "type must be one of"),
        ({"type": "os.system"}, "type must be one of"),
        ({"type": ["LanguageModelConfig"]}, "an object with a type"),
        ({"width": "12"}, "width must be a whole number"),
        ({"width": 12.0}, "width must be a whole number"),
        ({"width": True}, "width must be a whole number"),
        ({"width": -12}, "width must be at least 1; got -12"),
        ({"width": None}, "width must be a whole number"),
        ({"width": [12]}, "width must be a whole number"),
        ({"width": 13}, "decoder.norm.weight [12] instead of [13]"),
        ({"heads": 5, "head_width": 0}, "multiple of the 5 heads"),
        ({"tied": 1}, "tied must be True or False"),
        ({"dropout": float("nan")}, "dropout must be a finite number"),
        ({"norm_eps": float("inf")}, "norm_eps must be a finite number"),
        ({"position": "Rotary"}, "position must be a Position"),
        ({"position": {"type": "Rotary", "width": 6}}, "width must be even and at most"),
        ({"position": {"type": "Rotary", "base": {"type": "Rotary"}}}, "nothing described inside"),
        ({"position": {"type": "PreNorm"}}, "position must be a Position"),
        ({"position": {"type": "LanguageModelConfig"}}, "a value for width"),
        ({"hidden": 2**31}, "at most 2,147,483,647 as hidden"),
        ({"position": {"type": "Learned", "length": 10**30}}, "at most 2,147,483,647 as length"),
        ({"heads": 10**9, "head_width": 4}, "at most 65,536 as heads"),
        ({"layers": 10**6}, "at most 65,536 as layers"),
    ],
)
def test_a_config_with_a_hostile_field_is_refused(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    edit(folder, **changes)
    refused(folder, words)


@pytest.mark.parametrize(
    "changes",
    [
        {"vocabulary": 10**9, "width": 1200, "head_width": 4},  # 10¹² weights
        {"layers": 60_000},
        {"hidden": 2**31 - 1, "width": 2**31 - 1},
        {"width": 2**31 - 1, "head_width": 2**31 - 1, "heads": 2**16},  # past 2⁶³ bytes
        {"position": {"type": "Learned", "length": 2**31 - 1}},
        {"position": {"type": "RelativeBias", "buckets": 2**31 - 4, "distance": 2**31 - 1}},
        {"position": {"type": "ALiBi"}, "heads": 2**16, "kv_heads": 1, "head_width": 4000},
    ],
)
def test_a_config_that_asks_for_far_more_than_the_file_is_refused_before_memory_is_taken(
    folder: Path, changes: dict[str, Any]
) -> None:
    edit(folder, **changes)
    said = str(refused(folder, "config.json", "must describe a model"))
    assert "that the folder holds" in said or "overflow" in said  # and not that memory ran out


def test_all_tensors_that_do_not_fit_are_listed_at_once(folder: Path) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        del tensors["decoder.layers.0.attention.w_q.weight"]
        del tensors["decoder.norm.weight"]
        tensors["of.no.use"] = torch.zeros(2)
        tensors["head.weight"] = torch.zeros(11, 12)  # tied: it has no place of its own
        tensors["embedding.tokens.weight"] = torch.zeros(12, 11)
        tensors["decoder.layers.1.norms.0.weight"] = torch.zeros(12, dtype=torch.int64)

    edit_weights(folder, spoil)
    refused(
        folder,
        "the tensors of LanguageModel",
        "missing: decoder.layers.0.attention.w_q.weight, decoder.norm.weight",
        "left over: head.weight, of.no.use",
        "embedding.tokens.weight [12, 11] instead of [11, 12]",
        "decoder.layers.1.norms.0.weight I64",
    )


def test_a_config_of_one_more_layer_is_told_which_tensors_are_missing(folder: Path) -> None:
    edit(folder, layers=3)
    refused(folder, "missing: decoder.layers.2.attention.w_k.bias", "feed_forward.w_out.weight")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_named_and_refused_unless_asked_for(
    folder: Path, value: float
) -> None:
    names = ["decoder.norm.weight", "embedding.tokens.weight"]
    edit_weights(folder, lambda tensors: [tensors[name][3:4].fill_(value) for name in names])
    refused(folder, *names, "finite", "allow_not_finite=True")
    found = load(folder, allow_not_finite=True).get_parameter(names[0])
    assert not found[3].isfinite()
    assert found[2].isfinite()


def test_a_file_that_is_cut_or_has_holes_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(folder, "model.safetensors")
    path.write_bytes(whole + b"\0")
    refused(folder, "model.safetensors", "end after its last tensor")
    places = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({"a": places, "b": places}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    refused(folder, "overlap")


def test_a_model_saved_meanwhile_is_not_mixed_with_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.nn import files

    read = files.read_tensors

    def read_late(*given: Any, **how: Any) -> dict[str, Tensor]:
        MODELS["language"].save(folder)
        return read(*given, **how)

    monkeypatch.setattr(files, "read_tensors", read_late)
    refused(folder, "stay as it is while it is read")
