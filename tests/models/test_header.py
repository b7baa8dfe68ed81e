"""The header of a safetensors file: a wrong one is never accepted, and is refused in words."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_folders import file_of
from helpers.soak import times
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file

from regard._checkpoint.safetensors_file import LONGEST_HEADER, read_header
from regard.models import CheckpointError


def place(
    start: int, end: int, shape: list[int] | None = None, dtype: str = "F32"
) -> dict[str, Any]:
    count = [(end - start) // 4] if shape is None else shape
    return {"dtype": dtype, "shape": count, "data_offsets": [start, end]}


# A file, and what must be said about it.
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "be a safetensors file"),
    "seven bytes": (bytes(7), "7 bytes"),
    "no header": (bytes(8), "starts with {"),
    "a header of 2^64 - 1 bytes": (file_of(b"{}", length=2**64 - 1), "at most 100,000,000"),
    "a header over the limit": (file_of(b"{}", length=LONGEST_HEADER + 1), "at most 100,000,000"),
    "a header of the limit": (file_of(b"{}", length=LONGEST_HEADER), "hold its header"),
    "a header longer than the file": (file_of(b"{}", length=3), "hold its header"),
    "a space first": (file_of(b" {}"), "starts with {"),
    "an array": (file_of(b"[]"), "starts with {"),
    "half an object": (file_of(b'{"a": '), "JSON object"),
    "two objects": (file_of(b"{}{}"), "JSON object"),
    "a zero after it": (file_of(b"{}\0"), "JSON object"),
    "no UTF-8": (file_of(b'{"\xff": 1}'), "UTF-8"),
    "half a surrogate": (file_of({"\ud800": place(0, 4)}, bytes(4)), "surrogate"),
    "nested deeply": (file_of(b'{"a":' * 50_000), "JSON object"),
    "a key twice": (
        file_of(b'{"w": %b, "w": %b}' % ((json.dumps(place(0, 4)).encode(),) * 2), bytes(4)),
        "'w' twice",
    ),
    "a field twice": (
        file_of(b'{"w": {"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        "'dtype' twice",
    ),
    "metadata twice": (file_of(b'{"__metadata__": {}, "__metadata__": {}}'), "twice"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "__metadata__"),
    "metadata as an array": (file_of({"__metadata__": ["a"]}), "__metadata__"),
    "a tensor as a number": (file_of({"w": 3}), "dtype, shape and data_offsets"),
    "a tensor as null": (file_of({"w": None}), "dtype, shape and data_offsets"),
    "no shape": (file_of({"w": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)), "shape"),
    "one field more": (file_of({"w": place(0, 4) | {"x": 1}}, bytes(4)), "nothing else"),
    "an unknown dtype": (file_of({"w": place(0, 4, dtype="F33")}, bytes(4)), "F33"),
    "a small letter": (file_of({"w": place(0, 4, dtype="f32")}, bytes(4)), "f32"),
    "a list as dtype": (file_of({"w": place(0, 4) | {"dtype": ["F32"]}}, bytes(4)), "dtypes"),
    "a shape as a number": (file_of({"w": place(0, 4) | {"shape": 1}}, bytes(4)), "shape"),
    "a negative axis": (file_of({"w": place(0, 4, [-1])}, bytes(4)), "shape"),
    "two negative axes": (file_of({"w": place(0, 4, [-1, -1])}, bytes(4)), "shape"),
    "a fraction of an axis": (file_of({"w": place(0, 4) | {"shape": [1.0]}}, bytes(4)), "shape"),
    "true as an axis": (file_of({"w": place(0, 4) | {"shape": [True]}}, bytes(4)), "shape"),
    "text as an axis": (file_of({"w": place(0, 4) | {"shape": ["1"]}}, bytes(4)), "shape"),
    "too many axes": (file_of({"w": place(0, 4, [1] * 65)}, bytes(4)), "at most 64"),
    "a shape that overflows to 0": (
        file_of({"w": place(0, 0, [2**32, 2**32])}),
        "fits into memory",
    ),
    "an overflow before a 0": (file_of({"w": place(0, 0, [2**62, 2**62, 0])}), "fits into memory"),
    "an axis beyond 64 bits": (file_of({"w": place(0, 4, [2**64 + 1])}, bytes(4)), "shape"),
    "another shape": (file_of({"w": place(0, 8, [3])}, bytes(8)), "have 12 bytes"),
    "another dtype": (file_of({"w": place(0, 8, [2], "F16")}, bytes(8)), "have 4 bytes"),
    "an end before the start": (file_of({"w": place(4, 0, [1])}, bytes(4)), "in this order"),
    "a negative start": (file_of({"w": place(-4, 0, [1])}, bytes(4)), "a start and an end"),
    "three offsets": (
        file_of({"w": place(0, 4) | {"data_offsets": [0, 4, 4]}}, bytes(4)),
        "a start and an end",
    ),
    "offsets of 2^64": (
        file_of({"w": place(2**64, 2**64 + 4, [1])}, bytes(4)),
        "a start and an end",
    ),
    "an end beyond the file": (file_of({"w": place(0, 8)}, bytes(7)), "within the file's 7 bytes"),
    "a hole at the start": (file_of({"w": place(4, 8)}, bytes(8)), "a hole"),
    "a hole between": (file_of({"a": place(0, 4), "b": place(8, 12)}, bytes(12)), "a hole"),
    "an overlap": (file_of({"a": place(0, 8), "b": place(4, 12)}, bytes(12)), "an overlap"),
    "one inside another": (file_of({"a": place(0, 12), "b": place(4, 8)}, bytes(12)), "an overlap"),
    "bytes left at the end": (file_of({"w": place(0, 4)}, bytes(5)), "end after its last tensor"),
    "bytes without a tensor": (file_of({}, bytes(1)), "end after its last tensor"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_header_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    content, reason = WRONG[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_header(path)
    assert reason in str(caught.value)
    assert "model.safetensors" in str(caught.value)


def test_a_huge_header_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 2**40))
        file.truncate(2**41)  # a file with a hole: it takes no room
    with pytest.raises(CheckpointError, match="at most 100,000,000"):
        read_header(path)


def test_what_the_library_saves_is_read_as_it_is(tmp_path: Path) -> None:
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
    kinds += [torch.uint8, torch.int8, torch.int16, torch.int32, torch.float8_e4m3fn]
    tensors = {str(kind): torch.zeros(2, i + 1).to(kind) for i, kind in enumerate(kinds)}
    tensors |= {"scalar": torch.tensor(3.0), "empty": torch.ones(0, 5), "ভাত": torch.ones(1)}
    path = tmp_path / "model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    found = read_header(path)
    assert {name: entry.shape for name, entry in found.items()} == {
        name: tuple(tensor.shape) for name, tensor in tensors.items()
    }
    assert all(found[name].count == tensor.numel() for name, tensor in tensors.items())


VALID = save({"a": torch.ones(2, 3), "b": torch.zeros(5, dtype=torch.int64), "c": torch.ones(0)})

names = st.sampled_from(["a", "b", "c", "__metadata__", ""]) | st.text(max_size=4)
whole = st.integers(-2, 40) | st.sampled_from([2**31, 2**32, 2**62, 2**63, 2**64, 10**30])
odd = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | whole
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "I64", "U8", "BF16", "F4", "C64", "f32"]) | odd,
        "shape": st.lists(st.integers(0, 5), max_size=3) | st.lists(whole, max_size=3) | odd,
        "data_offsets": st.tuples(st.integers(0, 40), st.integers(0, 40)).map(list)
        | st.lists(whole, max_size=3)
        | odd,
    }
)


@st.composite
def tiled(draw: st.DrawFn) -> bytes:
    """A header that is right, or nearly: tensors one after the other, one number moved or none."""
    header: dict[str, Any] = {}
    reached = 0
    for name in draw(st.lists(names, max_size=4, unique=True)):
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        dtype, size = draw(st.sampled_from([("F32", 4), ("I64", 8), ("U8", 1), ("BF16", 2)]))
        length = size
        for axis in shape:
            length *= axis
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [reached, reached + length]}
        reached += length
    header.pop("__metadata__", None)
    if header and draw(st.booleans()):
        entry = header[draw(st.sampled_from(sorted(header)))]
        entry["data_offsets"][draw(st.integers(0, 1))] += draw(st.integers(-4, 4))
    room = reached + draw(st.sampled_from([0, 0, 0, 1, -1, 4]))
    return file_of(header, bytes(max(room, 0)))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file of the library with some bytes changed, taken out or put in."""
    content = bytearray(VALID)
    for _ in range(draw(st.integers(1, 3))):
        # Mostly in the header: the numbers may be anything.
        at = draw(st.integers(0, min(len(content), 220)))
        new = draw(st.binary(max_size=3) | st.sampled_from([b"0", b"9", b"-", b",", b'"', b"}"]))
        content[at : at + draw(st.integers(0, 3))] = new
    return bytes(content)


def anything() -> st.SearchStrategy[bytes]:
    invented = st.dictionaries(names, entries | odd, max_size=3)
    return (
        st.binary(max_size=80)
        | st.binary(max_size=80).map(file_of)
        | st.builds(file_of, invented, st.binary(max_size=40))
        | tiled()
        | mutated()
    )


@settings(max_examples=times(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=anything())
@example(content=VALID)
@example(content=file_of({}))
@example(content=file_of({"__metadata__": {}}))
def test_any_bytes_are_refused_in_words_or_accepted_by_the_library_too(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    try:
        found = read_header(path)
    except CheckpointError as error:
        assert str(error).startswith("load(): ")  # noqa: PT017
        return
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == set(found)
        for name, entry in found.items():
            tensor = file.get_tensor(name)
            assert tuple(tensor.shape) == entry.shape
            assert tensor.numel() == entry.count
            assert tensor.numel() * tensor.element_size() == entry.end - entry.start
            start = len(content) - sum(e.end - e.start for e in found.values()) + entry.start
            numbers = content[start : start + entry.end - entry.start]
            assert tensor.flatten().view(torch.uint8).numpy().tobytes() == numbers


@settings(max_examples=times(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=tiled())
def test_what_the_library_refuses_is_refused_and_no_right_file_is(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    try:
        with safe_open(path, framework="pt") as file:
            theirs = set(file.keys())
    except SafetensorError:
        with pytest.raises(CheckpointError):
            read_header(path)
    else:
        assert set(read_header(path)) == theirs
