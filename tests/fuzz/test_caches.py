"""A cache, misused at random: it refuses in words, or gives what is computed without it."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest
import torch
from helpers.soak import attacks
from torch import Tensor

from regard.nn import ALiBi, Learned, RelativeBias, Rotary, Transformer, TransformerConfig

POSITIONS = (Rotary(), Learned(31), ALiBi(), RelativeBias(8, 16))


class Session:
    """One cache, and what it should hold: the tokens so far, and the memory that came first."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        torch.manual_seed(choose.randrange(2**31))
        config = TransformerConfig(
            vocabulary=11, width=6, heads=3, layers=2, position=choose.choice(POSITIONS)
        )
        self.model = Transformer(config).double().eval()
        self.sources = [torch.randint(11, (3, 5)) for _ in range(2)]
        self.memories = [self.model.encode(source) for source in self.sources]
        self.first: Tensor | None = None  # the memory, as it was
        self.tokens = torch.zeros(3, 0, dtype=torch.int64)
        self.cache = self.model.new_cache(3)

    def step(self) -> None:
        """One random use of the cache."""
        ways = (self.decode, self.decode, self.forward, self.select, self.write)
        self.choose.choice(ways)()

    def memory(self) -> Tensor:
        found = self.choose.choice(self.memories)
        return found.clone() if self.choose.random() < 0.3 else found

    def new(self) -> Tensor:
        return torch.randint(11, (len(self.tokens), self.choose.choice([1, 2])))

    def decode(self) -> None:
        memory, new = self.memory(), self.new()
        self.check(memory, new, lambda: self.model.decode(new, memory, cache=self.cache))

    def forward(self) -> None:
        source, new = self.choose.choice(self.sources), self.new()
        memory = self.model.encode(source)
        self.check(memory, new, lambda: self.model(source, new, cache=self.cache))

    def select(self) -> None:
        rows = torch.tensor([self.choose.randrange(len(self.tokens)) for _ in range(3)])
        self.cache.select(rows)
        self.tokens = self.tokens[rows]
        self.first = None if self.first is None else self.first[rows]
        if self.choose.random() < 0.7:
            self.memories = [memory[rows] for memory in self.memories]
            self.sources = [source[rows] for source in self.sources]

    def write(self) -> None:
        """Other numbers in the tensors that were given."""
        which = self.choose.randrange(2)
        if self.choose.random() < 0.5:
            self.memories[which].copy_(torch.randn_like(self.memories[which]))
        else:
            self.sources[which].copy_(torch.randint_like(self.sources[which], 11))

    def check(self, memory: Tensor, new: Tensor, run: Any) -> None:
        said, found = "", None
        try:
            found = run()
        except ValueError as error:
            said = str(error)
        if found is None:
            assert "must be" in said
            return
        first = memory.clone() if self.first is None else self.first
        self.first, self.tokens = first, torch.cat([self.tokens, new], 1)
        expected = self.model.decode(self.tokens, first)[:, -new.shape[1] :]
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(memory, first, rtol=1e-12, atol=1e-12)


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    """The models here are tiny: threads that wait for each other would take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_cache_that_is_misused_refuses_or_computes_the_same() -> None:
    for choose in attacks(20):
        mode = choose.choice([torch.no_grad, torch.inference_mode])
        with mode():
            session = Session(choose)
            for _ in range(7):
                session.step()
