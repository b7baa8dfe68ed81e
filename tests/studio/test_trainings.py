"""Trainings in the studio: which there are, what is new of one, and what is not shown."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_run import trained
from helpers.studio_client import PORT, TOKEN, Client

from regard._followed import read_picture
from regard.studio.app import make_app
from regard.studio.places import Settings
from regard.train import history


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained to its end."""
    folder = tmp_path_factory.mktemp("trainings") / "copy"
    trained(folder)
    return folder


@pytest.fixture
def training(run: Path, folder: Path) -> Path:
    """The same in the folder of the studio, beside its runs."""
    return Path(shutil.copytree(run, folder / "copy"))


def listed(client: Client) -> dict[str, Any]:
    """The only training that is listed."""
    (found,) = client.get("/api/trainings").json()
    return found


def news(client: Client, after: int = 0) -> dict[str, Any]:
    return client.get(f"/api/trainings/{listed(client)['id']}/news?after={after}").json()


def test_trainings_are_listed_with_how_far_they_are(client: Client, training: Path) -> None:
    found = listed(client)
    assert {name: found[name] for name in ("name", "task", "step", "steps", "status")} == {
        **{"name": "copy", "task": "copy"},
        **{"step": 13, "steps": 13, "status": "ended"},
    }
    assert [run["name"] for run in client.get("/api/runs").json()] == ["one"]
    handle = os.open(training, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as training does
    assert listed(client)["status"] == "trains"
    os.close(handle)
    assert listed(client)["status"] == "ended"


def test_a_training_may_be_the_folder_that_the_studio_is_started_with(
    run: Path, tmp_path: Path
) -> None:
    app = make_app(Settings([run], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        assert listed(client)["name"] == "copy"


def test_a_training_is_told_with_its_heads_and_the_tokens_of_its_pictures(
    client: Client, training: Path
) -> None:
    name = listed(client)["id"]
    found, expected = client.get(f"/api/trainings/{name}").json(), history(training).document()
    for part in ("pictures", "layers", "example", "chosen", "left_out", "steps"):
        assert found[part] == expected[part]


def test_of_a_log_that_grows_only_what_is_new_is_told(client: Client, training: Path) -> None:
    log = training / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:4]) + lines[4][:7])
    first = news(client)
    assert [line["step"] for line in first["lines"]] == [json.loads(x)["step"] for x in lines[:4]]
    assert first["end"] == sum(map(len, lines[:4]))
    assert first["status"] == "stopped"
    assert news(client, first["end"])["lines"] == []
    log.write_bytes(b"".join(lines))
    second = news(client, first["end"])
    assert len(second["lines"]) == len(lines) - 4
    assert (second["end"], second["more"], second["status"]) == (
        log.stat().st_size,
        False,
        "ended",
    )
    log.write_bytes(b"".join(lines[:2]))  # it goes on from an earlier checkpoint
    assert news(client, second["end"])["end"] == 0


def test_a_long_log_comes_in_several_answers(client: Client, training: Path) -> None:
    log = training / "log.jsonl"
    line = json.dumps({"step": 1, "loss": 0.25, "learning_rate": 0.5}) + "\n"
    log.write_text(line * (2_000_000 // len(line)))
    found, after, answers = 0, 0, 0
    while True:
        told = news(client, after)
        found, after, answers = found + len(told["lines"]), told["end"], answers + 1
        if not told["more"]:
            break
    assert found == 2_000_000 // len(line)
    assert answers >= 2


def test_a_head_is_told_with_the_weights_of_its_pictures(client: Client, training: Path) -> None:
    path = f"/api/trainings/{listed(client)['id']}/head"
    weights = [
        read_picture(training / "pictures" / f"step-{step:09}.safetensors") for step in (0, 2, 13)
    ]
    expected = np.stack([each["decoder.layers.0.cross"][1] for each in weights])
    assert np.array_equal(client.array(path, layer=2, head=1), expected)
    assert np.array_equal(client.array(path, layer=2, head=1, after=0), expected[1:])
    new = training / "pictures" / "step-000000020.safetensors"
    shutil.copy(training / "pictures" / "step-000000000.safetensors", new)
    assert news(client)["pictures"] == 4
    assert np.array_equal(client.array(path, layer=2, head=1, after=13), expected[:1])
    for wrong in ("layer=3&head=0", "layer=0&head=2", "layer=-1&head=0", "layer=a&head=0"):
        assert client.get(f"{path}?{wrong}").status_code == 400


@pytest.mark.parametrize("name", ["log.jsonl", "tokenizer.json", "data", "pictures", "recipe.toml"])
def test_nothing_outside_of_the_folders_is_read(
    client: Client, training: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    shutil.move(training / name, outside)
    (training / name).symlink_to(outside)
    found = listed(client)
    assert "the folders it was started with" in found["problem"]
    for path in ("", "/news", "/head?layer=0&head=0"):
        answer = client.get(f"/api/trainings/{found['id']}{path}")
        assert answer.status_code == 403


def test_a_file_of_the_data_that_lies_outside_is_not_read(
    client: Client, training: Path, tmp_path: Path
) -> None:
    file = next((training / "data").iterdir())
    shutil.move(file, tmp_path / "outside")
    file.symlink_to(tmp_path / "outside")
    assert client.get(f"/api/trainings/{listed(client)['id']}").status_code == 403


def test_a_training_that_is_linked_from_elsewhere_is_not_listed(
    client: Client, run: Path, folder: Path
) -> None:
    (folder / "linked").symlink_to(run)
    assert client.get("/api/trainings").json() == []


def test_a_broken_training_hides_no_other(client: Client, training: Path, folder: Path) -> None:
    broken = folder / "broken"
    nested = f"a = {'[' * 100_000}"
    contents = ("][", "task = 'copy'", "training = 3", "[training]\nsteps = 'many'", nested)
    for content in contents:
        broken.mkdir(exist_ok=True)
        (broken / "recipe.toml").write_text(content)
        found = {each["name"]: each for each in client.get("/api/trainings").json()}
        assert found["copy"]["status"] == "ended"
        assert "cannot be read" in found["broken"]["problem"]
        for path in ("", "/news"):
            answer = client.get(f"/api/trainings/{found['broken']['id']}{path}")
            assert answer.status_code == 400


def test_what_is_not_there_is_refused_in_words(client: Client, training: Path) -> None:
    answer = client.get("/api/trainings/0123456789abcdef/news")
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "This training is not here any more.",
    )
    name = listed(client)["id"]
    for after in ("-1", "x", str(2**60)):
        assert client.get(f"/api/trainings/{name}/news?after={after}").status_code == 400
    shutil.rmtree(training)
    assert client.get(f"/api/trainings/{name}").status_code == 404
