"""Sequences to sequences: what is copied, reversed, sorted, added up, or translated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from regard.nn import Learned, Transformer
from regard.train.batches import Batch, Epochs, pair_batch, random_of
from regard.train.recipe import Recipe
from regard.train.settings import GeneratedData, PairData
from regard.train.store import Store
from regard.train.tasks.task import Task
from regard.train.tokens import SPECIAL, START, STOP

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_OWN = len(SPECIAL)  # the first token that is a letter
_ASIDE = 16  # one of so many sequences is for validation alone
_TRANSLATED = 256  # pairs that are translated to see how many come out exactly
Pair = tuple[list[int], list[int]]


class PairTask(Task):
    """What sequence-to-sequence tasks share."""

    def scores(self, model: nn.Module) -> dict[str, float]:
        """`exact`: the share of sequences that come out right, to the last token."""
        pairs = self.aside()[:_TRANSLATED]
        written = self.written(model, [source for source, _ in pairs])
        right = [found == target for found, (_, target) in zip(written, pairs, strict=True)]
        return {"exact": sum(right) / len(right)}

    def samples(self, model: nn.Module, count: int) -> list[dict[str, str]]:
        pairs = self.aside()[:count]
        written = self.written(model, [source for source, _ in pairs])
        decode = self.tokenizer.decode
        return [
            {"source": decode(source), "written": decode(found), "target": decode(target)}
            for (source, target), found in zip(pairs, written, strict=True)
        ]

    def written(self, model: nn.Module, sources: Sequence[list[int]]) -> list[list[int]]:
        """What a model writes for sources, by always taking the likeliest token."""
        most = 2 + max(len(target) for _, target in self.aside())
        position = cast("Transformer", model).config.position
        if isinstance(position, Learned):
            most = min(most, position.length)
        found = cast("Transformer", model).generate(
            list(sources), start=START, stop=STOP, max_new_tokens=most
        )
        return [
            tokens[: tokens.index(STOP)] if STOP in tokens else list(tokens)
            for tokens in found.tokens
        ]

    def validation(self) -> Iterator[Batch]:
        pairs = self.aside()
        size = 4 * self.recipe.training.batch
        for start in range(0, len(pairs), size):
            some = pairs[start : start + size]
            yield pair_batch([source for source, _ in some], [target for _, target in some])

    def example(self) -> dict[str, Any]:
        source, target = max(self.aside()[:32], key=lambda pair: len(pair[0]))
        batch = pair_batch([source], [target])
        return batch.inputs

    @abstractmethod
    def aside(self) -> list[Pair]:
        """The pairs that are kept aside."""


class GeneratedTask(PairTask):
    """Sequences that are made up, step by step; which are for validation, each says itself."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        super().__init__(recipe, tokenizer)
        self._data = cast("GeneratedData", recipe.data)
        self._kept: list[Pair] | None = None

    def batch(self, step: int) -> Batch:
        random = random_of(self.recipe.seed, 1, step)
        pairs = self._draw(random, self.recipe.training.batch, aside=False)
        return pair_batch([source for source, _ in pairs], [target for _, target in pairs])

    def aside(self) -> list[Pair]:
        if self._kept is None:
            random = random_of(self.recipe.seed, 3)
            self._kept = self._draw(random, self._data.validation, aside=True)
        return self._kept

    def _draw(self, random: Any, count: int, *, aside: bool) -> list[Pair]:
        found: list[Pair] = []
        low, high = self._data.shortest, self._data.longest + 1
        adds = self.recipe.task == "addition"
        symbols = 10 if adds else self._data.symbols
        tries = 0
        while len(found) < count:
            lengths = random.integers(low, high, (count, 2))
            drawn = random.integers(0, symbols, (count, 2, self._data.longest))
            for (first, second), (row, other) in zip(lengths.tolist(), drawn.tolist(), strict=True):
                pair = _sum(row[:first], other[:second]) if adds else self._made(row[:first])
                if _is_aside(pair[0]) == aside:
                    found.append(pair)
            tries += 1
            if tries > 1000:
                raise ValueError(
                    f"train(): data.longest must leave sequences for both training and "
                    f"validation; got {self._data.longest} of {symbols} symbols, too few."
                )
        return found[:count]

    def _made(self, row: list[int]) -> Pair:
        source = [_OWN + each for each in row]
        if self.recipe.task == "sort":
            return source, sorted(source)
        return source, source[::-1] if self.recipe.task == "reverse" else list(source)


def letters_of(recipe: Recipe) -> str:
    """The letters that a made-up task is written in, in the order of their tokens."""
    if recipe.task == "addition":
        return "0123456789+"
    symbols = cast("GeneratedData", recipe.data).symbols
    if symbols > len(LETTERS):
        raise ValueError(
            f"recipe [data]: symbols must be at most {len(LETTERS)}, the letters and digits that "
            f"there are; got {symbols}."
        )
    return LETTERS[:symbols]


def _sum(first: list[int], second: list[int]) -> Pair:
    """Two numbers with a + between them, and what they add up to, in digits."""
    total = int("".join(map(str, first))) + int("".join(map(str, second)))
    source = [_OWN + digit for digit in first] + [_OWN + 10] + [_OWN + digit for digit in second]
    return source, [_OWN + int(digit) for digit in str(total)]


def _is_aside(source: list[int]) -> bool:
    """Is a sequence for validation alone? One of 16, by what it is."""
    mixed = 0
    for each in source:
        mixed = (mixed * 1_000_003 + each + 1) & 0xFFFFFFFF
    return (mixed * 2_654_435_761 & 0xFFFFFFFF) >> 28 == 0


class TranslateTask(PairTask):
    """Pairs from a file, which was read into a store."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: Store) -> None:
        super().__init__(recipe, tokenizer)
        self._data = cast("PairData", recipe.data)
        self._sources, self._targets = store.rows("sources"), store.rows("targets")
        self._first = len(self._sources) - int(store.about["aside"])
        lengths = (self._sources.lengths + self._targets.lengths)[: self._first]
        self._epochs = Epochs(lengths, recipe.training.batch, recipe.seed)
        self._kept: list[Pair] | None = None

    def batch(self, step: int) -> Batch:
        rows = self._epochs.at(step)
        return pair_batch([self._sources[n] for n in rows], [self._targets[n] for n in rows])

    def aside(self) -> list[Pair]:
        if self._kept is None:
            numbers = range(self._first, len(self._sources))
            self._kept = [(self._sources[n], self._targets[n]) for n in numbers]
        return self._kept
