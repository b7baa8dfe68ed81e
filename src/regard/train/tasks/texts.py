"""Running text: the next token, or tokens that are hidden; and texts with a label each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.nn import LanguageModel
from regard.nn.config import StackConfig
from regard.train.batches import Batch, Epochs, batch_of, padded, random_of
from regard.train.recipe import Recipe
from regard.train.settings import MaskedData, TextData
from regard.train.store import Store
from regard.train.tasks.task import Task
from regard.train.tokens import IGNORED, MASK, SPECIAL

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENS = 4096  # that are evaluated at once
_HIDDEN, _RANDOM = 0.8, 0.9  # of the tokens to be guessed: hidden, or another one, or left as it is


class TextTask(Task):
    """Windows of running text, drawn at random; the validation's stand one after the other."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: Store) -> None:
        super().__init__(recipe, tokenizer)
        self._data = cast("TextData", recipe.data)
        self._train, self._aside = store["train"], store["validation"]

    def _windows(self, step: int, more: int) -> tuple[NDArray[np.int64], np.random.Generator]:
        """Windows of the text's length and some tokens `more`, and what random numbers follow."""
        random = random_of(self.recipe.seed, 1, step)
        length = self._data.length + more
        starts = random.integers(0, len(self._train) - length + 1, self.recipe.training.batch)
        return np.stack([self._train[at : at + length] for at in starts]).astype(np.int64), random

    def _kept(self, more: int) -> Iterator[NDArray[np.int64]]:
        """The validation's windows, some at a time."""
        length = self._data.length
        starts = np.arange(0, len(self._aside) - length - more + 1, length)
        size = max(1, _TOKENS // length)
        for first in range(0, len(starts), size):
            some = starts[first : first + size]
            yield np.stack([self._aside[at : at + length + more] for at in some]).astype(np.int64)


class LanguageTask(TextTask):
    """The next token of each."""

    def batch(self, step: int) -> Batch:
        return _shifted(self._windows(step, 1)[0])

    def validation(self) -> Iterator[Batch]:
        return map(_shifted, self._kept(1))

    def example(self) -> dict[str, Any]:
        return {"ids": _shifted(next(self._kept(1))[:1]).inputs["ids"]}

    def samples(self, model: nn.Module, count: int) -> list[dict[str, str]]:
        length = self._data.length
        given = next(self._kept(1))[:count, : max(1, length // 2)].tolist()
        most = max(1, length - len(given[0]))
        found = cast("LanguageModel", model).generate(given, max_new_tokens=most)
        decode = self.tokenizer.decode
        return [
            {"source": decode(prompt), "written": decode(new)}
            for prompt, new in zip(given, found.tokens, strict=True)
        ]


class MaskedTask(TextTask):
    """Tokens that are hidden, or changed, or neither, guessed from all others."""

    def batch(self, step: int) -> Batch:
        windows, random = self._windows(step, 0)
        return self._hidden(windows, random)

    def validation(self) -> Iterator[Batch]:
        for number, windows in enumerate(self._kept(0)):
            yield self._hidden(windows, random_of(self.recipe.seed, 4, number))

    def example(self) -> dict[str, Any]:
        return {name: each[:1] for name, each in next(self.validation()).inputs.items()}

    def _hidden(self, windows: NDArray[np.int64], random: np.random.Generator) -> Batch:
        data = cast("MaskedData", self._data)
        chosen = random.random(windows.shape) < data.share
        chosen[:, 0] |= ~chosen.any(1)  # one at least
        targets = np.where(chosen, windows, IGNORED)
        how = random.random(windows.shape)
        others = random.integers(len(SPECIAL), self.vocabulary, windows.shape)
        given = np.where(chosen & (how < _RANDOM), others, windows)
        given = np.where(chosen & (how < _HIDDEN), MASK, given)
        return batch_of({"ids": torch.from_numpy(given)}, torch.from_numpy(targets))


class ClassifyTask(Task):
    """Texts with a label each."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: Store) -> None:
        super().__init__(recipe, tokenizer)
        self._texts, self._labels = store.rows("texts"), store["labels"]
        self.labels: list[str] = store.about["labels"]
        self._first = store.about["first"]  # of those that are kept aside
        lengths = self._texts.lengths[: self._first]
        self._epochs = Epochs(lengths, recipe.training.batch, recipe.seed)

    def config(self) -> StackConfig:
        return self.recipe.config(vocabulary=self.vocabulary, classes=len(self.labels))

    def batch(self, step: int) -> Batch:
        return self._of(self._epochs.at(step))

    def validation(self) -> Iterator[Batch]:
        size = 4 * self.recipe.training.batch
        for start in range(self._first, len(self._texts), size):
            yield self._of(range(start, min(start + size, len(self._texts))))

    def scores(self, model: nn.Module) -> dict[str, float]:
        """`right`: the share of texts that get their label."""
        right = total = 0
        for batch in self.validation():
            right += int((model(**batch.inputs).argmax(-1) == batch.targets).sum())
            total += len(batch.targets)
        return {"right": right / max(total, 1)}

    def example(self) -> dict[str, Any]:
        return self._of([self._first]).inputs

    def _of(self, numbers: Any) -> Batch:
        ids, lengths = padded([self._texts[n] for n in numbers])
        labels = torch.from_numpy(self._labels[list(numbers)].astype(np.int64))
        return batch_of({"ids": ids, "lengths": lengths}, labels)


def _shifted(windows: NDArray[np.int64]) -> Batch:
    tokens = torch.from_numpy(windows)
    return batch_of({"ids": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous())
