"""Whether nothing unread touches the ends of an equation: a unit, an operator, a word."""

from __future__ import annotations

import re

from regard.written.nodes import Node
from regard.written.tokens import Token

__all__ = ["is_clean_left", "is_clean_right"]

# Words after which a sum may be something else than it looks: “half of 6 + 6 = 6”.
_UNCLEAR = re.compile(
    "of|times|sin|cos|tan|tanh|plus|minus|over|by|half|twice|exp|log|ln|sqrt|root|mean|max|min|sum|average|variance"
    "|std|difference|squared|mod|per|between|from|until|to|and|und|et|y"
)
_UNITS = re.compile(
    r"(?:[kKMGTBms]|[mµμun]s|[KMGT]i?B|million|billion|thousand|trillion|bytes?|bits?|degrees?|radians?|mln|"
    r"bn|mil|milh\w+|triệu|tỷ|nghìn|times|percent)$|[万亿억만億]"
)
_CLEAN_JUNK = frozenset(".。!?\"'“”‘’|│→←*#✓✔✅❌❗`«»/\\—-…")


def is_clean_left(tokens: list[Token], node: Node) -> bool:
    before = node.start - 1
    first = tokens[node.start]
    if first.text == "-" and tokens[node.start + 1].gap and _starts_line(tokens, before):
        return False  # the mark of a list
    while before >= 0 and tokens[before].kind == "newline":
        before -= 1
    if before < 0:
        return True
    if before < node.start - 1:  # on another line
        return _ends_equation(tokens, before, node) or tokens[before].kind not in (
            "operator",
            "number",
            "dots",
        )
    token = tokens[before]
    if token.text == "," and _splits_number(tokens, before):
        return False
    if node.op == "group" and token.kind in ("word", "weak"):
        return False  # “shape (3 × 2) = 3 samples”
    if token.kind == "word":
        symbol = len(token.text) == 1 and token.text.isascii() and token.text not in "aIO"
        return (
            not symbol
            and not _UNCLEAR.fullmatch(token.text.casefold())
            and (tokens[node.start].gap or not token.text.isascii())
        )
    if token.kind == "junk":
        return token.text in _CLEAN_JUNK
    if token.kind == "close":
        return tokens[node.start].gap and token.text != "}"
    return token.kind in ("newline", "comma", "weak", "relation", "cell", "open")


def _ends_equation(tokens: list[Token], number: int, node: Node) -> bool:
    """Whether a number that a line ends with has no part in the next: `= 1.7`, or a blank line.

    Below `= 1.7` a line that starts with a minus may go on with it.
    """
    if tokens[number].kind != "number":
        return False
    sign = int(tokens[number - 1].text == "-")
    is_result = number > sign and tokens[number - sign - 1].kind == "relation"
    return number < node.start - 2 or (is_result and tokens[node.start].text != "-")


def _splits_number(tokens: list[Token], comma: int) -> bool:
    """`0,85 · 2` in a text that has points as well: the comma may be a point."""
    around = tokens[comma - 1 : comma + 2]
    tight = len(around) == 3 and not around[1].gap and not around[2].gap
    return tight and all(token.kind == "number" for token in around[::2])


def _starts_line(tokens: list[Token], before: int) -> bool:
    return before < 0 or tokens[before].kind == "newline"


def is_clean_right(tokens: list[Token], node: Node) -> bool:
    if node.end >= len(tokens):
        return True
    token, following = (
        tokens[node.end],
        tokens[min(node.end + 1, len(tokens) - 1)],
    )
    if token.text == "{" and following.kind == "word":  # 0.45 \\text{ ms}
        token = following
    if token.text == ":" and following.kind == "number":
        return False  # 1 : 0 : 0
    if token.text == "," and _splits_number(tokens, node.end):
        return False
    if token.kind == "word":
        unit = _UNITS.match(token.text) or re.fullmatch("[xyz]", token.text)
        return unit is None and (token.gap or not token.text.isascii())
    if token.kind == "junk":
        return token.text in _CLEAN_JUNK
    if token.kind == "open":
        return token.gap
    return token.kind in (
        "newline",
        "comma",
        "weak",
        "relation",
        "other",
        "close",
        "cell",
        "end",
    )
