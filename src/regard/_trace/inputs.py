"""What a trace is given: matrices; vectors or token ids of one sequence, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard._arithmetic import figure
from regard.reference import Array
from regard.text import tokenize

Positions = Literal["none", "sinusoidal"]


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices of attention: `w_q`, `w_k` (H, d_model, d_k), `w_v` (H, d_model, d_v), `w_o`.

    Two-dimensional ones are one head. `w_o` (H·d_v, d_out) may be left out: the heads are then
    handed on side by side, unmixed. `given_heads` (G, N, d_v) are the outputs of further heads that
    are known only by their result.
    """

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array | None = None
    given_heads: Array | None = None

    def __post_init__(self) -> None:
        for name in ("w_q", "w_k", "w_v", "w_o", "given_heads"):
            if getattr(self, name) is None:
                continue
            array = np.array(getattr(self, name), dtype=np.float64)
            if name != "w_o":
                array = array[None] if array.ndim == 2 else array
                if array.ndim != 3 or 0 in array.shape:
                    raise ValueError(
                        f"Projections(): {name} must have 2 axes, or 3 with the heads first, and "
                        f"none of them empty; got shape {array.shape}."
                    )
            if not np.isfinite(array).all():
                raise ValueError(f"Projections(): {name} must be finite; it has a NaN or an ∞.")
            object.__setattr__(self, name, array)
        q, k, v = self.w_q.shape, self.w_k.shape, self.w_v.shape
        if q != k or q[:2] != v[:2]:
            raise ValueError(
                "Projections(): w_q and w_k must be (H, d_model, d_k) and w_v (H, d_model, d_v); "
                f"got {q}, {k} and {v}."
            )


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


def as_matrix(array: ArrayLike, name: str) -> Array:
    matrix = np.array(array, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"trace(): {name} must be a matrix with rows; got shape {matrix.shape}.")
    for i, j in np.argwhere(~np.isfinite(matrix))[:1]:
        raise ValueError(
            f"trace(): {name} must be finite; row {i + 1}, column {j + 1} is "
            f"{figure(float(matrix[i, j]))}."
        )
    return matrix


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
