"""Which machine this is, which versions, and how fast it multiplies and adds at most."""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import torch

import regard
from regard import _native
from regard._bench.plan import processors

__all__ = ["machine", "measure_peak", "others", "versions"]

_ROUNDS, _TRIES = 5, 4


def machine() -> dict[str, str | int]:
    """The processor, what it can do, and the build of the kernel that it runs.

    >>> machine()["cores"] >= 1
    True
    """
    return {
        "processor": _processor(),
        "cores": processors(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction set": _native.instruction_set(),
        "kernel": _native.kernel(),
        "backend": next(each.name for each in regard.backends() if each.available),
    }


def versions() -> dict[str, str]:
    """Of what takes part.

    >>> sorted(versions())
    ['python', 'regard', 'torch']
    """
    return {
        "regard": regard.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
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
    """The part of the processors that others use while this process sleeps; 0 if nobody says so.

    >>> 0 <= others(0.01) <= 1
    True
    """
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None or after[1] <= before[1]:
        return 0.0
    return min(max((after[0] - before[0]) / (after[1] - before[1]), 0.0), 1.0)


def _ticks() -> tuple[int, int] | None:
    """Ticks of all processors that were not idle, and all ticks."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, idle, waiting, *interrupts = map(int, first.split()[1:9])
    busy = user + nice + system + sum(interrupts)
    return busy, busy + idle + waiting


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
