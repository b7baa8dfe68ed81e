"""The most memory of one observed call: measured in a process of its own, above its inputs."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from regard._bench.results import Cell

_STATUS = Path("/proc/self/status")


class NotMeasured(RuntimeError):
    """This machine cannot do what was to be measured."""


def measure_memory(cell: Cell) -> Cell:
    """Ask a new process, so that nothing which is kept from earlier is taken for less."""
    if not _STATUS.exists():
        raise NotMeasured("the most memory of a process is read from /proc/self/status: not here.")
    sizes = map(str, (cell.n, cell.d, cell.threads))
    command = [sys.executable, "-m", "regard._bench.memory", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NotMeasured(f"the process that measures memory failed: {done.stderr.strip()[-300:]}")
    memory, seconds = done.stdout.split()
    return replace(cell, memory=int(memory), seconds={"observed": [float(seconds)]})


def available_memory() -> int | None:
    """Bytes that can be had without swapping, where the system says."""
    try:
        return 1024 * _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    except (OSError, NotMeasured):
        return None


def _peak_above_inputs(n: int, d: int, threads: int) -> tuple[int, float]:
    """The peak of this process during one observed call, above what it held before; its seconds.

    A small call first brings in what is loaded once.
    """
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
