"""Is the answer right? Asked of the float64 reference, before anything is timed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from regard import reference
from regard._bench.problems import Problem

_ALL_ROWS = 512  # up to here every row is compared, beyond it three blocks of rows
_BLOCKS = 128  # a block is this part of the rows
_ATOL, _RTOL = 1e-5, 5e-6  # of outputs in float32, for inputs of variance 1
_LOOSE = 5e-5  # of statistics that add up many weights


class WrongAnswer(RuntimeError):
    """What was to be timed does not compute attention."""


def check_attention(name: str, problem: Problem, out: Tensor, seen: Any = None) -> None:
    """Raise WrongAnswer unless `out` is softmax(Q Kᵀ / √D) · V, and `seen` is of these weights.

    `seen` has lse, entropy, top_keys, top_weights, map, and received, which may be None: it is
    compared where every row is, and elsewhere only its sum is.

    >>> import torch
    >>> from regard._bench.problems import random_problem, sdpa
    >>> problem = random_problem(2, 8, 4, causal=True)
    >>> check_attention("sdpa", problem, sdpa(problem))
    >>> check_attention("nothing", problem, torch.zeros(1, 2, 8, 4))
    Traceback (most recent call last):
    ...
    regard._bench.check.WrongAnswer: wrong output of nothing for N = 8, d = 4, causal: off by ...
    """
    if out.shape != problem.v.shape:
        expected = tuple(problem.v.shape)
        raise WrongAnswer(f"the output of {name} must be {expected}; got {tuple(out.shape)}.")
    compare = partial(_compare, name, problem)
    n = problem.q.shape[2]
    for part, true in _references(problem):
        weights = true.weights
        compare("output", out[part], true.output, _ATOL)
        if seen is None:
            continue
        _, strongest = reference.top(weights, 8, true.allowed)
        keys = seen.top_keys[part].numpy()
        named = np.take_along_axis(weights, keys.clip(0, n - 1), -1)
        named = np.where((keys >= 0) & (keys < n), named, np.where(keys == -1, 0.0, np.nan))
        compare("lse", seen.lse[part], true.lse, _LOOSE)
        compare("entropy", seen.entropy[part], reference.entropy(weights), _LOOSE)
        compare("top_weights", seen.top_weights[part], strongest, _ATOL)
        compare("weights of top_keys", named, strongest, _ATOL)
        height, width = seen.map.shape[2:]
        rows = range(n)[part[2]]
        lines = range(rows.start * height // n, -(-rows.stop * height // n))
        if all(edge * height % n == 0 for edge in (rows.start, rows.stop)):
            made = seen.map[part[0], part[1], lines.start : lines.stop]
            pooled = reference.pooled_map(weights, (len(lines), width), allowed=true.allowed)
            compare("map", made, pooled, _LOOSE)
        if seen.received is not None and len(rows) == n:
            compare("received", seen.received[part[:2]], reference.received(weights), _LOOSE)
    if seen is not None and seen.received is not None:
        compare("sum of received", seen.received.double().sum(-1) / n, 1.0, _LOOSE)


def check_pixels(name: str, problem: Problem, pixels: Tensor, maximum: bool) -> None:
    """Raise WrongAnswer unless the first row of pixels is the mean, or maximum, of its weights.

    N must be a multiple of both sides of the picture.
    """
    n = problem.q.shape[2]
    height, width = pixels.shape[-2:]
    q, k, v, causal = problem
    q, k, v = q[:, :1, : n // height].numpy(), k[:, :1].numpy(), v[:, :1].numpy()
    true = reference.attention(q, k, v, causal=causal, position=0)
    bins = true.weights.reshape(*true.weights.shape[:3], width, n // width)
    exact = bins.max((2, 4)) if maximum else bins.mean((2, 4))
    _compare(name, problem, "pixels", pixels[:, :1, 0], exact, _ATOL)


def _references(problem: Problem) -> Iterator[tuple[tuple[slice, ...], reference.Attention]]:
    """The reference of everything, or of three blocks of the rows of two heads."""
    q, k, v, causal = problem
    _, heads, n, _ = q.shape
    rows, stride = n, 1
    if n > _ALL_ROWS:
        rows, stride = n // _BLOCKS, max(heads - 1, 1)
    some = slice(None, None, stride)
    k, v = k[:, some].numpy(), v[:, some].numpy()
    for first in sorted({0, n // rows // 2 * rows % n, n - rows}):
        part = slice(None), some, slice(first, first + rows)  # batch, heads, queries
        yield part, reference.attention(q[part].numpy(), k, v, causal=causal, position=first)


def _compare(
    name: str, problem: Problem, what: str, found: ArrayLike, true: ArrayLike, atol: float
) -> None:
    exact = np.asarray(true)
    difference = np.abs(np.asarray(found, dtype=np.float64) - exact)
    if not np.all(difference <= atol + _RTOL * np.abs(exact)):  # a NaN is never within
        _, _, n, d = problem.q.shape
        causal = ", causal" if problem.causal else ""
        raise WrongAnswer(
            f"wrong {what} of {name} for N = {n:,}, d = {d}{causal}: off by "
            f"{difference.max():.2g}, where {atol:g} is allowed. It was not timed."
        )
