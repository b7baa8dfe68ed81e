"""Is the answer right? Asked of the float64 reference, before anything is timed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from regard import reference
from regard._bench.problems import Problem

_ALL_ROWS = 512  # up to here every row is compared, beyond it three blocks of rows of two heads
_BLOCKS = 128  # a block is this part of the rows
_ATOL, _RTOL = 1e-5, 5e-6  # of outputs in float32, for inputs of variance 1
_LOOSE = 5e-5  # of statistics that add up many weights


class WrongAnswer(RuntimeError):
    """What was to be timed does not compute attention; `error` is by how much."""

    def __init__(self, message: str, error: float = math.inf) -> None:
        super().__init__(message)
        self.error = error


def check_answer(problem: Problem, name: str, answer: Any) -> float:
    """The largest error of a contestant of this name, which has computed what it should.

    That is the mean or the maximum of the weights, pixel by pixel, if so called; else the output,
    or the output and what was seen. Raises WrongAnswer if it has not.
    """
    if name in ("mean", "maximum"):
        return _check_pixels(problem, name, answer)
    return _check_attention(problem, name, *(answer if isinstance(answer, tuple) else (answer,)))


def _check_attention(problem: Problem, name: str, out: Tensor, seen: Any = None) -> float:
    """`out` is softmax(Q Kᵀ / √D) · V, and `seen` is of these weights.

    `seen` has lse, entropy, top_keys, top_weights, map, and received, which may be None: it is
    compared where every row is, and elsewhere only its sum is.
    """
    q, k, v, causal = problem
    _, heads, n, _ = q.shape
    if out.shape != (expected := (*q.shape[:3], v.shape[3])):
        raise WrongAnswer(f"the output of {name} must be {expected}; got {tuple(out.shape)}.")
    errors: list[float] = []

    def compare(*what: Any) -> None:
        errors.append(_compare(name, problem, *what))

    size, stride = (n, 1) if n <= _ALL_ROWS else (n // _BLOCKS, max(heads - 1, 1))
    some = slice(None, None, stride)
    k, v = k[:, some].numpy(), v[:, some].numpy()
    for first in sorted({0, n // size // 2 * size % n, n - size}):
        part = slice(None), some, slice(first, first + size)  # batch, heads, queries
        true = reference.attention(q[part].numpy(), k, v, causal=causal, position=first)
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
        lines = range(first * height // n, -(-(first + size) * height // n))
        if first * height % n == 0 and (first + size) * height % n == 0:
            made = seen.map[:, some, lines.start : lines.stop]
            pooled = reference.pooled_map(weights, (len(lines), width), allowed=true.allowed)
            compare("map", made, pooled, _LOOSE)
        if seen.received is not None and size == n:
            compare("received", seen.received[part[:2]], reference.received(weights), _LOOSE)
    if seen is not None and seen.received is not None:
        compare("sum of received", seen.received.double().sum(-1) / n, 1.0, _LOOSE)
    return max(errors)


def _check_pixels(problem: Problem, name: str, pixels: Tensor) -> float:
    """The first row of pixels; N must be a multiple of both sides of the picture."""
    q, k, v, causal = problem
    n = q.shape[2]
    height, width = pixels.shape[-2:]
    q, k, v = q[:, :1, : n // height].numpy(), k[:, :1].numpy(), v[:, :1].numpy()
    true = reference.attention(q, k, v, causal=causal, position=0)
    bins = true.weights.reshape(*true.weights.shape[:3], width, n // width)
    exact = bins.max((2, 4)) if name == "maximum" else bins.mean((2, 4))
    return _compare(name, problem, "pixels", pixels[:, :1, 0], exact, _ATOL)


def _compare(
    name: str, problem: Problem, what: str, found: ArrayLike, true: ArrayLike, atol: float
) -> float:
    exact = np.asarray(true)
    difference = np.abs(np.asarray(found, dtype=np.float64) - exact)
    error = float(difference.max())
    if not np.all(difference <= atol + _RTOL * np.abs(exact)):  # a NaN is never within
        _, _, n, d = problem.q.shape
        causal = ", causal" if problem.causal else ""
        raise WrongAnswer(
            f"wrong {what} of {name} for N = {n:,}, d = {d}{causal}: off by {error:.2g}, where "
            f"{atol:g} is allowed. It was not timed.",
            error,
        )
    return error
