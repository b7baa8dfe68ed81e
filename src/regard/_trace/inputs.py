"""What a trace is given: vectors or token ids of one sequence, and a name for each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._trace.build import as_matrix
from regard.reference import Array
from regard.text import tokenize


class Read(NamedTuple):
    """One sequence, vectors (N, width) or ids (N,), and a name for each token."""

    array: NDArray[Any]
    tokens: tuple[str, ...]
    is_random: bool = False


def random_numbers(seed: int, name: bytes, shape: tuple[int, ...], size: float = 1.0) -> Array:
    """Random numbers of two digits after the point, the same for the same seed and name."""
    return np.random.default_rng([seed, *name]).normal(scale=size, size=shape).round(2)


def read_vectors(
    given: Any, what: str, tokens: Sequence[str] | None, width: int, seed: int, of: str = ""
) -> Read:
    """X (N, width); of a text, a random vector for each word, the same for the same word.

    An X of another width is refused if it is `of` something of that width.
    """
    if isinstance(given, str):
        if tokens is not None:
            raise ValueError("trace(): a text has its own tokens; `tokens` are names for an X.")
        words = tuple(token.text for token in tokenize(given))
        if not words:
            raise ValueError("trace(): the text has no word in it.")
        rows = [random_numbers(seed, word.encode(), (width,)) for word in words]
        return Read(np.stack(rows), words, is_random=True)
    x = as_matrix(
        given.detach().cpu().double().numpy() if hasattr(given, "detach") else given, what
    )
    if of and x.shape[1] != width:
        raise ValueError(f"trace(): {what} must be (N, {width}), as wide as {of}; got {x.shape}.")
    letter = "x" if what == "X" else "y"
    names = tuple(f"{letter}{i + 1}" for i in range(len(x)))
    return Read(x, names if tokens is None else _checked(tokens, len(x)))


def _checked(tokens: Sequence[Any], count: int) -> tuple[str, ...]:
    if len(tokens) != count or not all(isinstance(token, str) for token in tokens):
        raise ValueError(
            f"trace(): tokens must be {count} texts, a name for each token; got {len(tokens)}: "
            f"{', '.join(map(repr, tokens[:6]))}."
        )
    return tuple(tokens)


def read_ids(given: Any, what: str, tokens: Sequence[str] | None, tokenizer: Any) -> Read:
    """Token ids (N,), or a text and a tokenizer that makes ids of it."""
    pieces: Sequence[str] = ()  # of the text, where the tokenizer says what each id stands for
    if not isinstance(given, str):
        ids = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise ValueError(
                f"trace(): {what} must be token ids (N,), whole numbers of one sequence; got "
                f"shape {ids.shape} of {ids.dtype}."
            )
    elif tokenizer is None:
        raise ValueError(
            f"trace(): {what} must be token ids, as a text needs a tokenizer; got a text. "
            "Say tokenizer=…"
        )
    elif getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(given, return_offsets_mapping=True, truncation=False)
        ids = np.asarray(encoded["input_ids"])
        pieces = [given[start:end] for start, end in encoded["offset_mapping"]]
    else:
        encoded = tokenizer(given)
        ids = np.asarray(encoded["input_ids"] if hasattr(encoded, "keys") else encoded)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise TypeError(
                "trace(): tokenizer(text) must give token ids, or a mapping with input_ids; got "
                f"{type(encoded).__name__}."
            )
    if not len(ids):
        raise ValueError(f"trace(): {what} must have a token; the tokenizer makes none of it.")
    if tokens is not None:
        return Read(ids, _checked(tokens, len(ids)))
    names = names_of_ids(ids.tolist(), tokenizer)
    if pieces:
        names = tuple(piece or name for piece, name in zip(pieces, names, strict=True))
    return Read(ids, names)


def names_of_ids(ids: Sequence[int], tokenizer: Any) -> tuple[str, ...]:
    """A name for each id: the tokenizer's, or the id itself."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return tuple(str(name) for name in tokenizer.convert_ids_to_tokens(list(ids)))
    if hasattr(tokenizer, "decode"):
        return tuple(str(tokenizer.decode([each])) for each in ids)
    return tuple(f"id {each}" for each in ids)
