"""The most memory of one observed call: measured in a process of its own, above its inputs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from regard._bench.plan import NotMeasured, Plan
from regard._bench.results import Cell, Memory

__all__ = ["measure_memory", "peak_above_inputs"]

_STATUS = Path("/proc/self/status")


def measure_memory(plan: Plan, cell: Cell) -> Memory:
    """Ask a new process, so that nothing which is kept from earlier is taken for less."""
    if not _STATUS.exists():
        raise NotMeasured("the most memory of a process is read from /proc/self/status: not here.")
    sizes = [cell.n, cell.d, cell.threads, *plan.map_shape]
    command = [sys.executable, "-m", "regard._bench.memory", *map(str, sizes)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NotMeasured(f"the process that measures memory failed: {done.stderr.strip()[-300:]}")
    return Memory(**json.loads(done.stdout))


def peak_above_inputs(n: int, d: int, threads: int, shape: tuple[int, int]) -> Memory:
    """The peak of this process during one observed call, above what it held before.

    A small call first brings in what is loaded once.
    """
    import torch

    import regard
    from regard._bench.problems import random_problem, see

    torch.set_num_threads(threads)
    wanted = see(shape)
    with torch.no_grad():
        regard.attention(*random_problem(1, 256, d)[:3], see=wanted)
        q, k, v, _ = random_problem(1, n, d)
        _forget_peak()
        before = _kilobytes("VmRSS")
        start = time.perf_counter()
        result = regard.attention(q, k, v, see=wanted)
        seconds = time.perf_counter() - start
        peak = (_kilobytes("VmHWM") - before) * 1024
        del result
    inputs = sum(each.numel() * each.element_size() for each in (q, k, v))
    return Memory(n, d, 1, threads, peak, inputs, seconds)


def _forget_peak() -> None:
    """Let the peak start again from what is held now (Linux, from version 4.0)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _kilobytes(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise NotMeasured(f"{_STATUS} does not say {name}.")


if __name__ == "__main__":
    n, d, threads, rows, columns = map(int, sys.argv[1:])
    print(json.dumps(vars(peak_above_inputs(n, d, threads, (rows, columns)))))
