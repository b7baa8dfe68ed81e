"""What must be remembered: pairs to recall, and a verb that agrees with a noun far before it.

A token is two numbers. Of a pair they are its key and its value; of a word, its stem and whether it
is singular, plural or neither. The last token asks, and the answer depends on one token before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TASKS = ("recall", "agreement")
_KEYS, _VALUES = 16, 4
_NOUNS, _FILLERS = 8, 7
SINGULAR, PLURAL, NEITHER = 0, 1, 2
VERB = _NOUNS + _FILLERS


class Sizes(NamedTuple):
    """How many first and second numbers a token may have, and how many answers there are."""

    first: int
    second: int
    answers: int


SIZES = {
    "recall": Sizes(_KEYS, _VALUES + 1, _VALUES),  # one more value: that of a key that is asked for
    "agreement": Sizes(VERB + 1, 3, 2),
}


def draw(task: str, count: int, distance: int, generator: Any, place: int = 0) -> tuple[Any, Any]:
    """Sequences (count, place + distance + 1, 2) and their answers (count,).

    What the answer depends on stands at `place`, `distance` tokens before the end.
    """
    length = place + distance + 1
    found = _pairs if task == "recall" else _sentences
    return found(count, length, place, generator)


def _pairs(count: int, length: int, place: int, generator: Any) -> tuple[Any, Any]:
    """Keys with values, then a key: what was its value? The key that is asked for came once."""
    import torch

    asked = torch.randint(_KEYS, (count,), generator=generator)
    # Any other key is as many steps away from the one asked for, around a circle.
    others = torch.randint(1, _KEYS, (count, length), generator=generator)
    keys = (asked[:, None] + others) % _KEYS
    values = torch.randint(_VALUES, (count, length), generator=generator)
    keys[:, place] = keys[:, -1] = asked
    answers = values[:, place].clone()
    values[:, -1] = _VALUES
    return torch.stack([keys, values], -1), answers


def _sentences(count: int, length: int, place: int, generator: Any) -> tuple[Any, Any]:
    """A noun, other nouns and words without a number, then a verb: is it singular or plural?

    All nouns in between are of one number: in every second sentence, on average, of the other one.
    So they tell nothing of the answer. They stand in every second place, on average, and always
    beside the first noun.
    """
    import torch

    if place:
        raise ValueError(f"draw: place must be 0, as the first noun is the subject; got {place}.")
    number = torch.randint(2, (count,), generator=generator)
    between = torch.randint(2, (count,), generator=generator)
    is_noun = torch.rand(count, length, generator=generator) < 0.5
    is_noun[:, :2] = True
    nouns = torch.randint(_NOUNS, (count, length), generator=generator)
    fillers = _NOUNS + torch.randint(_FILLERS, (count, length), generator=generator)
    stems = torch.where(is_noun, nouns, fillers)
    numbers = torch.where(is_noun, between[:, None], NEITHER)
    numbers[:, 0] = number
    stems[:, -1], numbers[:, -1] = VERB, NEITHER
    return torch.stack([stems, numbers], -1), number


def only_distracting(tokens: Any, answers: Any) -> tuple[Any, Any]:
    """The same sentences, in which every noun in between is of the other number."""
    import torch

    from_second = tokens[:, 1:, 1]
    other = (1 - answers)[:, None].expand_as(from_second)
    tokens[:, 1:, 1] = torch.where(from_second == NEITHER, NEITHER, other)
    return tokens, answers
