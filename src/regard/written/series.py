"""Numbers in a row, however they stand: in brackets, down a column, one a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from regard.written.found import Value
from regard.written.source import Source
from regard.written.words import is_sum

__all__ = ["series"]


def series(source: Source, values: list[Value]) -> Iterator[Value]:
    """Matrices and vectors as they are, columns laid down, numbers that stand one a line as one."""
    listed: list[Value] = []
    for value in [*values, None]:
        number = value if value is not None and value.is_number else None
        if number is not None and is_sum(number.lead.strip(" =:≈\t")):
            number = None
        if listed and (number is None or not _goes_on(source, listed[-1], number)):
            if len(listed) > 1:
                row = [each.figure for each in listed]
                yield Value(row[0].start, [row], listed[0].lead, listed[0].titles, is_vector=True)
            listed = []
        if number is not None:
            listed.append(number)
        elif value is not None and not value.is_number:
            if value.shape[1] == 1 < value.shape[0]:
                yield replace(value, rows=[[row[0] for row in value.rows]])
            elif len({len(row) for row in value.rows}) == 1:
                yield value


def _goes_on(source: Source, last: Value, value: Value) -> bool:
    """Whether a number stands below another, behind the same kind of words."""
    lines = source.line(value.start) - source.line(last.start)
    above = value.titles[0] if value.titles else ""
    nothing_between = value.titles[:1] == last.titles[:1] or last.figure.text in above
    return 0 < lines <= 2 and nothing_between and _form(last.lead) == _form(value.lead)


def _form(lead: str) -> str:
    """What stands left of a number, without its words and blanks."""
    return re.sub(r"[\"'“”‘’][^\"'“”‘’]*[\"'“”‘’]|[^\W_]+(?:\.\d+)?", "w", lead).replace(" ", "")
