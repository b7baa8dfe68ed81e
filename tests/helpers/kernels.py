"""The builds of the native kernel that this processor can run, each for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from regard import _native


@contextmanager
def using(name: str) -> Generator[None]:
    """This build of the kernel, then the best one again; ValueError if it cannot run here."""
    _native.use_kernel(name)
    try:
        yield
    finally:
        _native.use_kernel(None)


# From the best to the least: the first serves whoever does not ask.
KERNELS = tuple(_native.kernels())
on_each_kernel = pytest.mark.parametrize("kernel", KERNELS)
