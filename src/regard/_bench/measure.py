"""Measures cells, one after the other: each answer is checked, then the contestants are raced."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import regard
from regard._bench.check import check_attention, check_pixels
from regard._bench.machine import machine, measure_peak, others
from regard._bench.memory import NotMeasured, available_memory, measure_memory
from regard._bench.problems import (
    SEE,
    Problem,
    eager,
    random_problem,
    rising_problem,
    sdpa,
    sdpa_path,
)
from regard._bench.race import Call, Pace, race
from regard._bench.results import Cell, Results, count

_PIXELS = (256, 256)  # of a pooled picture
_COPIES = 6  # of the matrix of weights: more than the eager computation holds at once
_BUSY = 0.1  # the part of the processors that others may use


def measure(
    cells: Iterable[Cell],
    pace: Pace,
    progress: Callable[[int, int, str, str], None] = lambda which, of, section, cell: None,
) -> Results:
    """Measure the cells, without gradients, and tell `progress` which, of how many.

    What this machine cannot do is left out and noted. When the user interrupts, what has been
    measured so far is returned, and is not `complete`. Raises WrongAnswer before timing an answer
    that is wrong.
    """
    cells = list(cells)
    results = Results(
        machine=machine(),
        versions={
            "regard": regard.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        date=datetime.date.today().isoformat(),
        pace=pace,
    )
    if (busy := others()) > _BUSY:
        results.notes.append(
            f"Others used {busy:.0%} of the processors at the start: do not trust these times, "
            "least of all those of several threads."
        )
    threads_before = torch.get_num_threads()
    try:
        with torch.no_grad():
            for threads in sorted({cell.threads for cell in cells}):
                progress(0, len(cells), "peak", count(threads, "thread"))
                results.peak[threads] = measure_peak(threads)
            for number, cell in enumerate(cells, 1):
                progress(number, len(cells), cell.section, cell.title())
                torch.set_num_threads(cell.threads)
                try:
                    results.cells.append(measure_cell(cell, pace))
                except NotMeasured as reason:
                    results.notes.append(f"{cell.section} was not measured: {reason}")
    except KeyboardInterrupt:
        results.complete = False
    finally:
        torch.set_num_threads(threads_before)
    return results


def measure_cell(cell: Cell, pace: Pace) -> Cell:
    """The same cell with its times.

    >>> list(measure_cell(Cell("forward", 8, 4, False, 1), Pace(rounds=1, seconds=0)).seconds)
    ['sdpa', 'regard', 'sdpa again']
    """
    if cell.section == "memory":
        return measure_memory(cell)
    if cell.section == "rising":
        problem = rising_problem(cell.heads, cell.n, cell.d)
    else:
        problem = random_problem(cell.heads, cell.n, cell.d, cell.causal)
    laps = race(_contestants(cell, problem), pace, partial(_check, problem))
    return replace(cell, seconds=laps, path=sdpa_path(problem) if "sdpa" in laps else "")


def _contestants(cell: Cell, problem: Problem) -> dict[str, Call]:
    """What is raced by name; `… again` is the same call, raced against itself."""
    q, k, v, causal = problem

    def peer() -> Tensor:
        return sdpa(problem)

    def plain() -> Tensor:
        return regard.attention(q, k, v, causal=causal)

    def observed() -> tuple[Tensor, regard.Observation]:
        return regard.attention(q, k, v, causal=causal, see=SEE)

    def received() -> tuple[Tensor, regard.Observation]:
        return regard.attention(q, k, v, causal=causal, see=see_received)

    see_received = replace(SEE, received=True)
    if cell.section in ("forward", "calls"):
        return {"sdpa": peer, "regard": plain, "sdpa again": peer}
    if cell.section in ("observed", "rising"):
        raced: dict[str, Call] = {"plain": plain, "observed": observed, "sdpa": peer}
        raced["plain again"] = plain
        return raced | {"received": received} if cell.received else raced
    if cell.section == "eager":
        needed = _COPIES * 4 * cell.heads * cell.n**2
        if (available := available_memory()) is not None and available < needed:
            raise NotMeasured(
                f"eager PyTorch at N = {cell.n:,} needs up to {needed / 1e9:.1f} GB, and "
                f"{available / 1e9:.1f} are free."
            )
        blind = partial(eager, problem, SEE)
        return {
            "eager": blind,
            "observed": observed,
            "eager with received": partial(eager, problem, see_received),
            "received": received,
            "eager again": blind,
        }
    _, seen = regard.attention(q, k, v, see=regard.See())  # tiles

    def mean() -> Tensor:
        return regard.pooled(q, k, shape=_PIXELS, reduce="mean", lse=seen.lse)

    def maximum() -> Tensor:
        return regard.pooled(q, k, shape=_PIXELS, reduce="max", lse=seen.lse)

    return {"mean": mean, "maximum": maximum, "mean again": mean}


def _check(problem: Problem, name: str, result: Any) -> None:
    if name in ("mean", "maximum"):
        check_pixels(name, problem, result, maximum=name == "maximum")
    elif isinstance(result, tuple):
        check_attention(name, problem, *result)
    else:
        check_attention(name, problem, result)
