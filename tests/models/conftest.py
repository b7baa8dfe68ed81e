"""Model folders that are in order, to be spoilt by a test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.model_folders import save_bert
from helpers.wheels import INSIDE, make_wheel


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    save_bert(folder)
    return folder


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    save_bert(folder, max_shard_size="4KB")
    return folder


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    """A folder that is in order, to be spoilt."""
    return Path(shutil.copytree(honest, tmp_path / "model"))


@pytest.fixture
def shards(sharded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sharded, tmp_path / "model"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    save_bert(folder / "bert")
    members = {f"{INSIDE}/{path.name}": path.read_bytes() for path in (folder / "bert").iterdir()}
    members[f"{INSIDE}/evil.py"] = b"raise SystemExit('run')"
    members["toy_model/__init__.py"] = b"raise SystemExit('run')"
    return make_wheel(folder, members)
