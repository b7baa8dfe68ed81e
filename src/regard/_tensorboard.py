"""The numbers of a log as TensorBoard reads them: its files of events, written by themselves.

A file of events is a row of records: length, checksum of the length, content, checksum of the
content. The content is an `Event` of TensorFlow's in protocol buffers, of which scalars need four
fields. So nothing has to be installed to write them.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

TENSORBOARD = "tensorboard"
_VERSION = b"brain.Event:2"
_START = 1  # a SessionLog's status: what stands before with this step or a later one is gone


class Events:
    """A file of events. One that begins at a step takes the place of what others say from there."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{os.getpid()}.regard"
        self._file = (folder / name).open("wb")
        self._record(_text(3, _VERSION))
        if step:
            self._record(_number(2, step + 1) + _text(7, _number(1, _START)))
        self.flush()

    def add(self, line: Mapping[str, Any]) -> None:
        """A line of the log."""
        values = b"".join(
            _text(1, _text(1, name.encode("utf-8")) + _float(2, value))
            for name, value in scalars(line)
        )
        self._record(_number(2, int(line["step"])) + _text(5, values))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _record(self, content: bytes) -> None:
        content = b"\x09" + struct.pack("<d", time.time()) + content
        length = struct.pack("<Q", len(content))
        self._file.write(length + _masked(length) + content + _masked(content))


def scalars(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line by their names; those of a table stand below its name. What is None was
    not measured.

    >>> list(scalars({"step": 3, "validation": {"loss": 0.5}, "entropy": {"layers.0": [1.0, 0.7]}}))
    [('validation/loss', 0.5), ('entropy/layers.0/0', 1.0), ('entropy/layers.0/1', 0.7)]
    """
    for name, each in line.items():
        if isinstance(each, Mapping):
            yield from ((f"{name}/{inner}", value) for inner, value in scalars(each))
        elif isinstance(each, (list, tuple)):
            known = ((n, value) for n, value in enumerate(each) if value is not None)
            yield from ((f"{name}/{n}", float(value)) for n, value in known)
        elif name != "step":
            yield name, float(each)


# ── protocol buffers ──────────────────────────────────────────────────────────────────────────


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


# ── the checksum of records: CRC-32C, turned by 15 bits and moved ─────────────────────────────


@cache
def _table() -> list[int]:
    found: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        found.append(byte)
    return found


def crc32c(content: bytes) -> int:
    """The checksum of Castagnoli's polynomial.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table, found = _table(), 0xFFFFFFFF
    for byte in content:
        found = table[(found ^ byte) & 0xFF] ^ found >> 8
    return found ^ 0xFFFFFFFF


def _masked(content: bytes) -> bytes:
    found = crc32c(content)
    turned = (found >> 15 | found << 17) & 0xFFFFFFFF
    return struct.pack("<I", (turned + 0xA282EAD8) & 0xFFFFFFFF)
