"""The texts of a source, one after the other, from any of them on; a bad one has its reason.

A text file is cut where its bytes say: whole, at line ends, or at lines that have nothing but
blanks. So what is no UTF-8 spoils the text that it stands in, and no other.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from regard._checkpoint.errors import plain
from regard._extras import need
from regard.corpus.sources import Source

By = Literal["file", "paragraph", "line"]
LONGEST = 1 << 24  # bytes of a text; of a longer one nothing is read
_PORTION = 1 << 20


@dataclass(frozen=True)
class Raw:
    """A text as it stands in its source: `offset` is where to begin reading to get it (bytes of a
    file, rows of a table), `position` where a reader finds it: the line from 1, the row from 0.

    `content` is None if there is a `reason` why it is not there. `size` is in bytes.
    """

    offset: int
    position: int
    size: int
    content: bytes | None
    reason: str | None = None


@dataclass(frozen=True)
class Cut:
    """How sources become texts: what of a text file is one, and which field of a table has it."""

    by: By = "file"
    field: str = "text"


def texts_of(
    source: Source, cut: Cut, offset: int = 0, position: int | None = None
) -> Iterator[Raw]:
    """The texts from `offset` on, which is that of a text, or 0. Raises ValueError for a table that
    has no such field, or is none.
    """
    if source.kind in ("parquet", "arrow"):
        return _TABLES[source.kind](source.path, cut.field, offset)
    return _from_file(source, cut, offset, position or 1)


def some_texts(source: Source, cut: Cut, offset: int, position: int, count: int) -> Iterator[Raw]:
    """The same, so many of them."""
    return islice(texts_of(source, cut, offset, position), count)


# ── files of bytes ────────────────────────────────────────────────────────────────────────────


def _from_file(source: Source, cut: Cut, offset: int, position: int) -> Iterator[Raw]:
    try:
        with source.path.open("rb") as file:
            if source.kind == "text" and cut.by == "file":
                yield _whole(file)
                return
            file.seek(offset)
            lines = _lines(file, offset, position)
            if source.kind == "jsonl":
                yield from (_parsed(raw, cut.field) for raw in lines if not _is_blank(raw))
            elif cut.by == "line":
                yield from (_stripped(raw) for raw in lines if not _is_blank(raw))
            else:
                yield from map(_stripped, _paragraphs(lines))
    except OSError as error:
        yield Raw(offset, position, 0, None, f"cannot be read: {error.strerror or error}")


def _whole(file: BinaryIO) -> Raw:
    content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        return Raw(0, 1, len(content), None, _too_long())
    return Raw(0, 1, len(content), content.removeprefix(codecs.BOM_UTF8))


def _too_long() -> str:
    return f"too long: more than {LONGEST:,} bytes"


def _lines(file: BinaryIO, offset: int, number: int) -> Iterator[Raw]:
    """The lines with their ends, each with its number; of one that is too long, its length only."""
    while line := file.readline(LONGEST):
        size, reason = len(line), None
        while not line.endswith(b"\n") and (more := file.readline(_PORTION)):
            size, reason, line = size + len(more), _too_long(), more
        content = None if reason else line
        if offset == 0 and content is not None:
            content = content.removeprefix(codecs.BOM_UTF8)
        yield Raw(offset, number, size, content, reason)
        offset, number = offset + size, number + 1


def _is_blank(raw: Raw) -> bool:
    return raw.content is not None and not raw.content.strip()


def _stripped(raw: Raw) -> Raw:
    if raw.content is None:
        return raw
    return Raw(raw.offset, raw.position, raw.size, raw.content.strip(b"\r\n"))


def _paragraphs(lines: Iterator[Raw]) -> Iterator[Raw]:
    """Lines between those that are blank, put together."""
    first: Raw | None = None
    parts: list[bytes] = []
    size, reason = 0, None

    def made(start: Raw) -> Raw:
        content = None if reason else b"".join(parts)
        return Raw(start.offset, start.position, size, content, reason)

    for line in lines:
        if _is_blank(line):
            if first is not None:
                yield made(first)
            first = None
            continue
        if first is None:
            first, size, reason = line, 0, None
            parts.clear()
        size += line.size
        if line.content is None or size > LONGEST:
            reason = _too_long()
            parts.clear()
        else:
            parts.append(line.content)
    if first is not None:
        yield made(first)


def _parsed(raw: Raw, field: str) -> Raw:
    """The text of a line of JSON."""
    if raw.content is None:
        return raw
    content, reason = None, None
    try:
        found = json.loads(raw.content)
        text = found[field] if isinstance(found, dict) else None
        if isinstance(text, str):
            content = text.encode("utf-8", "surrogatepass")
        elif not isinstance(found, dict):
            reason = "broken JSON: the line is no object"
        else:
            reason = f"no text: {plain(field)} is {_named(text)}"
    except KeyError:
        reason = f"no text: there is no {plain(field)}"
    except (ValueError, RecursionError) as error:
        said = f"byte {error.start + 1}" if isinstance(error, UnicodeDecodeError) else plain(error)
        is_utf8 = not isinstance(error, UnicodeDecodeError)
        reason = f"broken JSON: {said}" if is_utf8 else f"not UTF-8: {said} of the line is wrong"
    return Raw(raw.offset, raw.position, raw.size, content, reason)


def _named(value: object) -> str:
    kinds = {"NoneType": "null", "list": "an array", "dict": "an object", "bool": "true or false"}
    return kinds.get(type(value).__name__, "a number")


# ── tables ────────────────────────────────────────────────────────────────────────────────────


def _from_parquet(path: Path, field: str, offset: int) -> Iterator[Raw]:
    """Rows by row group; the last column that was read is kept, as the next unit wants it again."""
    arrow, parquet = (
        need("corpus()", "pyarrow", "runs"),
        need("corpus()", "pyarrow.parquet", "runs"),
    )
    try:
        with parquet.ParquetFile(path) as file:
            _check_column(arrow, path, file.schema_arrow, field)
            start = 0
            for group in range(file.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if offset < end:
                    column = _kept(path, group, lambda n=group: file.read_row_group(n, [field])[0])
                    for chunk in column.chunks:
                        yield from _rows(arrow, chunk, start, offset)
                        start += len(chunk)
                start = end
    except (OSError, arrow.ArrowException) as error:
        raise _no_table(path, "Parquet", error) from None


def _from_arrow(path: Path, field: str, offset: int) -> Iterator[Raw]:
    arrow = need("corpus()", "pyarrow", "runs")
    try:
        with arrow.memory_map(str(path)) as file:
            try:
                reader = arrow.ipc.open_stream(file)
                batches = iter(reader)
            except arrow.ArrowInvalid:  # the other of Arrow's two forms
                reader = arrow.ipc.open_file(file)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            _check_column(arrow, path, reader.schema, field)
            start = 0
            for batch in batches:
                if offset < start + len(batch):
                    yield from _rows(arrow, batch.column(field), start, offset)
                start += len(batch)
    except (OSError, arrow.ArrowException) as error:
        raise _no_table(path, "Arrow", error) from None


_TABLES: dict[str, Callable[[Path, str, int], Iterator[Raw]]] = {
    "parquet": _from_parquet,
    "arrow": _from_arrow,
}
_last: list[tuple[Path, int, Any]] = []  # at most one


def _kept(path: Path, group: int, read: Callable[[], Any]) -> Any:
    if not _last or _last[0][:2] != (path, group):
        _last[:] = [(path, group, read())]
    return _last[0][2]


def _rows(arrow: Any, column: Any, start: int, offset: int) -> Iterator[Raw]:
    """The texts of a column whose first row is the `start`-th, from the `offset`-th on."""
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_large = arrow.types.is_large_string(column.type) or arrow.types.is_large_binary(column.type)
    column = column.cast(arrow.large_binary() if is_large else arrow.binary())
    for row in range(max(offset - start, 0), len(column)):
        content, place = column[row].as_py(), start + row
        if content is None:
            yield Raw(place, place, 0, None, "no text: the field is null")
        elif len(content) > LONGEST:
            yield Raw(place, place, len(content), None, _too_long())
        else:
            yield Raw(place, place, len(content), content)


def _check_column(arrow: Any, path: Path, schema: Any, field: str) -> None:
    kinds = {each.name: each.type for each in schema}
    kind = kinds.get(field)
    if kind is not None and arrow.types.is_dictionary(kind):
        kind = kind.value_type
    if kind is None or not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        columns = ", ".join(f"{plain(name)} ({kind})" for name, kind in list(kinds.items())[:20])
        raise ValueError(
            f"corpus(): {plain(path)} must have a column {plain(field)} of texts; got "
            f"{columns or 'none'}. Say which with field=…."
        )


def _no_table(path: Path, form: str, error: BaseException) -> ValueError:
    said = plain(" ".join(str(error).split()), 200)
    return ValueError(f"corpus(): {plain(path)} must be a whole file of {form}; got {said}.")
