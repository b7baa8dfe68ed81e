"""What a block is called: by what stands left of it, by the lines above it, or by `--as`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from regard.worked.exercise import Exercise
from regard.worked.rows import tokens_of
from regard.written.found import Value
from regard.written.names import SYMBOLS, Name, clean, is_other_name, name_of, named_kind
from regard.written.source import Unreadable

__all__ = ["ASKED", "Called", "Naming"]

ASKED = "as asked for by --as"
_OF_TOKENS = ("input", "embeddings", "query", "key", "value")


@dataclass
class Called:
    """A block's name (None: it is to be left out), the words that gave it, and why it has it."""

    name: Name | None
    text: str
    reason: str = ""
    by_title: bool = False
    is_plain: bool = True  # its own name, or a short line right above the numbers


class Naming:
    """Names blocks; `taken_as` overrides what the text says, by what it calls them or by line."""

    def __init__(self, values: list[Value], taken_as: Mapping[str, str]) -> None:
        self._values = values
        self._taken_as = {key.strip().casefold(): value for key, value in taken_as.items()}
        self._used: set[str] = set()

    def of(self, block: Value, line: int, exercise: Exercise) -> Called | None:
        lead, nearest = clean(block.lead), clean("".join(block.titles[:1]))
        for key in (str(line), f"line {line}", lead.casefold(), nearest.casefold()):
            if key and key in self._taken_as:
                self._used.add(key)
                name = _asked(self._taken_as[key], block)
                return Called(name, lead or nearest, ASKED)
        is_other = is_other_name(block.lead) and not self._is_named_row(block, exercise)
        for text in (block.lead, *(block.titles if not is_other else ())):
            name = name_of(text) if text else None
            if name is None:
                continue
            called = Called(name, lead or nearest)
            if text is not block.lead:
                name = replace(name, row=None, column=None)
                called = Called(name, clean(text), by_title=True)
                is_near = called.text in map(clean, block.titles[:2])
                is_short = len(called.text) <= 60 and len(called.text.split()) <= 8
                called.is_plain = is_near and is_short
            elif not block.is_vector and name.row is not None and not name.row.isdigit():
                return None  # X_a: whose?
            # “Attention score” means the raw scores to some and the weights to others.
            says_attention = re.search(r"attention|어텐션|অ্যাটেনশন|注意", text, re.IGNORECASE)
            may_be_weights = name.kind == "scores" and says_attention and block.shape[1] > 1
            if may_be_weights and block.sums_to_one:
                called.name, called.reason = replace(name, kind="weights"), "every row sums to 1"
            return called
        return None

    def _is_named_row(self, block: Value, exercise: Exercise) -> bool:
        """`dog = [0, 2]` below “Values”: if “dog” is a token, or another stands there like it."""
        word = clean(block.lead)
        title = name_of(block.titles[0]) if block.is_vector and block.titles else None
        if title is None or title.kind not in _OF_TOKENS or not word.isalpha():
            return False
        known = word.casefold() in (token.casefold() for token in tokens_of(exercise))
        return known or self._below[block.titles[0], block.shape[1]] > 1

    @cached_property
    def _below(self) -> Counter[tuple[str, int]]:
        """How many vectors with other names, of a length, stand below a title."""
        vectors = (v for v in self._values if v.is_vector and v.titles)
        return Counter((v.titles[0], v.shape[1]) for v in vectors if is_other_name(v.lead))

    def must_be_used(self) -> None:
        if unused := self._taken_as.keys() - self._used:
            raise Unreadable(
                f"--as {unused.pop()}=…: there is no matrix of that name, or at that line. "
                "Its name is what stands left of it or above it."
            )


def _asked(wanted: str, block: Value) -> Name | None:
    if wanted.casefold() in ("ignore", "-", "none"):
        return None
    named = named_kind(wanted)
    if named is None:
        raise Unreadable(
            f"--as: there is no kind {wanted!r}. There are: "
            f"{', '.join(dict.fromkeys(SYMBOLS.values()))}, ignore."
        )
    own = name_of(block.lead)
    row = own.row if own is not None and block.is_vector else None
    return replace(named, row=named.row or row)
