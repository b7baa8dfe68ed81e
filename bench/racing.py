"""How a bench races its contestants, and prints what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from regard import _amx

__all__ = ["line", "race"]

if _amx.avoid():
    print(f"AMX ends what uses it on this machine: {_amx.SETTING}={_amx.WITHOUT}")


def line(what: str, value: str, aim: str = "") -> None:
    print(f"{what:58}{value:>12}  {aim}", flush=True)


def race(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each, in turns."""
    best = dict.fromkeys(contestants, float("inf"))
    for call in contestants.values():
        call()
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
