"""Timing calls that take turns, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from timeit import Timer

Call = Callable[[], object]
Laps = dict[str, list[float]]

_ONCE_IS_ENOUGH = 0.12  # seconds: a call this long is measured on its own, and not tried again
_TRIES = 3  # a call that the system interrupts must not pass for a long one
_FEWEST, _MOST = 3, 200  # repeats in a round, where one pass over the contestants is short
_SHORT_PASS = 15.0  # seconds, of so many repeats


@dataclass(frozen=True)
class Pace:
    """How much time a race may take.

    A round takes about `seconds`, or one call of each contestant if that is longer. There are
    `rounds` of them, or only `fewer` where a round takes longer than `long` seconds. One
    measurement covers as many calls as take `least` seconds.
    """

    rounds: int = 5
    seconds: float = 0.3
    fewer: int = 3
    long: float = 2.0
    least: float = 0.002


def race(
    contestants: Mapping[str, Call],
    pace: Pace,
    check: Callable[[str, object], None] = lambda name, result: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Laps:
    """The best time of one call of each contestant in each round, in seconds.

    Every contestant is called once, and `check(name, result)` may stop the race, before any time is
    taken. Then all take turns, each time another one first. The same function under two names is
    raced against itself: how far the two differ is what the machine adds to every difference.
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
    order = deque(contestants.items())
    for _ in range(rounds):
        best = dict.fromkeys(contestants, math.inf)
        for _ in range(repeats):
            for name, call in order:
                seconds = timers[call].timeit(counts[call]) / counts[call]
                best[name] = min(best[name], seconds)
            order.rotate(-1)
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
