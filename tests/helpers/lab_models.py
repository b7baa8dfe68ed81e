"""The real models, loaded once for all runs of a file of tests of the lab."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

import pytest

import regard.models


@contextmanager
def loaded_once() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regard.models, "load", cache(regard.models.load))
        yield
