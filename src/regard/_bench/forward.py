"""The plain forward pass beside PyTorch's scaled_dot_product_attention."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

import regard
from regard._bench.check import check_output
from regard._bench.plan import Plan
from regard._bench.problems import random_problem, sdpa, sdpa_path, work
from regard._bench.race import race
from regard._bench.results import Cell

__all__ = ["measure_forward"]


def measure_forward(plan: Plan, cell: Cell) -> Cell:
    """Race it against PyTorch, and PyTorch against itself.

    >>> from regard._bench.race import Pace
    >>> plan = Plan(threads=(1,), pace=Pace(rounds=1, seconds=0))
    >>> list(measure_forward(plan, Cell("forward", 8, 4, False, 1)).seconds)
    ['sdpa', 'regard', 'sdpa again']
    """
    problem = random_problem(cell.heads, cell.n, cell.d, cell.causal)
    q, k, v, causal = problem

    def peer() -> Tensor:
        return sdpa(problem)

    def ours() -> Tensor:
        return regard.attention(q, k, v, causal=causal)

    def check(name: str, out: object) -> None:
        assert isinstance(out, Tensor)
        check_output(name, problem, out)

    laps = race({"sdpa": peer, "regard": ours, "sdpa again": peer}, plan.pace, check)
    return replace(cell, work=work(problem), seconds=laps, path=sdpa_path(problem))
