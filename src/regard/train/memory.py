"""Memory that one step frees is kept for the next one, while it trains."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Generator
from typing import Any

# The options of glibc's mallopt, by their numbers in malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_LARGE = 2**30
_USUAL = 2**25  # the most to which glibc raises its threshold by itself, as tensors are freed
_OWN = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


@contextlib.contextmanager
def kept_memory() -> Generator[None]:
    """Inside the `with` nothing that is freed goes back to the system; after it, all of it does.

    A step frees at its end what the next one needs again: where that was given back, each page of
    it costs a fault. Without glibc, or if the environment says how memory is to be kept, this does
    nothing.
    """
    library = _library()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGE)
    library.mallopt(_TRIM_THRESHOLD, _LARGE)
    library.mallopt(_TOP_PAD, _USUAL)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _USUAL)
        library.mallopt(_TRIM_THRESHOLD, 2 * _USUAL)
        library.mallopt(_TOP_PAD, 2**17)
        library.malloc_trim(0)


def _library() -> Any:
    """The C library, if it is one that can be told."""
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _OWN):
        return None
    found = ctypes.CDLL(None)
    return found if hasattr(found, "mallopt") and hasattr(found, "malloc_trim") else None
