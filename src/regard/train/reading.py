"""Files as people bring them: texts, pairs, tables, all in UTF-8; a fault is named by its line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
from collections.abc import Generator, Iterator
from pathlib import Path

from regard._checkpoint.errors import plain
from regard.train.texts import TEXTS

_PORTION = 1 << 20  # characters at a time
_LONGEST_LINE = 1_000_000
_MARKS = {  # the longer ones first: one of UTF-32 begins as one of UTF-16 does
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def file_of(name: str, key: str, kind: str) -> Path:
    """The file of a name that `data.key` gives. Raises ValueError if it is no regular file."""
    if not name:
        raise ValueError(f"recipe [data]: {key} must name a file; got ''.")
    path = Path(name)
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that no disk takes
        raise ValueError(f"train(): {plain(name)} must be a file; got {error.strerror}.") from None
    if not is_file:
        known = ", ".join(sorted(each for each, text in TEXTS.items() if text.kind == kind))
        raise ValueError(f"train(): {plain(name)} must be a file, or one of {known}; got neither.")
    return path


def is_folder(name: str) -> bool:
    """Is a name that of a folder? Nothing is the name of none, nor what no disk takes."""
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:
        return False


@contextlib.contextmanager
def reading(path: Path) -> Generator[None]:
    """Raise ValueError for what cannot be read, and for what is no UTF-8."""
    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(f"train(): {path} must be text in UTF-8; got {_other(path)}.") from None
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"train(): {path} must be readable; got {reason}.") from None


def _other(path: Path) -> str:
    """What stands in a file that is no UTF-8, and where."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as file:
        start = file.read(4)
        for mark, name in _MARKS.items():
            if start.startswith(mark):
                return f"{name}: save it as UTF-8"
        file.seek(0)
        while True:
            portion = file.read(_PORTION)
            try:
                decoder.decode(portion, final=not portion)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                return f"the byte {error.object[error.start]:#04x} in line {line}"
            if not portion:
                return "something else"  # it was another one a moment ago
            line += portion.count(b"\n")


def _refuse_zero(path: Path, text: str, line: int) -> None:
    """A zero is no letter of any text: what has one is UTF-16, or no text at all."""
    place = text.find("\0")
    if place >= 0:
        line += text.count("\n", 0, place)
        raise ValueError(
            f"train(): {path} must be text in UTF-8; got a zero byte in line {line}. UTF-16 has "
            "such: save it as UTF-8."
        )


def portions_of(path: Path) -> Iterator[str]:
    """The text of a file, some lines at a time. Raises ValueError if it is none."""
    line = 1
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        while portion := file.read(_PORTION):
            portion += file.readline()
            _refuse_zero(path, portion, line)
            line += portion.count("\n")
            yield portion


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, without their ends, and their numbers."""
    with reading(path), path.open(encoding="utf-8-sig", newline="\n") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE and not line.endswith("\n"):
                raise ValueError(
                    f"train(): line {number} of {path} must have fewer than {_LONGEST_LINE:,} "
                    "characters; got more."
                )
            _refuse_zero(path, line, number)
            yield number, line.rstrip("\r\n")


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────


def pairs_of(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The pairs of a file, by lines; a line that is none is an error that names it."""
    is_json = path.suffix.lower() in (".jsonl", ".ndjson", ".json")
    places = [] if is_json else [_column("source", source), _column("target", target)]
    for number, line in lines_of(path):
        if not line.strip():
            continue
        where = f"train(): line {number} of {path}"
        if is_json:
            try:
                found = json.loads(line)
                pair = found[source], found[target]
            except (ValueError, KeyError, TypeError, IndexError, RecursionError):
                raise ValueError(
                    f"{where} must be a JSON object with {source!r} and {target!r}, one on each "
                    f"line; got {plain(line[:60])}."
                ) from None
        else:
            columns = line.split("\t")
            if len(columns) < max(places):
                count = "one column" if len(columns) == 1 else f"{len(columns)} columns"
                raise ValueError(
                    f"{where} must have at least {max(places)} columns, separated by tabs; got "
                    f"{count}: {plain(line[:60])}."
                )
            pair = columns[places[0] - 1], columns[places[1] - 1]
        if not all(isinstance(text, str) for text in pair):
            raise ValueError(f"{where} must have two texts; got {plain(line[:60])}.")
        if any("\ud800" <= letter <= "\udfff" for text in pair for letter in text):
            raise ValueError(f"{where} must be Unicode; got half of a surrogate pair.")
        first, second = (text.strip() for text in pair)
        if first and second:
            yield first, second


def _column(key: str, name: str) -> int:
    if not name.isdecimal() or len(name) > 6 or int(name) < 1:
        raise ValueError(
            f"recipe [data]: {key} must be the number of a column, from 1; got {plain(name)!r}."
        )
    return int(name)


# ── texts with labels ─────────────────────────────────────────────────────────────────────────


def table_of(path: Path, text: str, label: str) -> Iterator[tuple[str, str]]:
    """The texts of a table in CSV, and their labels; a row that is none is named by its line."""
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            for column in (text, label):
                if header.count(column) != 1:
                    once = " once" if column in header else ""
                    known = plain(", ".join(header)) if header else "no header"
                    raise ValueError(
                        f"train(): {path} must have a column {column!r}{once}; got {known}."
                    )
            places = header.index(text), header.index(label)
            for row in reader:
                if not row:
                    continue
                where = f"train(): line {reader.line_num} of {path}"
                if len(row) > len(header):
                    raise ValueError(
                        f"{where} must have {len(header)} columns, as the header has; got "
                        f"{len(row)}. A text with commas stands in quotes."
                    )
                found = [row[place].strip() if place < len(row) else "" for place in places]
                if not all(found):
                    raise ValueError(f"{where} must have a text and a label; got less.")
                _refuse_zero(path, "".join(found), reader.line_num)
                yield found[0], found[1]
        except csv.Error as error:
            raise ValueError(
                f"train(): line {reader.line_num} of {path} must be of a table in CSV; got {error}."
            ) from None
