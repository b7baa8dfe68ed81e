"""Which machine this is, how busy, how fast at most, and how much memory a call takes on it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median

_ROUNDS, _TRIES = 5, 4
_STATUS = Path("/proc/self/status")


class NotMeasured(RuntimeError):
    """This machine cannot do what was to be measured."""


def processors() -> int:
    """How many processors this process may use."""
    can_tell = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1


def processor_name() -> str:
    """The processor by its maker's name, where the system says."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine() -> dict[str, str | int]:
    """The processor, what it can do, and the build of the kernel that it runs."""
    from regard import _native, backends

    return {
        "processor": processor_name(),
        "cores": processors(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction set": _native.instruction_set(),
        "kernel": _native.kernel(),
        "backend": next(each.name for each in backends() if each.available),
    }


def measure_peak(threads: int, seconds: float = 0.01) -> float:
    """Floating-point operations a second of as many threads that only multiply and add.

    Measured like everything else: best of several tries, median of the rounds. With several threads
    it is the sum of what each of them does while the others do the same.
    """
    from regard import _native

    with ThreadPoolExecutor(threads) as pool:

        def together() -> float:
            return sum(pool.map(_native.measure_peak, [seconds] * threads))

        together()  # the clock rises first
        return median(max(together() for _ in range(_TRIES)) for _ in range(_ROUNDS))


def others(seconds: float = 0.5) -> float:
    """The part of the processors that others use while this process sleeps; 0 if nobody says so."""

    def ticks() -> tuple[int, int]:
        """Of all processors: those that were not idle, and all."""
        counts = Path("/proc/stat").read_text(encoding="ascii").split()[1:9]
        user, nice, system, idle, waiting, *interrupts = map(int, counts)
        busy = user + nice + system + sum(interrupts)
        return busy, busy + idle + waiting

    try:
        busy_before, before = ticks()
        time.sleep(seconds)
        busy_after, after = ticks()
    except OSError:
        return 0.0
    return min(max((busy_after - busy_before) / max(after - before, 1), 0.0), 1.0)


# ── memory ────────────────────────────────────────────────────────────────────────────────────


def available_memory() -> int | None:
    """Bytes that can be had without swapping, where the system says."""
    try:
        return 1024 * _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    except (OSError, NotMeasured):
        return None


def measure_memory(n: int, d: int, threads: int) -> tuple[int, float]:
    """The most bytes of one observed call above its inputs, and its seconds.

    A new process is asked, so that nothing which is kept from earlier is taken for less.
    """
    if not _STATUS.exists():
        raise NotMeasured("the most memory of a process is read from /proc/self/status: not here.")
    command = [sys.executable, "-m", "regard._bench.machine", *map(str, (n, d, threads))]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NotMeasured(f"the process that measures memory failed: {done.stderr.strip()[-300:]}")
    memory, seconds = done.stdout.split()
    return int(memory), float(seconds)


def _peak_above_inputs(n: int, d: int, threads: int) -> tuple[int, float]:
    """The same of this process. A small call first brings in what is loaded once."""
    import torch

    import regard
    from regard._bench.problems import SEE, random_problem

    torch.set_num_threads(threads)
    with torch.no_grad():
        regard.attention(*random_problem(1, 256, d)[:3], see=SEE)
        q, k, v, _ = random_problem(1, n, d)
        # The peak starts again from what is held now (Linux, from version 4.0).
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _kilobytes(_STATUS, "VmRSS")
        start = time.perf_counter()
        result = regard.attention(q, k, v, see=SEE)
        seconds = time.perf_counter() - start
        peak = (_kilobytes(_STATUS, "VmHWM") - before) * 1024
        del result
    return peak, seconds


def _kilobytes(file: Path, name: str) -> int:
    for line in file.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise NotMeasured(f"{file} does not say {name}.")


if __name__ == "__main__":
    print(*_peak_above_inputs(*map(int, sys.argv[1:])))
