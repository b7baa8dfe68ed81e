"""Batches: the tensors of some sequences, and the order in which examples come, step by step.

A batch follows from the seed and the number of its step alone. So a run that goes on after a stop
needs to know nothing but its step, and however many processes share a batch, it is the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.train.tokens import IGNORED, PAD, START, STOP

_POOL = 64  # batches whose examples are sorted by length, so that little of them is padding


@dataclass(frozen=True)
class Batch:
    """What a model is called with, by names; what it should say, (B,) or (B, N), IGNORED where that
    does not count; and how many count.
    """

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int

    def part(self, number: int, of: int) -> Batch:
        """One of so many equal parts of its rows; `count` stays that of the whole."""
        if of == 1:
            return self
        rows = len(self.targets) // of
        span = slice(number * rows, (number + 1) * rows)
        inputs = {name: each[span] for name, each in self.inputs.items()}
        return Batch(inputs, self.targets[span], self.count)


def batch_of(inputs: dict[str, Tensor], targets: Tensor) -> Batch:
    return Batch(inputs, targets, int((targets != IGNORED).sum()))


def random_of(seed: int, *places: int) -> np.random.Generator:
    """Random numbers for one place of a run: other ones for any other place or seed."""
    return np.random.default_rng([seed, *places])


def torch_seed(seed: int, *places: int) -> int:
    """The same for PyTorch: a number to seed it with."""
    return int(np.random.SeedSequence([seed, *places]).generate_state(1, np.uint64)[0] >> 1)


def padded(rows: Sequence[Sequence[int]], fill: int = PAD) -> tuple[Tensor, Tensor]:
    """Rows of tokens as one tensor (B, longest), padded on the right, and their lengths (B,).

    >>> padded([[5, 6], [7]])
    (tensor([[5, 6],
            [7, 0]]), tensor([2, 1]))
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    table = np.full((len(rows), max(int(lengths.max()), 1)), fill, np.int64)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(table), torch.from_numpy(lengths)


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Sources, and targets that begin with START; what should be said is the target, and STOP."""
    source, lengths = padded(sources)
    given, _ = padded([[START, *target] for target in targets])
    wanted, _ = padded([[*target, STOP] for target in targets], IGNORED)
    return batch_of({"source": source, "target": given, "source_lengths": lengths}, wanted)


class Epochs:
    """Which examples make up each step: all of them, in a new order each time around.

    Those of a batch have about the same length. The last few of each round, too few for a batch,
    are left out of it.
    """

    def __init__(self, lengths: NDArray[np.int64], batch: int, seed: int) -> None:
        self._lengths, self._batch, self._seed = lengths, batch, seed
        self._per_epoch = len(lengths) // batch
        if not self._per_epoch:
            raise ValueError(
                f"train(): training.batch must be at most the {len(lengths)} examples that there "
                f"are to learn from; got {batch}."
            )
        self._order: Callable[[int], NDArray[np.int64]] = lru_cache(2)(self._shuffled)

    def at(self, step: int) -> list[int]:
        epoch, number = divmod(step, self._per_epoch)
        start = number * self._batch
        return self._order(epoch)[start : start + self._batch].tolist()

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        random = random_of(self._seed, 2, epoch)
        order = random.permutation(len(self._lengths))[: self._per_epoch * self._batch]
        pools = [
            pool[np.argsort(self._lengths[pool], kind="stable")]
            for pool in np.split(order, range(_POOL * self._batch, len(order), _POOL * self._batch))
        ]
        batches = np.concatenate(pools).reshape(self._per_epoch, self._batch)
        return batches[random.permutation(self._per_epoch)].ravel()
