"""Do all ranks ask for the same, with parts that fit together? Told before anything travels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from regard._arguments import WrongValue
from regard.parallel.exchange import Ranks
from regard.parallel.layout import Layout

_T = TypeVar("_T")


def digest(*said: object) -> int:
    """A whole number that two ranks have in common if they say the same."""
    found = hashlib.blake2b(repr(said).encode(), digest_size=7).digest()
    return int.from_bytes(found, "little")


def all_or_none(
    call: str, ranks: Ranks, make: Callable[[], tuple[_T, Sequence[int]]]
) -> tuple[_T, list[list[int]]]:
    """What `make` makes here, and the numbers that it wants to be told, of all ranks.

    Where it fails on one rank, it fails on all: there with its own error, elsewhere in its name.
    """
    made, numbers, error = None, (), None
    try:
        made, numbers = make()
    except (ValueError, TypeError) as found:
        error = found
    if ranks.count > 1:
        failed = [told[0] for told in ranks.tell("are all well?", [int(error is not None)])]
        if error is None and any(failed):
            raise WrongValue(
                f"{call}: all ranks must be given what fits; got something that rank "
                f"{failed.index(1)} refuses. Its own message says what."
            )
    if error is not None:
        raise error
    told = ranks.tell("numbers", numbers) if numbers else []
    return made, told  # pyright: ignore[reportReturnType]


def check_alike(call: str, ranks: Ranks, names: Sequence[str], told: list[list[int]]) -> None:
    """Do all ranks say the same of each of these?"""
    for place, name in enumerate(names):
        if len({each[place] for each in told}) > 1:
            found = ", ".join(
                f"{each[place]} on rank {rank}" if name != "options" else f"others on rank {rank}"
                for rank, each in enumerate(told)
                if name != "options" or each[place] != told[0][place]
            )
            raise WrongValue(
                f"{call}: all ranks must have the same {name}; got {found}. "
                "Each has its part of the tokens, and all else alike."
            )


def whole_length(call: str, name: str, layout: Layout, lengths: list[int]) -> int:
    """How long the whole is; ValueError unless its parts are as the layout says."""
    size = sum(lengths)
    expected = [layout.length(size, rank) for rank in range(layout.ranks)]
    if expected != lengths:
        raise WrongValue(
            f"{call}: the parts of {name}, {size} tokens in all, must hold {expected} of them, "
            f"{layout.kind}; got {lengths}. regard.parallel.shard(…, layout='{layout.kind}') cuts "
            "them so."
        )
    return size


def drawn_seed() -> int:
    """From PyTorch's generator, so that torch.manual_seed makes dropout repeatable."""
    return int(torch.randint(2**62, ()))
