"""Measures cells, one after the other: each answer is checked, then the contestants are raced."""

from __future__ import annotations

import datetime
import math
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from timeit import Timer

import torch

import regard
from regard._bench import types
from regard._bench.check import check_answer
from regard._bench.machine import NotMeasured, machine, measure_memory, measure_peak, others
from regard._bench.problems import Call, contestants, random_problem, rising_problem, sdpa_path
from regard._bench.results import Cell, Laps, Pace, Results, count

_BUSY = 0.1  # the part of the processors that others may use
_ONCE_IS_ENOUGH = 0.12  # seconds: a call this long is measured on its own, and not tried again
_TRIES = 3  # a call that the system interrupts must not pass for a long one
_FEWEST, _MOST = 3, 200  # repeats in a round, where one pass over the contestants is short
_SHORT_PASS = 15.0  # seconds, of so many repeats


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
    if cell.section in types.SECTIONS:
        return replace(cell, seconds=race(types.contestants(cell), pace))
    if cell.section == "rising":
        problem = rising_problem(cell.heads, cell.n, cell.d)
    else:
        problem = random_problem(cell.heads, cell.n, cell.d, cell.causal)
    laps = race(contestants(cell, problem), pace, partial(check_answer, problem))
    return replace(cell, seconds=laps, path=sdpa_path(problem) if "sdpa" in laps else "")


# ── the race ──────────────────────────────────────────────────────────────────────────────────


def race(
    contestants: Mapping[str, Call],
    pace: Pace,
    check: Callable[[str, object], object] = lambda name, result: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Laps:
    """The best time of one call of each contestant in each round, in seconds.

    Every contestant is called once, and `check(name, result)` may stop the race, before any time is
    taken. Then all take turns, each time another one first, and after each has been first the other
    way round: a busy moment of the machine hits all of them alike, and none always finds the caches
    as the same other one has left them. The same function under two names is raced against itself:
    how far the two differ is what the machine adds to every difference.
    """
    timers = {call: Timer(call, timer=clock) for call in contestants.values()}
    counts: dict[Call, int] = {}
    lengths: dict[Call, float] = {}  # of one measurement
    for name, call in contestants.items():
        if call in counts:
            continue
        start = clock()
        result = call()
        once = clock() - start
        check(name, result)
        del result
        counts[call], lengths[call] = 1, once
        if once < _ONCE_IS_ENOUGH:
            counts[call], lengths[call] = _calibrate(timers[call], pace.least)
    one_pass = max(sum(lengths[call] for call in contestants.values()), 1e-9)
    fewest = _FEWEST if one_pass * _FEWEST <= _SHORT_PASS else 1
    repeats = min(max(round(pace.seconds / one_pass), fewest), _MOST)
    rounds = min(pace.rounds, pace.fewer) if one_pass * repeats > pace.long else pace.rounds
    laps: Laps = {name: [] for name in contestants}
    order, passes = deque(contestants.items()), 0
    for _ in range(rounds):
        best = dict.fromkeys(contestants, math.inf)
        for _ in range(repeats):
            for name, call in reversed(order) if passes // len(order) % 2 else order:
                seconds = timers[call].timeit(counts[call]) / counts[call]
                best[name] = min(best[name], seconds)
            order.rotate(-1)
            passes += 1
        for name, seconds in best.items():
            laps[name].append(seconds)
    return laps


def _calibrate(timer: Timer, least: float) -> tuple[int, float]:
    """How many calls take at least `least` seconds, and how long they took."""
    count = 1
    while True:
        total = min(timer.repeat(_TRIES, count))
        if total >= least or count >= 1_000_000:
            return count, total
        enough = math.ceil(1.05 * count * least / max(total, 1e-9))
        count = max(count + 1, min(enough, 10 * count))
