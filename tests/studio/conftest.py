"""A studio in the same process, with runs in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import made_run
from helpers.studio_client import PORT, TOKEN, Client

from regard.studio.app import make_app
from regard.studio.places import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a saved run, `one`, in it."""
    place = tmp_path / "data"
    place.mkdir()
    made_run().save(place / "one")
    return place


@pytest.fixture
def app(folder: Path, tmp_path: Path) -> Any:
    """The application behind its guard. A text may take long to check on a machine that is busy."""
    settings = Settings([folder], store=tmp_path / "store", check_seconds=120.0)
    return make_app(settings, token=TOKEN, port=PORT)


@pytest.fixture
def client(app: Any) -> Iterator[Client]:
    """The reader: with the token, from the studio's own pages."""
    with Client(app) as made:
        yield made
