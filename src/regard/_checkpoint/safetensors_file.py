"""A safetensors file: its header is read strictly before anything else, its numbers on request.

Such a file is eight bytes (the length of the header, little-endian), the header (a JSON object: the
name of each tensor to its dtype, shape and place), and the numbers. The places must cover the
numbers exactly: in order, without overlap, without holes, to the last byte.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import struct
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from regard._checkpoint.errors import COPY_FILE, CheckpointError, listed, plain, reading
from regard._checkpoint.files import open_own, parse_object

if TYPE_CHECKING:
    from torch import Tensor

LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_MOST_AXES = 64  # PyTorch's limit
_LARGEST = 2**63 - 1
TORCH_DTYPES = {  # the dtypes that a file may have, and their names in torch
    **{"BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64"},
    **{"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"},
    **{"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"},
    **{"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"},
}
_BITS = {name: re.findall(r"\d+", name)[:1] or ["8"] for name in TORCH_DTYPES}
_BYTES = {name: int(bits) // 8 for name, [bits] in _BITS.items()}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: its dtype, its shape, and where it stands after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return (self.end - self.start) // _BYTES[self.dtype]


# ── reading ───────────────────────────────────────────────────────────────────────────────────

_numbers = itertools.count()


class Opened:
    """An open file whose header has been checked: its tensors, and what is said about them.

    Its bytes are read, and never mapped: where a file that is mapped is cut short by another
    program, looking at it ends the process.
    """

    def __init__(
        self, path: Path, handle: int, entries: dict[str, Entry], about: dict[str, str], start: int
    ) -> None:
        self.number = next(_numbers)  # of no other file that was opened
        self.path = path
        self.entries = entries
        self.about = about
        self._start = start  # of the numbers
        self._handle = handle
        self._was = self.state
        self.close = weakref.finalize(self, os.close, handle)

    @property
    def state(self) -> tuple[int, int]:
        """What changes when the file does."""
        now = os.fstat(self._handle)
        return now.st_size, now.st_mtime_ns

    def tensor(self, entry: Entry) -> Tensor:
        """A whole tensor, in memory."""
        import torch

        found = torch.empty(entry.shape, dtype=getattr(torch, TORCH_DTYPES[entry.dtype]))
        if found.numel():
            self.read(entry.start, found.view(-1).view(torch.uint8).numpy().data)
        return found

    def read(self, start: int, into: memoryview) -> None:
        """Fill a buffer with what stands from `start` on, counted as in the header.

        Raises CheckpointError if the file is not any more what it was when it was opened. One that
        was replaced, or deleted, is read as it was.
        """
        at = self._start + start
        done = 0
        with reading(self.path):
            while done < len(into) and (count := os.preadv(self._handle, [into[done:]], at + done)):
                done += count
        if done < len(into) or self.state != self._was:
            raise CheckpointError(
                self.path, "stay as it is while it is open", "another content", "Load it again."
            )


def open_tensors(path: str | Path) -> Opened:
    """Open a safetensors file.

    Raises CheckpointError if there is anything wrong with the header, or with the file's length.
    """
    path = Path(path)
    handle = open_own(path)
    try:
        with reading(path), os.fdopen(handle, "rb", closefd=False) as file:
            size = os.fstat(handle).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            content = file.read(length) if length <= min(LONGEST_HEADER, size - 8) else b""
        longest = f"have a header of at most {LONGEST_HEADER:,} bytes"
        whole = f"hold its header of {length:,} bytes"
        for wrong, expected, found in (
            (len(start) < 8, "be a safetensors file", f"{size} bytes"),
            (length > LONGEST_HEADER, longest, f"{length:,}"),
            (len(content) < length, whole, f"{size:,} bytes in all"),
            (content[:1] != b"{", "have a header that starts with {", "something else"),
        ):
            if wrong:
                raise CheckpointError(path, expected, found, COPY_FILE)
        header = parse_object(content, path, "have as its header")
        about = header.pop("__metadata__", None)
        about = {} if about is None else about
        if not isinstance(about, dict) or not all(isinstance(x, str) for x in about.values()):
            expected = "have strings as its __metadata__"
            raise CheckpointError(path, expected, "something else", COPY_FILE)
        entries = _entries(header, path, size - 8 - length)
        return Opened(path, handle, entries, about, start=8 + length)
    except BaseException:
        os.close(handle)
        raise


def read_header(path: str | Path) -> dict[str, Entry]:
    """The tensors of a safetensors file by name, in the order of their places."""
    with contextlib.closing(open_tensors(path)) as opened:
        return opened.entries


def _entries(header: dict[str, Any], path: Path, room: int) -> dict[str, Entry]:
    """The tensors of a header, whose places cover `room` bytes."""
    found = {name: _entry(name, value, path, room) for name, value in header.items()}
    ordered = sorted(found.items(), key=lambda item: (item[1].start, item[1].end))
    reached = 0
    before = "the header"
    for name, entry in ordered:
        if entry.start != reached:
            wrong = "an overlap" if entry.start < reached else "a hole"
            expected = f"start where {plain(before)} ends, at {reached}"
            place = f"its place being {entry.start:,} to {entry.end:,}"
            raise CheckpointError(path, expected, f"{wrong}, {place}", COPY_FILE, name)
        reached, before = entry.end, name
    if reached != room:
        expected = f"end after its last tensor, at byte {reached:,} of the numbers"
        raise CheckpointError(path, expected, f"{room:,} bytes", COPY_FILE)
    return dict(ordered)


def _entry(name: str, value: object, path: Path, room: int) -> Entry:
    def refuse(expected: str, found: str) -> NoReturn:
        raise CheckpointError(path, expected, found, COPY_FILE, name)

    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        refuse("have a name in Unicode", "half of a surrogate pair")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        keys = listed(value) if isinstance(value, dict) else type(value).__name__
        refuse("have dtype, shape and data_offsets, nothing else", keys or "none")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        refuse(f"have one of the dtypes {listed(_BYTES)}", plain(dtype))
    if not _are_sizes(shape) or len(shape) > _MOST_AXES:
        refuse(f"have a shape of at most {_MOST_AXES} whole numbers", plain(shape))
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        refuse("have a start and an end, in this order", plain(offsets))
    start, end = offsets
    if end > room:
        refuse(f"end within the file's {room:,} bytes of numbers", f"an end at {end:,}")
    length = _BYTES[dtype]
    for axis in shape:  # the partial products count too: a reader that multiplies would overflow
        length *= axis
        if length > _LARGEST:
            refuse("have a shape that fits into memory", plain(shape))
    if length != end - start:
        expected = f"have {length:,} bytes, as {dtype} of the shape {plain(shape)} has"
        refuse(expected, f"{end - start:,}")
    return Entry(dtype, tuple(shape), start, end)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(
        type(number) is int and 0 <= number <= _LARGEST for number in value
    )


# ── writing ───────────────────────────────────────────────────────────────────────────────────


def write_tensors(
    library: Any, tensors: dict[str, Tensor], file: Path, about: dict[str, str]
) -> None:
    """Write tensors and what is said `about` them to a file, which has the usual permissions.

    `library` is safetensors.torch, which takes none with gaps or with memory in common.
    """
    own: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        place = whole.untyped_storage().data_ptr()
        own[name] = whole.clone() if place in taken else whole
        taken.add(place)
    file.touch()
    mode = stat.S_IMODE(file.stat().st_mode)
    with as_os_error(file):
        library.save_file(own, file, about)
    file.chmod(mode)  # the library makes its file for the owner alone


@contextlib.contextmanager
def as_os_error(file: Path) -> Generator[None]:
    """Raise OSError for an error of a library in Rust that has the system's number in it."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, OSError):
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(file)) from error
