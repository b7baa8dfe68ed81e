"""Measures cells, one after the other: each answer is checked, then the contestants are raced."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch

import regard
from regard._bench.check import check_answer
from regard._bench.machine import NotMeasured, machine, measure_memory, measure_peak, others
from regard._bench.problems import contestants, random_problem, rising_problem, sdpa_path
from regard._bench.race import Pace, race
from regard._bench.results import Cell, Results, count

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
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    results = Results(
        machine=machine(),
        versions={"regard": regard.__version__, **versions},
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
    """The same cell with its times."""
    if cell.section == "memory":
        memory, seconds = measure_memory(cell.n, cell.d, cell.threads)
        return replace(cell, memory=memory, seconds={"observed": [seconds]})
    if cell.section == "rising":
        problem = rising_problem(cell.heads, cell.n, cell.d)
    else:
        problem = random_problem(cell.heads, cell.n, cell.d, cell.causal)
    laps = race(contestants(cell, problem), pace, partial(check_answer, problem))
    return replace(cell, seconds=laps, path=sdpa_path(problem) if "sdpa" in laps else "")
