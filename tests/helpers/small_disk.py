"""A disk of few bytes, in memory, that can really be filled up; it takes the rights of root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["PAGE", "SmallDisk", "small_disk"]

PAGE = 4096  # bytes that it hands out at once


@dataclass(frozen=True)
class SmallDisk:
    """Where it is; `fill` takes all of it but for so many pages, `free` gives that back."""

    place: Path

    def fill(self, left: int) -> None:
        free = os.statvfs(self.place).f_bavail
        (self.place / "filler").write_bytes(bytes((free - left) * PAGE))

    def free(self) -> None:
        (self.place / "filler").unlink()


@contextlib.contextmanager
def small_disk(place: Path, pages: int) -> Generator[SmallDisk]:
    """A disk in a new folder, for as long as the `with` lasts; the test is skipped without it."""
    place.mkdir()
    options = f"size={pages * PAGE},huge=never"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = made.stderr.strip() if made.returncode else ""
    except FileNotFoundError:
        reason = "there is no mount"
    if reason:
        pytest.skip(f"a small disk cannot be mounted here: {reason}")
    try:
        yield SmallDisk(place)
    finally:
        # Lazily: what a failed test still holds open shall not keep it there.
        subprocess.run(["umount", "-l", str(place)], check=True)
