"""Ranks that all tests of a session share, and the kernel with one thread, as they have."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch
from helpers.ranks import Ranks


@pytest.fixture(scope="session")
def ranks() -> Generator[Ranks]:
    found = Ranks()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
