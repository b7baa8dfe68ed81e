"""Which machine this is, how busy, and how fast it multiplies and adds at most."""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median

import regard
from regard import _native
from regard._bench.plan import processors

_ROUNDS, _TRIES = 5, 4


def machine() -> dict[str, str | int]:
    """The processor, what it can do, and the build of the kernel that it runs."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = (names or [processor])[0]
    return {
        "processor": processor,
        "cores": processors(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction set": _native.instruction_set(),
        "kernel": _native.kernel(),
        "backend": next(each.name for each in regard.backends() if each.available),
    }


def measure_peak(threads: int, seconds: float = 0.01) -> float:
    """Floating-point operations a second of as many threads that only multiply and add.

    Measured like everything else: best of several tries, median of the rounds. With several threads
    it is the sum of what each of them does while the others do the same.
    """
    with ThreadPoolExecutor(threads) as pool:

        def together() -> float:
            return sum(pool.map(_native.measure_peak, [seconds] * threads))

        together()  # the clock rises first
        return median(max(together() for _ in range(_TRIES)) for _ in range(_ROUNDS))


def others(seconds: float = 0.5) -> float:
    """The part of the processors that others use while this process sleeps; 0 if nobody says so."""
    try:
        busy_before, before = _ticks()
        time.sleep(seconds)
        busy_after, after = _ticks()
    except OSError:
        return 0.0
    return min(max((busy_after - busy_before) / max(after - before, 1), 0.0), 1.0)


def _ticks() -> tuple[int, int]:
    """Ticks of all processors that were not idle, and all ticks."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    user, nice, system, idle, waiting, *interrupts = map(int, first.split()[1:9])
    busy = user + nice + system + sum(interrupts)
    return busy, busy + idle + waiting
