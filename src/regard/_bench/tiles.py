"""Pictures of a rectangle of the weights, beside the time of its Q Kᵀ at the peak."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

import regard
from regard._bench.check import check_pixels
from regard._bench.plan import Plan
from regard._bench.problems import random_problem, work
from regard._bench.race import race
from regard._bench.results import Cell

__all__ = ["measure_tiles"]


def measure_tiles(plan: Plan, cell: Cell) -> Cell:
    """Race the mean and the maximum of all queries by all keys, as one picture."""
    problem = random_problem(cell.heads, cell.n, cell.d)
    q, k, v, _ = problem
    _, seen = regard.attention(q, k, v, see=regard.See())

    def mean() -> Tensor:
        return regard.pooled(q, k, shape=plan.pixels, reduce="mean", lse=seen.lse)

    def maximum() -> Tensor:
        return regard.pooled(q, k, shape=plan.pixels, reduce="max", lse=seen.lse)

    def check(name: str, pixels: object) -> None:
        assert isinstance(pixels, Tensor)
        check_pixels(name, problem, pixels, maximum=name == "maximum")

    laps = race({"mean": mean, "maximum": maximum, "mean again": mean}, plan.pace, check)
    return replace(cell, work=work(problem) / 2, seconds=laps)
