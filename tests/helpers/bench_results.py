"""Cells and results of the bench that tests share."""

from __future__ import annotations

from dataclasses import replace

from regard._bench.plan import plan_cells
from regard._bench.results import Cell, Pace, Results

TINY_PACE = Pace(rounds=1, seconds=0.0, least=0.0)
TINY = (
    Cell("forward", 64, 32, False, 1, heads=2),
    Cell("forward", 64, 32, True, 1, heads=2),
    Cell("observed", 128, 64, False, 1, heads=2, received=True),
    Cell("observed", 128, 64, True, 1, heads=2),
    Cell("rising", 128, 64, False, 1, heads=2),
    Cell("eager", 128, 64, False, 1, heads=2, received=True),
    Cell("tiles", 256, 64, False, 1, heads=2),
    Cell("calls", 1, 64, False, 1, heads=1),
    Cell("memory", 512, 64, False, 1, heads=1),
    Cell("types", 67, 32, True, 1, heads=2, dtype="bfloat16"),
    Cell("types", 67, 32, False, 1, heads=2, dtype="float64"),
    Cell("decode", 301, 32, False, 1, heads=6, dtype="float16", kv_heads=2),
    Cell("training", 17, 32, False, 1, heads=2),
    Cell("packed", 512, 16, True, 1, heads=2),
)


def made_up(threads: tuple[int, ...] = (1, 2), noise: float = 1.0) -> Results:
    """Results of all cells: SDPA takes 1.5 times as long, observed 1.05, at 0.8 of the peak."""
    results = Results(
        machine={"processor": "<Z80> & co", "cores": 2, "kernel": "avx2"},
        versions={"regard": "0", "torch": "2.13", "python": "3.11"},
        date="2026-01-01",
        peak={number: 1e11 * number for number in threads},
    )
    factors = {
        "forward": {"sdpa": 1.5, "regard": 1.0, "sdpa again": 1.5 / noise},
        "rising": {"plain": 1.0, "observed": 1.05, "sdpa": 1.5, "plain again": 1.0},
        "eager": {"eager": 10, "observed": 1, "eager with received": 11, "received": 1.5},
        "tiles": {"mean": 1.1, "maximum": 1.2, "mean again": 1.1},
        "calls": {"sdpa": 1.0, "regard": 1.1, "sdpa again": 1.0},
        "memory": {"observed": 1.0},
        "types": {"sdpa": 1.5, "regard": 1.0, "observed": 1.1, "float32": 1.0, "sdpa again": 1.5},
        "decode": {"float32": 1.5, "regard": 1.0, "sdpa": 2.0, "float32 again": 1.5},
        "training": {"sdpa": 1.0, "regard": 1.2, "sdpa again": 1.0},
        "packed": {"padded": 2.0, "packed": 1.0, "padded again": 2.0},
    }
    factors["observed"] = {**factors["rising"], "received": 1.6}
    for cell in plan_cells(threads):
        time = cell.work() / (8e10 * cell.threads)
        seconds = {name: [factor * time] * 5 for name, factor in factors[cell.section].items()}
        memory = 60_000_000 if cell.section == "memory" else 0
        results.cells.append(replace(cell, seconds=seconds, path="flash", memory=memory))
    return results
