"""A disk that is full, or may not be written to: said in words, and what was there before stays."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from helpers.made_runs import made_run
from helpers.model_folders import save_bert

import regard
from regard._files import write_bytes
from regard.cli import main
from regard.nn import LanguageModel, LanguageModelConfig

TEXT = "i love apple phones ."


@contextlib.contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """No file of this process grows beyond that: its system says so as it would of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def model() -> LanguageModel:
    torch.manual_seed(7)
    return LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))


def content(place: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in place.rglob("*") if file.is_file()}


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a run": lambda path: made_run().save(path),
    "a model": lambda path: model().save(path),
    "a page": lambda path: made_run().html(path),
    "a figure": lambda path: regard.trace("I love it").figure(path.with_suffix(".svg")),
    "a trace": lambda path: regard.trace("I love it").save(path.with_suffix(".json")),
    "bytes": lambda path: write_bytes(path, bytes(10**6)),
}


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("size", [0, 700])
def test_a_full_disk_is_an_os_error_and_leaves_all_as_it_was(
    tmp_path: Path, what: str, size: int
) -> None:
    write = WRITERS[what]
    write(tmp_path / "old")
    before = content(tmp_path)
    for name in ("old", "new"):
        with files_of_at_most(size), pytest.raises(OSError, match="File too large"):
            write(tmp_path / name)
        assert content(tmp_path) == before
        assert [path.stem for path in tmp_path.iterdir()] == ["old"]
    write(tmp_path / "old")


def test_see_save_on_a_full_disk_is_one_line_and_keeps_what_was_saved_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_bert(tmp_path / "model")
    folder = tmp_path / "run"
    made_run().save(folder)
    before = content(folder)
    capsys.readouterr()
    command = ["see", TEXT, "--model", str(tmp_path / "model"), "--save", str(folder)]
    with files_of_at_most(1000):
        code = main(command)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err == f"regard: cannot write {folder}: File too large.\n"
    assert content(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "run"]
    for option in ("--json", "--svg", "--html"):
        with files_of_at_most(100):
            assert main([*command[:4], option, str(tmp_path / "page")]) == 2
        assert "page: File too large.\n" in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "run"]


@pytest.mark.parametrize("code", [13, 28, 30, 36, 122])
def test_what_the_system_says_to_a_library_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Permission denied, no space left, read-only, name too long, quota exceeded."""

    def save_file(*_: object) -> None:
        raise safetensors.SafetensorError(f"I/O error: {os.strerror(code)} (os error {code})")

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)
    for what in ("a run", "a model"):
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            WRITERS[what](tmp_path / "new")
        assert caught.value.errno == code
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["a run", "a model", "bytes"])
@pytest.mark.parametrize("name", ["n" * 255, "é" * 127])
def test_a_name_of_any_length_that_the_system_takes_is_taken(
    tmp_path: Path, what: str, name: str
) -> None:
    for _ in range(2):
        WRITERS[what](tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("what", WRITERS)
def test_a_name_that_is_too_long_is_an_os_error(tmp_path: Path, what: str) -> None:
    with pytest.raises(OSError, match="File name too long"):
        WRITERS[what](tmp_path / ("n" * 256))
