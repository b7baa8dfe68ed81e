"""Whose row a vector is, by what stands around it: its symbol, its sentence, what is left of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from regard.written.found import Value
from regard.written.names import Name, name_of, plain

__all__ = ["counted", "label_of", "number_rows", "places_of", "under_each_name"]

_ROW = re.compile(r"\W*(?:row|행|行|第|ligne|zeile|fila|linha|hàng) ?(\d{1,3})\b", re.IGNORECASE)

_COUNTED = re.compile(
    r"(?:[a-z]|token|word|input|row|position|토큰|단어|입력|টোকেন|শব্দ)?[ _#]*(\d{1,4})",
    re.IGNORECASE,
)
_INDEX = re.compile(r"\w\[(\d{1,3})\][\s*`$]*[=:≈]?\s*$")  # V[1] =


def under_each_name(value: Value) -> list[Value]:
    """`Q = K = V = [[1, 0], [0, 1]]` is three matrices."""
    parts = [f"{part}=" for part in value.lead.split("=")[:-1]]
    names = [name_of(part) for part in parts[:5]] if len(parts) > 1 else []
    kinds = {name.kind for name in names if name is not None}
    if not 1 < len(parts) == len(kinds) or not kinds <= {"input", "query", "key", "value"}:
        return [value]
    return [replace(value, lead=part, rows=[row[:] for row in value.rows]) for part in parts]


def number_rows(values: list[Value]) -> None:
    """Tell vectors that are named as programs count them, where one of them is V[0], apart."""
    indices = [(v, index) for v in values if v.is_vector and (index := _INDEX.search(v.lead))]
    if any(int(index[1]) == 0 for _, index in indices):
        for value, index in indices:
            value.number = int(index[1]) + 1


def label_of(value: Value, name: Name, tokens: list[str], *, named_by_title: bool) -> str | None:
    """The token that a vector belongs to, or its number; None where nothing says it."""
    if name.row is not None or not value.is_vector:
        return name.row
    if value.number:
        return str(value.number)
    if counted := _ROW.match(value.sentence):
        return counted[1]
    found = _token_in(value.sentence, tokens)
    if found is not None:
        return found
    lead = re.sub(r"^\s*(?:(?:[-*+•>]|#+|//|\d+[.)])\s+)+|[\s:=→>$*`\"“”]+$", "", value.lead)
    lead = re.sub(r"(?:\\to|\\rightarrow|=)\s*$", "", lead).strip(' \t"“”*`$')
    if named_by_title and 0 < len(lead) <= 40:
        return lead
    last = re.search(r"(?<![\d.])(\d{1,3})$", lead)
    if last and not re.search(r"head[ _]?\d+$|step \d+$", lead, re.IGNORECASE):
        return last[1]
    return None


def _token_in(sentence: str, tokens: list[str]) -> str | None:
    """The one token that a sentence speaks of: at its start, or anywhere in it."""
    words = re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+", "", sentence)[:1000]
    tokens = [token for token in tokens if token in words]
    for token in tokens:
        if re.match(rf"[\s\"'“*_`$]*{re.escape(token)}(?!\w)", words):
            return token
    found = [token for token in tokens if re.search(rf"(?<!\w){re.escape(token)}(?!\w)", words)]
    return found[0] if len(found) == 1 else None


def places_of(labels: Sequence[str], known: list[str]) -> list[int | None]:
    """The places of tokens among the known ones: the only one of its name, or by its count."""
    folded = [plain(other).casefold() for other in known]
    several, place = Counter(folded), {name: i for i, name in enumerate(folded)}

    def find(label: str) -> int | None:
        name = plain(label).casefold()
        if several[name] == 1:
            return place[name]
        number = counted(label, known)
        return number if 0 <= number < len(known) else None

    return [find(label) for label in labels]


def counted(label: str, labels: Sequence[str]) -> int:
    """The place that a label counts, from 0 where the first of all does: `z0 = …`, then `z1 = …`.

    >>> counted("x2", ["x1", "x2"]), counted("x2", ["x0", "x1"]), counted("dog", [])
    (1, 2, -1)
    """
    count = _COUNTED.fullmatch(label)
    first = _COUNTED.fullmatch(labels[0]) if labels else None
    from_zero = first is not None and int(first[1]) == 0
    return int(count[1]) - (not from_zero) if count else -1
