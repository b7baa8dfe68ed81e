"""Positions and lengths of every kind: taken if they count tokens, else refused in words."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest
import torch
from helpers.soak import attacks
from torch import Tensor

from regard.nn import (
    ALiBi,
    Decoder,
    Encoder,
    Learned,
    RelativeBias,
    Rotary,
    Sinusoidal,
    StackConfig,
)

POSITIONS = (Rotary(), Sinusoidal(), Learned(13), ALiBi(), RelativeBias(8, 16))
DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool),
    *(torch.float32, torch.float64, torch.bfloat16, torch.complex64),
)
BATCH, TOKENS = 2, 5


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    """The models here are tiny: threads that wait for each other would take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def numbers(choose: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Mostly small counts, at times something else among them."""
    found = torch.randint(choose.choice([3, 6]), shape, generator=generator(choose)).double()
    if found.numel() and choose.random() < 0.5:
        odd = choose.choice([-1, 0.5, 12, 13, 2**31 - 1, 2**31, 2**62, -(2**62), torch.nan])
        found.view(-1)[choose.randrange(found.numel())] = odd
    if dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.complex64):
        found = found.nan_to_num(0.0)
    return found.to(dtype)


def generator(choose: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(choose.randrange(2**31))


def is_refused(run: Any) -> bool:
    said = ""
    try:
        assert run().isfinite().all()
    except (ValueError, TypeError) as error:
        said = str(error)
    assert not said or "must be" in said
    return bool(said)


@torch.no_grad()
def test_positions_and_lengths_are_taken_if_and_only_if_they_count_tokens() -> None:
    for choose in attacks(150):
        position, dtype = choose.choice(POSITIONS), choose.choice([*DTYPES, torch.int64])
        config = StackConfig(width=6, heads=3, position=position)
        stack = choose.choice([Encoder(config), Decoder(config, cross=False)])
        x = torch.randn(BATCH, TOKENS, 6, generator=generator(choose))
        if choose.random() < 0.7:
            shape = choose.choice([(1, TOKENS), (BATCH, TOKENS), (TOKENS,), (3, TOKENS), (1, 1)])
            given = numbers(choose, shape, dtype)
            most = 12 if isinstance(position, Learned) else 2**31 - 1
            is_right = dtype in (torch.int64, torch.int32) and shape in ((1, 5), (2, 5))
            is_right = is_right and int(given.min()) >= 0 and int(given.max()) <= most
            refused = is_refused(lambda stack=stack, x=x, given=given: stack(x, positions=given))
        else:
            shape = choose.choice([(BATCH,), (1,), (BATCH, 1), ()])
            given = numbers(choose, shape, dtype)
            is_right = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
            is_right = is_right and shape == (2,) and int(given.min()) >= 0
            is_right = is_right and int(given.max()) <= TOKENS
            refused = is_refused(lambda stack=stack, x=x, given=given: stack(x, lengths=given))
        assert refused != is_right, (position, given)
