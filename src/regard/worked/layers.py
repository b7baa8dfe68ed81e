"""The steps of a layer around attention: residual, layer norm, feed-forward."""

from __future__ import annotations

import numpy as np

from regard._intervals import (
    Intervals,
    bent,
    cellwise,
    centered_rows,
    divided,
    mean_square,
    normalized_rows,
    product,
    variance_rows,
)

__all__ = ["layer_step"]


def layer_step(
    kind: str, parts: dict[str, Intervals], epsilon: float, ways: dict[str, str]
) -> Intervals:
    """What a step of a layer gives from its parts, by their kinds. Raises ValueError on shapes."""
    unbiased = ways["variance"] == "unbiased"
    stem = kind.removesuffix("_2")
    first = next(iter(parts.values()))
    if stem == "residual":
        one, two = parts.values()
        if one.shape != two.shape:
            raise ValueError("added")
        return one + two
    if stem in ("W", "b", "block"):
        return first
    if kind in ("hidden", "feed_forward"):
        x, w = list(parts.values())[:2]
        fits = [x.shape[1] == end for end in w.shape]
        if not any(fits):
            raise ValueError("multiplied")
        w = w.transposed if not fits[0] or (all(fits) and ways["maps"] == "W x") else w
        return _shifted(product(x, w), list(parts.values())[2:])
    if kind == "activated":
        return bent(_shifted(first, list(parts.values())[1:]), ways["activation"])
    if stem == "norm":
        for part, value in list(parts.items())[1:]:
            row = _row(value, first, "multiplied")
            first = cellwise(first, row) if part.startswith("gamma") else first + row
        return first
    return _of_norm(stem, {k.removesuffix("_2"): v for k, v in parts.items()}, epsilon, unbiased)


def _shifted(x: Intervals, biases: list[Intervals]) -> Intervals:
    for bias in biases:
        x = x + _row(bias, x, "added")
    return x


def _row(part: Intervals, x: Intervals, done: str) -> Intervals:
    """One number for each column of x, or one for all."""
    part = part if part.shape[0] == 1 else part.transposed
    if part.shape not in ((1, x.shape[1]), (1, 1)):
        raise ValueError(done)
    return part


def _of_norm(stem: str, parts: dict[str, Intervals], epsilon: float, unbiased: bool) -> Intervals:
    """μ, x − μ, σ², σ and x̂, each from what of the others is printed."""
    x = next(iter(parts.values()))
    mean, centered, deviation = (parts.get(k) for k in ("mean", "centered", "deviation"))
    if any(v.shape not in (x.shape, (x.shape[0], 1)) for v in parts.values()):
        raise ValueError("normalised")
    if stem == "mean":
        return x.each(lambda end: end.mean(axis=1, keepdims=True))
    if centered is None and mean is not None:
        centered = Intervals(x.low - mean.high, x.high - mean.low)
    if stem == "centered":
        return centered or centered_rows(x)
    if stem == "normalized" and len(parts) == 1 and centered is None:
        return normalized_rows(x, epsilon, unbiased=unbiased)
    variance = parts.get("variance")
    if variance is None and deviation is not None:
        variance = deviation.each(lambda end: np.maximum(end, 0) ** 2)
    elif variance is None and centered is not None:
        variance = mean_square(centered, unbiased=unbiased)
    elif variance is None:
        variance = variance_rows(x, unbiased=unbiased)
    if stem == "variance":
        return variance
    low, high = np.maximum(variance.low, 0), np.maximum(variance.high, 0) + epsilon
    sigma = Intervals(np.sqrt(low), np.sqrt(high))
    return sigma if stem == "deviation" else divided(centered or centered_rows(x), sigma)
