"""A trained run, opened: its best model, its tokenizer, and what it writes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError, plain
from regard.nn import LanguageModel, Learned, Model, Transformer
from regard.text import readable
from regard.train.api import best_or_last, read_kept
from regard.train.prepare import TOKENIZER, read_tokenizer
from regard.train.recipe import Recipe
from regard.train.store import hash_of
from regard.train.tokens import SPECIAL, START, STOP, UNKNOWN, ids_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_LETTERS = 10  # that are named


@dataclass(frozen=True)
class OpenedRun:
    """A run whose model writes, if it is of a kind that does."""

    folder: Path
    recipe: Recipe
    model: Model
    tokenizer: Tokenizer
    step: int

    def unknown(self, text: str) -> str:
        """In words, which letters of a text the run does not know; nothing if it knows all."""
        if UNKNOWN not in ids_of(self.tokenizer, text):
            return ""
        letters = [
            letter for letter in dict.fromkeys(text) if UNKNOWN in ids_of(self.tokenizer, letter)
        ]
        some = ", ".join(f"“{readable(letter)}”" for letter in letters[:_MOST_LETTERS])
        more = f" and {len(letters) - _MOST_LETTERS} more" * (len(letters) > _MOST_LETTERS)
        return (
            f"the run has never seen {some}{more}, and reads {SPECIAL[UNKNOWN]} in "
            f"{'its' if len(letters) == 1 else 'their'} place."
        )

    def stream(self, text: str, *, max_new_tokens: int, **options: Any) -> Iterator[str]:
        """What the model writes after a text, or makes of it, piece by piece.

        A model whose table of positions is full goes on with the last half of what it has read. The
        options are those of `regard.nn.stream`. Warns of letters that the run does not know.
        """
        tokens = ids_of(self.tokenizer, text)
        if unknown := self.unknown(text):
            warnings.warn(f"generate(): {unknown}", stacklevel=2)
        if not tokens:
            raise ValueError("generate(): the prompt must have a token; got none.")
        if isinstance(self.model, Transformer):
            position = self.model.config.position
            if isinstance(position, Learned):
                max_new_tokens = min(max_new_tokens, position.length)
            found = _written(
                self.model, tokens, start=START, max_new_tokens=max_new_tokens, **options
            )
        elif isinstance(self.model, LanguageModel):
            found = self._long(self.model, tokens, max_new_tokens, options)
        else:
            raise ValueError(
                f"generate(): {plain(self.folder)} must hold a model that writes; got one that "
                f"was trained to {self.recipe.task}."
            )
        yield from self._pieces(found)

    def _long(
        self, model: LanguageModel, tokens: list[int], most: int, options: dict[str, Any]
    ) -> Iterator[int]:
        """New tokens, also where there are more of them than the model has positions."""
        position = model.config.position
        room = position.length if isinstance(position, Learned) else None
        seed = options.pop("seed", None)
        while most > 0:
            if room is not None:
                tokens = tokens[-max(1, room // 2) :] if len(tokens) >= room else tokens
            count = most if room is None else min(most, room - len(tokens) + 1)
            more = {} if seed is None else {"seed": seed + most}
            for token in _written(model, tokens, max_new_tokens=count, **more, **options):
                if token == STOP:
                    return
                tokens = [*tokens, token]
                most -= 1
                yield token

    def _pieces(self, tokens: Iterator[int]) -> Iterator[str]:
        """The text of tokens as it grows; half a character waits for its other half."""
        ids: list[int] = []
        written = ""
        for token in tokens:
            if token == STOP:
                break
            ids.append(token)
            text = self.tokenizer.decode(ids)
            if not text.endswith("\ufffd"):
                yield text[len(written) :]
                written = text
        yield self.tokenizer.decode(ids)[len(written) :]


def _written(
    model: LanguageModel | Transformer, tokens: list[int], **options: Any
) -> Iterator[int]:
    """What a model writes, up to where it stops; by beam search only when all of it is known."""
    if options.get("beams", 1) > 1:
        return iter(model.generate(tokens, stop=STOP, **options).tokens[0])
    return model.stream(tokens, stop=STOP, **options)


def open_run(folder: str | os.PathLike[str]) -> OpenedRun:
    """The run of a folder: its best model, or its newest if it was never evaluated.

    Raises CheckpointError, a ValueError, if the folder is no run, or has no whole checkpoint.
    """
    place = Path(folder)
    recipe = read_kept(place)
    saved = best_or_last(place)
    tokenizer = read_tokenizer(place)
    if hash_of(place / TOKENIZER) != saved.state["data"][TOKENIZER]:
        expected, remedy = "be the one that the run has learned with", "Put it back."
        raise CheckpointError(place / TOKENIZER, expected, "another", remedy, call="train()")
    return OpenedRun(place, recipe, saved.model(), tokenizer, saved.step)
