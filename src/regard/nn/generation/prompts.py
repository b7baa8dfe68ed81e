"""Token ids in any form to rows of equal length: what a prompt may be, and how it is padded."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Tokens", "padded_left", "padded_right", "token_rows"]

Tokens = Tensor | Sequence[int] | Sequence[Sequence[int]] | Sequence[Tensor]


def token_rows(
    call: str, name: str, tokens: object, vocabulary: int
) -> tuple[list[list[int]], bool]:
    """The ids of each sequence, and whether `tokens` was one sequence rather than several.

    Raises TypeError or ValueError unless each has tokens, and all of them are of the vocabulary.

    >>> token_rows("generate()", "prompts", [[1, 2, 3], [4]], 11)
    ([[1, 2, 3], [4]], False)
    >>> token_rows("generate()", "prompts", torch.tensor([1, 2]), 11)
    ([[1, 2]], True)
    >>> token_rows("generate()", "prompts", [[1], []], 11)
    Traceback (most recent call last):
    ValueError: generate(): prompts must have at least one token each; got none in sequence 1. ...
    """
    if isinstance(tokens, Tensor):
        if tokens.dim() not in (1, 2):
            raise ValueError(
                f"{call}: {name} must be (N,) or (B, N); got {tuple(tokens.shape)}. "
                "Give one row of token ids for each sequence."
            )
        is_one = tokens.dim() == 1
        items = [tokens] if is_one else list(tokens)
    elif isinstance(tokens, Sequence) and not isinstance(tokens, str | bytes):
        is_one = len(tokens) > 0 and not isinstance(tokens[0], Tensor | Sequence)
        items = [tokens] if is_one else list(tokens)
    else:
        raise TypeError(
            f"{call}: {name} must be a tensor, a list of token ids, or a list of such lists; got "
            f"{type(tokens).__name__}. A tokenizer makes ids of text."
        )
    if not items:
        raise ValueError(
            f"{call}: {name} must hold at least one sequence; got none. Give a start token."
        )
    rows = [_whole(call, name, item) for item in items]
    for n, row in enumerate(rows):
        if not row:
            raise ValueError(
                f"{call}: {name} must have at least one token each; got none in sequence {n}. "
                "Give it a start token."
            )
        for token in (min(row), max(row)):
            if not 0 <= token < vocabulary:
                raise ValueError(
                    f"{call}: {name} must be of token ids from 0 to {vocabulary - 1}; got {token} "
                    f"in sequence {n}. Do tokenizer and model belong together?"
                )
    return rows, is_one


def _whole(call: str, name: str, row: object) -> list[int]:
    """The ids of one sequence."""
    if isinstance(row, Tensor):
        if row.dim() != 1 or row.is_floating_point() or row.is_complex() or row.dtype == torch.bool:
            raise TypeError(
                f"{call}: {name} must be of whole numbers, (N,) for each sequence; got "
                f"{tuple(row.shape)} of {row.dtype}. Token ids are int64."
            )
        return row.tolist()
    if not isinstance(row, Sequence) or isinstance(row, str | bytes):
        raise TypeError(
            f"{call}: {name} must be lists of token ids, all of them or none; got "
            f"{type(row).__name__} among them."
        )
    found: list[int] = []
    for token in row:
        try:
            if isinstance(token, bool):
                raise TypeError
            found.append(operator.index(token))
        except TypeError:
            raise TypeError(
                f"{call}: {name} must be of whole numbers; got {token!r}. A tokenizer makes ids "
                "of text."
            ) from None
    return found


def padded_left(
    rows: list[list[int]], device: torch.device | None = None
) -> tuple[Tensor, Tensor | None]:
    """ids (B, N) with the last tokens side by side, and which are real (B, N), None if all are.

    >>> ids, real = padded_left([[1, 2, 3], [4]])
    >>> ids.tolist(), real.tolist()
    ([[1, 2, 3], [0, 0, 4]], [[True, True, True], [False, False, True]])
    """
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows], device=device)
    if all(len(row) == longest for row in rows):
        return ids, None
    before = torch.tensor([longest - len(row) for row in rows], device=device)
    return ids, torch.arange(longest, device=device) >= before[:, None]


def padded_right(
    rows: list[list[int]], device: torch.device | None = None
) -> tuple[Tensor, Tensor | None]:
    """ids (B, N) with the first tokens side by side, and how many are real (B,), None if all are.

    >>> ids, lengths = padded_right([[1, 2, 3], [4]])
    >>> ids.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    """
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
    if all(len(row) == longest for row in rows):
        return ids, None
    return ids, torch.tensor([len(row) for row in rows], device=device)
