"""Needles: a sentence with a number, hidden at a depth of a text, and asked for at its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_PLACES = ("Oslo", "Lima", "Cairo", "Quito", "Dublin", "Hanoi", "Accra", "Riga", "Seoul", "Dhaka")
_FACT = "\nThe secret number of {place} is {number}.\n"
_QUESTION = "\nThe secret number of {place} is"
ROOM = 96  # tokens that needle, question and answer may take


@dataclass(frozen=True)
class Needle:
    """A prompt with a needle in it, that ends with the question, and the tokens of the answer."""

    prompt: list[int]
    answer: list[int]


def needles_in(ids: Sequence[int], tokenizer: Any, count: int) -> list[Needle]:
    """So many prompts: each hides one needle in the text, the first near its beginning and the last
    near its end. They are the same every time.
    """
    draw, found = random.Random(0), list[Needle]()
    for n in range(count):
        place = _PLACES[n % len(_PLACES)]
        number = "".join(draw.choices("0123456789", k=5))
        question = _ids(tokenizer, _QUESTION.format(place=place))
        whole = _ids(tokenizer, _QUESTION.format(place=place) + f" {number}.")
        stop = _ids(tokenizer, ".")
        answer = whole[len(question) : len(whole) - len(stop)]
        at = int((n + 0.5) / count * len(ids))
        fact = _ids(tokenizer, _FACT.format(place=place, number=number))
        found.append(Needle([*ids[:at], *fact, *ids[at:], *question], answer))
    return found


def _ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]
