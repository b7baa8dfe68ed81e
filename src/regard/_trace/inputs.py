"""What a model is given for a trace: vectors or token ids of one sequence, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard._trace.api import random_numbers
from regard._trace.build import as_matrix
from regard.text import tokenize


class Read(NamedTuple):
    """One sequence as the model takes it, with a batch axis of 1, and a name for each token."""

    tensor: Tensor
    tokens: tuple[str, ...]
    is_random: bool = False


def read_vectors(
    given: Any, what: str, letter: str, width: int, tokens: Sequence[str] | None, seed: int
) -> Read:
    """X (N, width); of a text, a random vector for each word, the same for the same word."""
    if isinstance(given, str):
        if tokens is not None:
            raise ValueError("trace(): a text has its own tokens; `tokens` are names for an X.")
        words = tuple(token.text for token in tokenize(given))
        if not words:
            raise ValueError("trace(): the text has no word in it.")
        rows = [random_numbers(seed, word.encode(), (width,)) for word in words]
        return Read(torch.from_numpy(np.stack(rows))[None], words, is_random=True)
    given = given.detach().cpu().double().numpy() if isinstance(given, Tensor) else given
    x = as_matrix(given, what)
    if x.shape[1] != width:
        raise ValueError(
            f"trace(): {what} must be (N, {width}), as wide as the model; got {x.shape}."
        )
    return Read(torch.from_numpy(x)[None], _named(len(x), letter, tokens))


def _named(count: int, letter: str, tokens: Sequence[str] | None) -> tuple[str, ...]:
    if tokens is None:
        return tuple(f"{letter}{i + 1}" for i in range(count))
    return _checked(tuple(tokens), count)


def _checked(tokens: tuple[Any, ...], count: int) -> tuple[str, ...]:
    if len(tokens) != count or not all(isinstance(token, str) for token in tokens):
        raise ValueError(
            f"trace(): tokens must be {count} texts, a name for each token; got {len(tokens)}: "
            f"{', '.join(map(repr, tokens[:6]))}."
        )
    return tokens


def read_ids(given: Any, what: str, tokens: Sequence[str] | None, tokenizer: Any) -> Read:
    """Token ids (N,), or a text and a tokenizer that makes ids of it."""
    if isinstance(given, str):
        if tokenizer is None:
            raise ValueError(
                f"trace(): {what} must be token ids, as a text needs a tokenizer; got a text. "
                "Say tokenizer=…"
            )
        ids, names = _encoded(given, tokenizer)
    else:
        if isinstance(given, Tensor):
            given = given.detach().cpu().numpy()
        array = np.asarray(given)
        if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
            raise ValueError(
                f"trace(): {what} must be token ids (N,), whole numbers of one sequence; got "
                f"shape {array.shape} of {array.dtype}."
            )
        ids = [int(each) for each in array]
        names = names_of_ids(ids, tokenizer)
    if not ids:
        raise ValueError(f"trace(): {what} must have a token; the tokenizer makes none of it.")
    return Read(torch.tensor([ids]), names if tokens is None else _checked(tuple(tokens), len(ids)))


def _encoded(text: str, tokenizer: Any) -> tuple[list[int], tuple[str, ...]]:
    """The ids of a text, and what of the text each stands for, where the tokenizer says that."""
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, return_offsets_mapping=True, truncation=False)
        ids = list(encoded["input_ids"])
        names = names_of_ids(ids, tokenizer)
        spans = encoded["offset_mapping"]
        pieces = [text[start:end] for start, end in spans]
        return ids, tuple(piece or name for piece, name in zip(pieces, names, strict=True))
    encoded = tokenizer(text)
    if hasattr(encoded, "keys"):
        encoded = encoded["input_ids"]
    ids = np.asarray(encoded)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(
            "trace(): tokenizer(text) must give token ids, or a mapping with input_ids; got "
            f"{type(encoded).__name__}."
        )
    found = [int(each) for each in ids]
    return found, names_of_ids(found, tokenizer)


def names_of_ids(ids: Sequence[int], tokenizer: Any) -> tuple[str, ...]:
    """A name for each id: the tokenizer's, or the id itself."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return tuple(str(name) for name in tokenizer.convert_ids_to_tokens(list(ids)))
    if hasattr(tokenizer, "decode"):
        return tuple(str(tokenizer.decode([each])) for each in ids)
    return tuple(f"id {each}" for each in ids)
