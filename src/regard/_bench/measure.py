"""Measures the cells of a plan, one after the other, and says which."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import asdict

import torch

from regard._bench.forward import measure_forward
from regard._bench.machine import machine, measure_peak, others, versions
from regard._bench.memory import measure_memory
from regard._bench.observed import measure_eager, measure_observed
from regard._bench.plan import NotMeasured, Plan
from regard._bench.results import Cell, Memory, Results
from regard._bench.tiles import measure_tiles

__all__ = ["Progress", "measure"]

Progress = Callable[[int, int, str, str], None]  # which, of how many, section, cell in words

_BUSY = 0.1  # the part of the processors that others may use

_HOW: dict[str, Callable[[Plan, Cell], Cell | Memory]] = {
    "forward": measure_forward,
    "observed": measure_observed,
    "rising": measure_observed,
    "eager": measure_eager,
    "tiles": measure_tiles,
    "calls": measure_forward,
    "memory": measure_memory,
}


def measure(plan: Plan, progress: Progress = lambda which, of, section, cell: None) -> Results:
    """Measure every cell of the plan, without gradients.

    What this machine cannot do is left out and noted. When the user interrupts, what has been
    measured so far is returned, and is not `complete`. Raises WrongAnswer before timing an answer
    that is wrong.
    """
    cells = list(plan.cells())
    results = Results(
        machine=machine(),
        versions=versions(),
        date=datetime.date.today().isoformat(),
        settings={
            "batch": 1,
            "heads": plan.heads,
            "dtype": "float32",
            "threads": list(plan.threads),
            "sections": list(plan.sections),
            **asdict(plan.pace),
        },
    )
    if (busy := others()) > _BUSY:
        results.notes.append(
            f"Others used {busy:.0%} of the processors at the start: do not trust these times, "
            "least of all those of several threads."
        )
    threads_before = torch.get_num_threads()
    try:
        with torch.no_grad():
            for threads in plan.threads:
                progress(0, len(cells), "peak", f"{threads} thread{'s' * (threads != 1)}")
                results.peak[threads] = measure_peak(threads)
            for number, cell in enumerate(cells, 1):
                progress(number, len(cells), cell.section, cell.title())
                torch.set_num_threads(cell.threads)
                try:
                    measured = _HOW[cell.section](plan, cell)
                except NotMeasured as reason:
                    results.notes.append(f"{cell.section} was not measured: {reason}")
                    continue
                if isinstance(measured, Memory):
                    results.memory.append(measured)
                else:
                    results.cells.append(measured)
    except KeyboardInterrupt:
        results.complete = False
    finally:
        torch.set_num_threads(threads_before)
    return results
