"""Cost: comparisons are counted and really made; a window makes them grow with the length alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from regard.lab import Result, run
from regard.lab.cost import EXPERIMENT, _compared


@pytest.fixture(scope="module")
def result() -> Result:
    return run("cost", quick=True, longest=4000, limit=0.05)


def test_every_pair_is_compared_and_both_ways_agree(result: Result) -> None:
    rows = result.data["rows"]
    assert [row["comparisons"] for row in rows] == [10**6, 4 * 10**6, 16 * 10**6]
    assert [row["eager"] is None for row in rows] == [False, False, True]
    assert all(row["apart"] < 1e-5 for row in rows[:2])
    assert all(row["fused"] > 0 for row in rows)


def test_the_matrices_of_scores_and_weights_are_what_is_taken_of_memory() -> None:
    """In a process of its own: what tests before it have freed would be taken first."""
    command = [sys.executable, "-m", "regard", "lab", "cost", "--quick", "--json", "-"]
    command += ["--set", "longest=8000", "--set", "limit=0.6"]
    done = subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    *_, before, last = json.loads(done.stdout)["data"]["rows"]
    if last["eager_bytes"] is None:
        pytest.skip("nobody counts memory here")
    assert 0.9 < last["eager_bytes"] / last["needs"] < 1.3
    assert 3.0 < last["eager_bytes"] / before["eager_bytes"] < 5.0
    assert last["fused_bytes"] < 0.1 * last["eager_bytes"]


def test_a_window_makes_it_false() -> None:
    broken = run("cost", quick=True, longest=4000, limit=0.05, false=True)
    assert broken.data["rows"][-1]["comparisons"] < 4000 * 257
    assert broken.outcome == "fails"
    assert broken.verdict.answer == "straight"
    assert all(row["apart"] is None or row["apart"] < 1e-5 for row in broken.data["rows"])
    broken.document()


@pytest.mark.parametrize(("n", "window"), [(7, 0), (7, 2), (7, 7), (11, 3)])
def test_comparisons_within_a_window_are_counted_one_by_one(n: int, window: int) -> None:
    pairs = sum(abs(i - j) <= window or not window for i in range(n) for j in range(n))
    assert _compared(n, window) == pairs


def _data(power: float, noise: float = 0.0) -> dict[str, Any]:
    lengths = [1000, 4000, 8000, 16000, 32000]
    rows = [
        {
            "length": n,
            "comparisons": n * n,
            "fused": 1e-9 * n**power * (1 + noise * (-1) ** i),
            "eager": None,
            "eager_bytes": None,
            "fused_bytes": None,
            "needs": 8.0 * n * n,
        }
        for i, n in enumerate(lengths)
    ]
    return {"rows": rows, "limit": 1e9, "window": 0, "width": 64}


@pytest.mark.parametrize(("power", "outcome"), [(2.0, "holds"), (1.0, "fails"), (3.0, "fails")])
def test_the_time_is_judged_by_its_exponent(power: float, outcome: str) -> None:
    assert EXPERIMENT.judge(_data(power)).findings[1].outcome == outcome


def test_times_that_scatter_tell_nothing() -> None:
    assert EXPERIMENT.judge(_data(2.0, noise=0.9)).findings[1].outcome == "open"
