"""What TensorBoard is written: the numbers of the log, in records that it accepts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_run import left, small, trained

from regard._tensorboard import TENSORBOARD, Events, crc32c, scalars

Fields = dict[int, list[Any]]


def fields_of(content: bytes) -> Fields:
    """The fields of a message of protocol buffers, by their numbers."""
    found: Fields = {}
    place = 0

    def varint() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = content[place]
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while place < len(content):
        tag = varint()
        kind = tag & 7
        size = {0: 0, 1: 8, 5: 4}.get(kind, -1)
        value: Any = varint() if kind in (0, 2) else None
        if kind != 0:
            size = value if kind == 2 else size
            value = content[place : place + size]
            place += size
        found.setdefault(tag >> 3, []).append(value)
    return found


def unmasked(checksum: bytes) -> int:
    turned = (struct.unpack("<I", checksum)[0] - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF


def records(path: Path) -> Iterator[Fields]:
    """The records of a file, whose checksums must be right."""
    content = path.read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert unmasked(content[8:12]) == crc32c(content[:8])
        body, rest = content[12 : 12 + length], content[12 + length :]
        assert unmasked(rest[:4]) == crc32c(body)
        yield fields_of(body)
        content = rest[4:]


def points(path: Path) -> dict[tuple[str, int], float]:
    found: dict[tuple[str, int], float] = {}
    for event in records(path):
        for summary in event.get(5, []):
            for value in fields_of(summary).get(1, []):
                each = fields_of(value)
                name = each[1][0].decode()
                found[name, event[2][0]] = struct.unpack("<f", each[2][0])[0]
    return found


def test_tensorboard_gets_every_number_of_the_log(tmp_path: Path) -> None:
    trained(tmp_path, small(watch={"tensorboard": True, "every": 3}))
    (path,) = (tmp_path / TENSORBOARD).iterdir()
    assert path.name.startswith("events.out.tfevents.")
    assert next(records(path))[3] == [b"brain.Event:2"]
    wanted = {
        (name, line["step"]): value
        for line in left(tmp_path)["log"]
        for name, value in scalars(line)
    }
    assert len(wanted) > 3 * 13
    found = points(path)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-6)


def test_a_run_that_goes_on_takes_the_place_of_what_was_written_later(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    trained(whole, small())
    trained(cut, small(training={"steps": 13}, watch={"tensorboard": True}))
    assert left(cut)["optimizer.safetensors"] == left(whole)["optimizer.safetensors"]
    events = Events(tmp_path / "events", 7)
    events.add({"step": 8, "loss": 0.5})
    events.close()
    (path,) = (tmp_path / "events").iterdir()
    _, start, _ = records(path)
    assert start[2] == [8]
    assert fields_of(start[7][0]) == {1: [1]}
    assert points(path) == {("loss", 8): 0.5}
