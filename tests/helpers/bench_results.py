"""Plans and results of the bench that tests share."""

from __future__ import annotations

from dataclasses import replace

from regard._bench.plan import Plan, full_plan
from regard._bench.race import Pace
from regard._bench.results import Memory, Results

TINY = Plan(
    threads=(1,),
    pace=Pace(rounds=1, seconds=0.0, least=0.0),
    heads=2,
    lengths=(64,),
    widths=(32,),
    observed_lengths=(128,),
    observed_widths=(64,),
    received_from=128,
    eager_length=128,
    tiles=(256,),
    memory_length=512,
)


def made_up(threads: tuple[int, ...] = (1, 2), noise: float = 1.0) -> Results:
    """Results of the full plan: SDPA takes 1.5 times as long, observed 1.05."""
    results = Results(
        machine={"processor": "<Z80> & co", "cores": 2, "kernel": "avx2"},
        versions={"regard": "0", "torch": "2.13", "python": "3.11"},
        date="2026-01-01",
        settings={"heads": 8, "rounds": 5, "fewer": 3, "long": 2.0},
        peak={number: 1e11 * number for number in threads},
    )
    factors = {
        "forward": {"sdpa": 1.5, "regard": 1.0, "sdpa again": 1.5 / noise},
        "rising": {"plain": 1.0, "observed": 1.05, "sdpa": 1.5, "plain again": 1.0},
        "eager": {"eager": 10, "observed": 1, "eager with received": 11, "received": 1.5},
        "tiles": {"mean": 1.1, "maximum": 1.2, "mean again": 1.1},
        "calls": {"sdpa": 1.0, "regard": 1.1, "sdpa again": 1.0},
    }
    factors["observed"] = {**factors["rising"], "received": 1.6}
    for cell in full_plan(threads).cells():
        if cell.section == "memory":
            results.memory.append(Memory(cell.n, 64, 1, 2, 60_000_000, 50_331_648, 7.0))
            continue
        work = 4.0 * cell.heads * cell.n**2 * cell.d
        time = work / (8e10 * cell.threads)
        seconds = {name: [factor * time] * 5 for name, factor in factors[cell.section].items()}
        results.cells.append(replace(cell, work=work, seconds=seconds, path="flash"))
    return results
