"""Matrices in JSON and TOML, with the place of every number in the file.

The standard parsers say whether a file is right; they do not say where its numbers stand. So each
file is read twice: by them, for their verdict, and by the small scanner here, for the places.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from regard.written.figures import NUMBER, Figure, read_figure
from regard.written.found import Found, Value
from regard.written.names import name_of
from regard.written.source import Source, Unreadable, numbers
from regard.written.words import head_in

__all__ = ["is_structured", "read_structured"]


def figure_at(source: Source, text: str, start: int) -> Figure:
    try:
        return read_figure(text, start)
    except ValueError as error:
        raise Unreadable(f"{source.name}, {source.place(start)}: {error}.") from None


_DEPTH = 32
_TOKENS = re.compile(r"tokens?|words?|sentence|sequence", re.IGNORECASE)
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_TOML_KEY = re.compile(
    r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:[ \t]*\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*"""
)
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.DOTALL
)
_SCALAR = re.compile(r"[^\s,\[\]{}#]+")


def is_structured(source: Source) -> bool:
    """Whether a source is JSON or TOML: by its name, or because it starts as JSON does."""
    if source.suffix in (".json", ".toml"):
        return True
    if source.text.lstrip()[:1] != "{" or source.text.rstrip()[-1:] != "}":
        return False
    try:
        return isinstance(json.loads(source.text), dict)
    except (ValueError, RecursionError):
        return False


def read_structured(source: Source) -> Found:
    """Every array of numbers in the file, under the name that it has there."""
    _let_the_parser_judge(source)
    scanner = _Scanner(source)
    tree = scanner.toml() if source.suffix == ".toml" else scanner.value(0)
    found = Found(is_prose=False)
    _collect(source, tree, [], found)
    found.values.sort(key=lambda block: block.start)
    return found


def _let_the_parser_judge(source: Source) -> None:
    try:
        if source.suffix == ".toml":
            tomllib.loads(source.text)
        else:
            json.loads(source.text)
    except RecursionError:
        raise Unreadable(f"{source.name} is nested too deeply.") from None
    except ValueError as error:
        kind = "TOML" if source.suffix == ".toml" else "JSON"
        raise Unreadable(f"{source.name} is not {kind}: {error}.") from None


class _Word(str):
    """A value that is no number, with its place."""

    start: int

    def __new__(cls, text: str, start: int) -> _Word:
        self = super().__new__(cls, text)
        self.start = start
        return self


class _Scanner:
    """Reads values with their places: figures for numbers, str, list and dict for the rest."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.at = source, source.text, 0

    def _skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def toml(self) -> dict[str, Any]:
        root: dict[str, Any] = {}
        table = root
        while True:
            self._skip()
            if self.at >= len(self.text):
                return root
            if header := re.compile(r"\[\[?\s*([^\]\n]+?)\s*\]\]?").match(self.text, self.at):
                table = root
                *path, last = self._key_parts(header[1], 0)
                for part in path:
                    table = _last(table.setdefault(part, {}))
                if header[0].startswith("[["):
                    table.setdefault(last, []).append({})
                table = _last(table.setdefault(last, {}))
                self.at = header.end()
                continue
            self._assignment(table, 0)

    def _assignment(self, table: dict[str, Any], depth: int) -> None:
        match = _TOML_KEY.match(self.text, self.at)
        assert match is not None  # tomllib has read this file already
        *path, last = self._key_parts(match[0], depth)
        for part in path:
            table = _last(table.setdefault(part, {}))
        self.at = match.end()
        self._skip()
        self.at += 1  # the equals sign
        table[last] = self.value(depth + len(path) + 1)

    def _key_parts(self, key: str, depth: int) -> list[str]:
        parts = [part.strip("\"'") for part in re.findall(r"[\w-]+|\"[^\"]*\"|'[^']*'", key)]
        if depth + len(parts) > _DEPTH:
            raise Unreadable(f"{self.source.name} is nested too deeply.")
        return parts

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise Unreadable(f"{self.source.name} is nested too deeply.")
        self._skip()
        if string := _STRING.match(self.text, self.at):
            self.at = string.end()
            inner = string[0].strip("\"'")
            # A masked score can only be written as a word in JSON.
            if re.fullmatch(r"[+\-−]?(?:inf(?:inity)?|∞)", inner, re.IGNORECASE):
                return figure_at(
                    self.source, inner, string.start() + len(string[0]) - len(inner) - 1
                )
            text = json.loads(string[0]) if string[0][:3].count('"') == 1 else inner
            return _Word(text, string.start())
        opening = self.text[self.at]
        if opening == "[":
            return self._array(depth)
        if opening == "{":
            return self._object(depth)
        match = _SCALAR.match(self.text, self.at)
        assert match is not None  # the parser has read this file already
        self.at = match.end()
        if re.fullmatch(NUMBER, match[0], re.IGNORECASE):
            return figure_at(self.source, match[0], match.start())
        return _Word(match[0], match.start())

    def _array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at] == "]":
                self.at += 1
                return items
            if self.text[self.at] == ",":
                self.at += 1
                continue
            items.append(self.value(depth + 1))

    def _object(self, depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at] == "}":
                self.at += 1
                return items
            if self.text[self.at] == ",":
                self.at += 1
                continue
            if key := _STRING.match(self.text, self.at):
                self.at = key.end()
                self._skip()
                if self.text[self.at] == ":":
                    self.at += 1
                    items[json.loads(key[0])] = self.value(depth + 1)
                    continue
                self.at = key.start()
            self._assignment(items, depth)


def _last(table: Any) -> dict[str, Any]:
    """A table, or the newest of an array of tables."""
    return table[-1] if isinstance(table, list) else table


def _collect(source: Source, node: Any, path: list[str], found: Found) -> None:
    name = path[-1] if path else ""
    if isinstance(node, Figure):
        found.values.append(Value(node.start, [[node]], name, is_number=True))
    elif isinstance(node, dict):
        rows = list(node.values())
        if (
            len(rows) > 1
            and all(_is_vector(row) for row in rows)
            and _known(path)
            and not any(name_of(key) for key in node)
        ):
            _add(source, rows, path, found, row_labels=list(node))
        else:
            for key, child in node.items():
                _collect(source, child, [*path, str(key)], found)
    elif isinstance(node, list) and node:
        if all(isinstance(item, str) for item in node):
            if _TOKENS.fullmatch(name) and not found.tokens:
                found.tokens = list(node)
        elif _is_vector(node):
            _add(source, [node], path, found, is_vector=True)
        elif all(isinstance(item, list) for item in node):
            if any(isinstance(item, list) for row in node for item in row):
                for head, matrix in enumerate(node, 1):
                    _collect(source, matrix, [*path[:-1], f"head_{head}", name], found)
            else:
                _add(source, node, path, found)
        else:
            for number, item in enumerate(node, 1):
                if isinstance(item, dict):
                    _collect(source, item, [*path, f"head_{number}"], found)
                elif any(isinstance(other, list) for other in node):
                    label = ".".join(path) or "the file"
                    if not isinstance(item, list):
                        raise Unreadable(f"{source.name}: {label}: row {number} is no row.")


def _is_vector(node: Any) -> bool:
    return isinstance(node, list) and bool(node) and any(isinstance(i, Figure) for i in node)


def _known(path: list[str]) -> bool:
    return any(name_of(part) for part in path)


def _add(
    source: Source,
    rows: list[Any],
    path: list[str],
    found: Found,
    *,
    row_labels: list[str] | None = None,
    is_vector: bool = False,
) -> None:
    label = ".".join(path) or "the file"
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    for number, row in enumerate(rows, 1):
        for item in row:
            if not isinstance(item, Figure):
                place = f", {source.place(item.start)}" if isinstance(item, _Word) else ""
                raise Unreadable(
                    f"{source.name}{place}: {label}, row {number}: “{item}” is not a number."
                )
        if len(row) != width or not row:
            raise Unreadable(
                f"{source.name}: a ragged matrix: row {number} of {label} has {numbers(len(row))}, "
                f"the first row {width}."
            )
    found.values.append(
        Value(
            start=rows[0][0].start,
            rows=rows,
            lead=path[-1] if path else "",
            titles=list(reversed(path[:-1])),
            row_labels=row_labels,
            is_vector=is_vector,
            head=next((head for part in reversed(path) if (head := head_in(part))), None),
        )
    )
