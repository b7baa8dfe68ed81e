"""Whatever a folder holds: it is listed, and loads as a run that answers, or is refused."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.made_runs import made_run
from helpers.soak import attacks

from regard.run import RunError, load
from regard.studio.places import Places
from regard.studio.shelf import Shelf

FILES = ("run.json", "tensors.safetensors", "edges.parquet")
WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**22, 2**24, 2**63, 10**400, 0.5, float("inf"), float("nan"), "", "x"),
    *("\ud800", "9" * 5000, [], [7], {}, {"a": 1}, [[["x", 0, 1]]], "x" * 10**5),
)
SECONDS = 20


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "run"
    made_run().save(folder)
    return folder


def some_place(choose: Random, node: Any) -> tuple[Any, Any]:
    """A dictionary or a list of a document, and one of its keys."""
    while True:
        key: Any = (
            choose.choice(list(node)) if isinstance(node, dict) else choose.randrange(len(node))
        )
        if not isinstance(node[key], dict | list) or not node[key] or choose.random() < 0.3:
            return node, key
        node = node[key]


def change_document(choose: Random, folder: Path) -> None:
    document = json.loads((folder / "run.json").read_bytes())
    for _ in range(choose.choice([1, 1, 2, 5])):
        node, key = some_place(choose, document)
        if isinstance(node, dict) and choose.random() < 0.3:
            del node[key]
        else:
            node[key] = copy.deepcopy(choose.choice(WRONG))
    (folder / "run.json").write_text(json.dumps(document))


def change_bytes(choose: Random, folder: Path) -> None:
    file = folder / choose.choice(FILES)
    content = bytearray(file.read_bytes())
    for _ in range(choose.choice([1, 3, 100])):
        content[choose.randrange(len(content))] = choose.randrange(256)
    if choose.random() < 0.5:
        del content[choose.randrange(len(content)) :]
    file.write_bytes(content)


def change_file(choose: Random, folder: Path) -> None:
    file = folder / choose.choice(FILES)
    file.unlink()
    kinds: list[Callable[[], object]] = [
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.symlink_to(file),
        lambda: file.symlink_to(folder / "run.json"),
        lambda: os.mkfifo(file),
        lambda: file.mkdir(),
        lambda: file.write_bytes(b""),
        lambda: None,
    ]
    choose.choice(kinds)()


def test_any_folder_is_listed_and_loads_or_is_refused(honest: Path, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise AssertionError(f"takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    shutil.copytree(honest, tmp_path / "runs" / "whole")
    folder = tmp_path / "runs" / "changed"
    try:
        for choose in attacks(60):
            signal.alarm(SECONDS)
            shutil.copytree(honest, folder)
            choose.choice([change_document, change_document, change_bytes, change_file])(
                choose, folder
            )
            listed = {
                run["name"]: run for run in Shelf(Places([folder.parent]), folder.parent).list()
            }
            assert listed["whole"]["layers"] == 3
            json.dumps(list(listed.values()), allow_nan=False, ensure_ascii=False).encode()
            with contextlib.suppress(RunError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = load(folder)
                if choose.random() < 0.3:
                    os.truncate(folder / "tensors.safetensors", choose.randrange(1000))
                run.sql("select count(*), sum(weight) from edges")
                run.heads()
                repr(run)
            shutil.rmtree(folder)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
