"""Needles: facts that are put into a long text at many depths, and asked for at its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard._arguments import whole

if TYPE_CHECKING:
    from regard.models import Loaded

NAMES = (
    *("Oslo", "Lima", "Cairo", "Delhi", "Seoul", "Tokyo", "Paris", "Rome", "Berlin", "Madrid"),
    *("London", "Boston", "Chicago", "Denver", "Dublin", "Athens", "Vienna", "Prague", "Moscow"),
    *("Sydney", "Kabul", "Baghdad", "Havana", "Lisbon", "Warsaw", "Geneva", "Milan", "Tehran"),
)
_FACT = " The secret number of {name} is"


@dataclass(frozen=True)
class Needle:
    """One fact: `depth` of the text where it stands, the tokens [start, end) of its answer there,
    and the `queries` at the end of the text that are to predict the tokens of it."""

    name: str
    depth: float
    start: int
    end: int
    queries: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class Haystack:
    """The ids of a text with needles in it and their questions behind it, and random `spans` of
    the text itself, as long as an answer, which are no needle."""

    ids: list[int]
    needles: list[Needle]
    spans: list[tuple[int, int]]


def hidden(
    call: str, loaded: Loaded, ids: Sequence[int], most: int, count: int, spans: int, seed: int
) -> Haystack:
    """`count` needles in the first of `ids`, so that all is `most` tokens, or what there is.

    Raises ValueError if they take more than half of it.
    """
    count = whole(call, "needles", count, 1, len(NAMES), "Each has a name of its own.")
    chance = random.Random(seed)
    names = chance.sample(NAMES, count)
    facts = [_encoded(loaded, _FACT.format(name=name)) for name in names]
    answers = [_encoded(loaded, f" {chance.randrange(1000, 10000)}") for _ in names]
    stop = _encoded(loaded, ".")
    added = 2 * sum(len(each) for each in (*facts, *answers, *[stop] * count))
    room = min(len(ids), most - added)
    if room < added:
        raise ValueError(
            f"{call}: text must have at least {2 * added:,} tokens for {count} needles; got "
            f"{min(len(ids) + added, most):,}. Give it a longer one, or ask for fewer needles."
        )
    text = list(ids[:room])
    # From the end to the beginning, so that what stands before stays where it is.
    depths = [(n + 0.5) / count for n in range(count)]
    places = [max(1, round(depth * room)) for depth in depths]
    made, starts, at = list[int](), list[int](), 0
    own = list[bool]()  # of the text itself
    for place, fact, answer in zip(places, facts, answers, strict=True):
        needle = [*fact, *answer, *stop]
        starts.append(place + len(made) - at + len(fact))
        own += [True] * (place - at) + [False] * len(needle)
        made += [*text[at:place], *needle]
        at = place
    made += text[at:]
    own += [True] * (room - at)
    needles: list[Needle] = []
    order = chance.sample(range(count), count)
    for n in order:
        first = len(made) + len(facts[n]) - 1
        queries = tuple(range(first, first + len(answers[n])))
        made += [*facts[n], *answers[n], *stop]
        end = starts[n] + len(answers[n])
        needles.append(Needle(names[n], depths[n], starts[n], end, queries, tuple(answers[n])))
    long = max(len(answer) for answer in answers)
    free = [n for n in range(1, len(own) - long) if all(own[n : n + long])]
    chosen: list[tuple[int, int]] = []
    for place in chance.sample(free, len(free)):
        if len(chosen) < spans and all(abs(place - start) >= long for start, _ in chosen):
            chosen.append((place, place + long))
    needles.sort(key=lambda needle: needle.start)
    return Haystack(made, needles, sorted(chosen))


def _encoded(loaded: Loaded, text: str) -> list[int]:
    tokenizer: Any = loaded.tokenizer
    return list(tokenizer.encode(text, add_special_tokens=False))
