"""A disk that really is full: one line says which file, and when there is room it goes on."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_disk import PAGE, SmallDisk, small_disk
from helpers.small_run import left, small, trained

from regard.cli import main
from regard.train import Recipe, checkpoint

# Few steps, a checkpoint every other one, and all of them are kept.
MANY: dict[str, Any] = {"steps": 7, "save": 2, "evaluate": 7, "keep": 9}


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk", 256) as made:
        yield made


def ends(
    recipe: Recipe, disk: SmallDisk, room: int, capsys: pytest.CaptureFixture[str]
) -> tuple[str, Path]:
    """Train where so many pages are left: the file that the command says it could not write."""
    file = disk.place.parent / "small.toml"
    file.write_text(recipe.toml(), encoding="utf-8")
    run = disk.place / f"run-{room}"
    disk.fill(room)
    assert main(["train", str(file), "--out", str(run)]) == 2
    out, err = capsys.readouterr()
    said = err.splitlines()[-1]
    start, end = f"regard: cannot write {run}/", ": No space left on device."
    assert said.startswith(start), err
    assert end in said
    assert said.endswith("--resume goes on with it.") == (run / "recipe.toml").is_file()
    assert (out, "Traceback" in err) == ("", False)
    for folder in (run / "checkpoints").glob("*"):
        checkpoint.check(folder)  # whole, or not there
    assert not list((run / "pictures").glob(".*"))
    disk.free()
    return said.removeprefix(start).partition(end)[0], run


def test_whatever_does_not_fit_is_named_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = small(training=MANY)
    trained(tmp_path / "undisturbed", recipe)
    expected = left(tmp_path / "undisturbed")
    pages = {
        0: "tokenizer.json",
        1: "data",
        2: "recipe.toml",
        9: "checkpoints/step-000000000",
        21: "pictures/step-000000000.safetensors",
        36: "checkpoints/step-000000002",
        75: "checkpoints/step-000000006",
    }
    for room, name in pages.items():
        named, run = ends(recipe, disk, room, capsys)
        assert named == name
        assert main(["train", str(tmp_path / "small.toml"), "--out", str(run), "--resume"]) == 0
        assert left(run) == expected
        shutil.rmtree(run)
        capsys.readouterr()


def test_a_text_that_does_not_fit_and_a_log_that_grows(
    tmp_path: Path, disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("a cat, a hat. " * 2000)
    data = {"text": str(tmp_path / "text.txt")}
    named, run = ends(small("language-model", data=data), disk, 9, capsys)
    assert named == "data"
    assert not list(run.iterdir())
    chatty = small(
        training={"steps": 400, "save": 400, "evaluate": 400}, watch={"every": 1, "pictures": 0}
    )
    named, run = ends(chatty, disk, 22 + 20_000 // PAGE, capsys)
    assert named == "log.jsonl"
    saved = checkpoint.newest(run / "checkpoints")
    assert saved is not None
    assert saved.step == 0
