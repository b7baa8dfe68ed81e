"""Is the answer right? Asked of the float64 reference, before anything is timed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from regard import reference
from regard._bench.problems import Problem

__all__ = ["WrongAnswer", "check_output", "check_pixels", "check_seen"]

_ALL_ROWS = 512  # up to here every row is compared, beyond it three blocks of rows
_BLOCKS = 128  # a block is this part of the rows
_ATOL, _RTOL = 1e-5, 5e-6  # of outputs in float32, for inputs of variance 1
_LOOSE = 5e-5  # of statistics that add up many weights
_FIELDS = ("lse", "entropy", "top_keys", "top_weights", "map", "received")

Part = tuple[slice, slice, slice]  # batch, heads, queries


class WrongAnswer(RuntimeError):
    """What was to be timed does not compute attention."""


def check_output(name: str, problem: Problem, out: Tensor) -> None:
    """Raise WrongAnswer unless `out` is softmax(Q Kᵀ / √D) · V.

    >>> import torch
    >>> from regard._bench.problems import random_problem, sdpa
    >>> problem = random_problem(2, 8, 4, causal=True)
    >>> check_output("sdpa", problem, sdpa(problem))
    >>> check_output("nothing", problem, torch.zeros(1, 2, 8, 4))
    Traceback (most recent call last):
    ...
    regard._bench.check.WrongAnswer: nothing: wrong output for N = 8, d = 4, causal: off by ...
    """
    if out.shape != problem.v.shape:
        expected = tuple(problem.v.shape)
        raise WrongAnswer(f"{name}: the output must be {expected}; got {tuple(out.shape)}.")
    for part, true in _references(problem):
        _compare(name, "output", problem, out[part], true.output, _ATOL)


def check_seen(name: str, problem: Problem, seen: object) -> None:
    """Raise WrongAnswer unless the statistics are those of the weights.

    `seen` has lse, entropy, top_keys, top_weights, map and received, which may be None: it is
    compared where every row is, and elsewhere only its sum is.

    >>> from regard._bench.problems import eager, random_problem
    >>> problem = random_problem(2, 8, 4)
    >>> check_seen("eager", problem, eager(problem, (4, 2), received=True))
    """
    n = problem.q.shape[2]
    found = {field: getattr(seen, field) for field in _FIELDS}
    for part, true in _references(problem):
        weights = true.weights
        entropy = reference.entropy(weights)
        _, strongest = reference.top(weights, 8, true.allowed)
        keys = found["top_keys"][part].numpy()
        named = np.take_along_axis(weights, keys.clip(0, n - 1), -1)
        named = np.where((keys >= 0) & (keys < n), named, np.where(keys == -1, 0.0, np.nan))
        _compare(name, "lse", problem, found["lse"][part], true.lse, _LOOSE)
        _compare(name, "entropy", problem, found["entropy"][part], entropy, _LOOSE)
        _compare(name, "top_weights", problem, found["top_weights"][part], strongest, _ATOL)
        _compare(name, "weights of top_keys", problem, named, strongest, _ATOL)
        height, width = found["map"].shape[2:]
        rows = range(n)[part[2]]
        lines = range(rows.start * height // n, -(-rows.stop * height // n))
        if all(edge * height % n == 0 for edge in (rows.start, rows.stop)):
            made = found["map"][part[0], part[1], lines.start : lines.stop]
            pooled = reference.pooled_map(weights, (len(lines), width), allowed=true.allowed)
            _compare(name, "map", problem, made, pooled, _LOOSE)
        if found["received"] is not None and len(rows) == n:
            received = reference.received(weights)
            _compare(name, "received", problem, found["received"][part[:2]], received, _LOOSE)
    if found["received"] is not None:
        share = found["received"].double().sum(-1) / n
        _compare(name, "sum of received", problem, share, 1.0, _LOOSE)


def check_pixels(name: str, problem: Problem, pixels: Tensor, maximum: bool) -> None:
    """Raise WrongAnswer unless the first row of pixels is the mean, or maximum, of its weights.

    N must be a multiple of both sides of the picture.
    """
    n = problem.q.shape[2]
    height, width = pixels.shape[-2:]
    q, k, v, causal = problem
    q, k, v = q[:, :1, : n // height].numpy(), k[:, :1].numpy(), v[:, :1].numpy()
    true = reference.attention(q, k, v, causal=causal, position=0)
    cut = true.weights.reshape(*true.weights.shape[:3], width, n // width)
    exact = cut.max((2, 4)) if maximum else cut.mean((2, 4))
    _compare(name, "pixels", problem, pixels[:, :1, 0], exact, _ATOL)


def _references(problem: Problem) -> Iterator[tuple[Part, reference.Attention]]:
    """The reference of everything, or of three blocks of the rows of two heads."""
    q, k, v, causal = problem
    _, heads, n, _ = q.shape
    rows, stride = n, 1
    if n > _ALL_ROWS:
        rows, stride = n // _BLOCKS, max(heads - 1, 1)
    some = slice(None, None, stride)
    k, v = k[:, some].numpy(), v[:, some].numpy()
    for first in sorted({0, n // rows // 2 * rows % n, n - rows}):
        part = slice(None), some, slice(first, first + rows)
        yield part, reference.attention(q[part].numpy(), k, v, causal=causal, position=first)


def _compare(
    name: str, what: str, problem: Problem, found: Tensor | ArrayLike, true: ArrayLike, atol: float
) -> None:
    exact = np.asarray(true)
    difference = np.abs(np.asarray(found, dtype=np.float64) - exact)
    if not np.all(difference <= atol + _RTOL * np.abs(exact)):  # a NaN is never within
        _, _, n, d = problem.q.shape
        causal = ", causal" if problem.causal else ""
        raise WrongAnswer(
            f"{name}: wrong {what} for N = {n:,}, d = {d}{causal}: off by {difference.max():.2g}, "
            f"where {atol:g} is allowed. It was not timed."
        )
