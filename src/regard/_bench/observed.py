"""Observed attention beside its own plain forward, PyTorch's SDPA, and eager PyTorch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

import regard
from regard._bench.check import check_output, check_seen
from regard._bench.plan import NotMeasured, Plan
from regard._bench.problems import (
    Eager,
    Problem,
    eager,
    random_problem,
    rising_problem,
    sdpa,
    sdpa_path,
    see,
    work,
)
from regard._bench.race import Call, race
from regard._bench.results import Cell

__all__ = ["measure_eager", "measure_observed"]

_COPIES = 6  # of the matrix of weights: more than the eager computation holds at once


def measure_observed(plan: Plan, cell: Cell) -> Cell:
    """Plain, observed and SDPA; and with `received` where N is large enough."""
    if cell.section == "rising":
        problem = rising_problem(cell.heads, cell.n, cell.d)
    else:
        problem = random_problem(cell.heads, cell.n, cell.d, cell.causal)
    q, k, v, causal = problem

    def plain() -> Tensor:
        return regard.attention(q, k, v, causal=causal)

    contestants: dict[str, Call] = {
        "plain": plain,
        "observed": _observed(plan, problem),
        "sdpa": partial(sdpa, problem),
        "plain again": plain,
    }
    if cell.n >= plan.received_from and cell.section == "observed":
        contestants["received"] = _observed(plan, problem, received=True)
    laps = race(contestants, plan.pace, partial(_check, problem))
    return replace(cell, work=work(problem), seconds=laps, path=sdpa_path(problem))


def measure_eager(plan: Plan, cell: Cell) -> Cell:
    """The same statistics from the whole matrix of weights, with and without `received`."""
    needed = _COPIES * 4 * cell.heads * cell.n**2
    if (available := _available_memory()) is not None and available < needed:
        raise NotMeasured(
            f"eager PyTorch at N = {cell.n:,} needs up to {needed / 1e9:.1f} GB, and "
            f"{available / 1e9:.1f} are free."
        )
    problem = random_problem(cell.heads, cell.n, cell.d)
    blind = partial(eager, problem, plan.map_shape, received=False)
    contestants: dict[str, Call] = {
        "eager": blind,
        "observed": _observed(plan, problem),
        "eager with received": partial(eager, problem, plan.map_shape, received=True),
        "received": _observed(plan, problem, received=True),
        "eager again": blind,
    }
    laps = race(contestants, plan.pace, partial(_check, problem))
    return replace(cell, work=work(problem), seconds=laps)


def _observed(plan: Plan, problem: Problem, received: bool = False) -> Call:
    q, k, v, causal = problem
    wanted = see(plan.map_shape, received)
    return lambda: regard.attention(q, k, v, causal=causal, see=wanted)


def _check(problem: Problem, name: str, result: object) -> None:
    if isinstance(result, Eager):
        check_output(name, problem, result.out)
        check_seen(name, problem, result)
    elif isinstance(result, tuple):
        out, seen = result
        check_output(name, problem, out)
        check_seen(name, problem, seen)
    elif isinstance(result, Tensor):
        check_output(name, problem, result)


def _available_memory() -> int | None:
    """Bytes that can be had without swapping, where the system says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None
