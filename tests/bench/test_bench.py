"""The bench: its statistics on clocks that are known, and what it shows of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.bench_results import made_up
from rich.cells import cell_len

from regard._bench.check import WrongAnswer
from regard._bench.measure import race
from regard._bench.plan import plan_cells
from regard._bench.report import render_results
from regard._bench.results import Cell, Pace, Results, from_json, to_json
from regard.cli import main


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: Sequence[float]) -> Callable[[], str]:
        """A call that takes each of the times in turn, and then the last of them always."""
        times = list(seconds)

        def call() -> str:
            self.calls.append(name)
            self.now += times.pop(0) if len(times) > 1 else times[0]
            return name

        return call


# ── the race ──────────────────────────────────────────────────────────────────────────────────


def test_a_round_keeps_the_best_of_each_contestant() -> None:
    clock = Clock()
    first = [0.0625] * 4  # until it is known how long a call takes
    slow = clock.work("slow", [*first, 0.5, 0.25, 0.75, 0.5, 0.5, 0.5])
    fast = clock.work("fast", [*first, 0.5, 0.5, 0.125, 0.125, 0.25, 0.25])
    laps = race({"slow": slow, "fast": fast}, Pace(rounds=2, seconds=0), clock=clock)
    assert laps == {"slow": [0.25, 0.5], "fast": [0.125, 0.125]}  # of three repeats each


def test_the_contestants_take_turns_and_each_is_first_as_often() -> None:
    clock = Clock()
    contestants = {name: clock.work(name, [2.0]) for name in "abc"}
    race(contestants, Pace(rounds=3, seconds=0, long=99), clock=clock)
    assert "".join(clock.calls) == "abc" + "abc" + "bca" + "cab"


def test_short_calls_are_measured_many_at_a_time() -> None:
    clock = Clock()
    laps = race({"short": clock.work("short", [1e-6])}, Pace(rounds=1, seconds=0.004), clock=clock)
    assert laps["short"][0] == pytest.approx(1e-6)
    assert len(clock.calls) > 1 + 2 * 2000  # the first, and two measurements of two milliseconds


def test_an_interrupted_call_does_not_pass_for_a_long_one() -> None:
    clock = Clock()
    interrupted = clock.work("short", [0.1, 0.02, 1e-6])  # the first call, and the first try
    assert race({"short": interrupted}, Pace(), clock=clock)["short"] == [pytest.approx(1e-6)] * 5
    assert len(clock.calls) > 5 * 2000


def test_a_round_of_short_calls_takes_as_long_as_it_may() -> None:
    clock = Clock()
    race({"short": clock.work("short", [0.01])}, Pace(rounds=5, seconds=0.3), clock=clock)
    assert clock.now == pytest.approx(5 * 0.3, rel=0.05)
    assert clock.calls == ["short"] * (1 + 3 + 5 * 30)


def test_long_calls_have_fewer_rounds_and_very_long_ones_one_call_in_each() -> None:
    for seconds, calls in ((5.0, 3), (6.0, 1)):
        clock = Clock()
        laps = race({"long": clock.work("long", [seconds])}, Pace(), clock=clock)
        assert laps == {"long": [seconds] * 3}
        assert len(clock.calls) == 1 + 3 * calls
        once = race({"long": clock.work("long", [seconds])}, Pace(rounds=1), clock=clock)
        assert len(once["long"]) == 1


def test_the_answer_is_checked_before_any_time_is_taken() -> None:
    clock = Clock()

    def check(name: str, result: object) -> None:
        assert name == result
        if name == "b":
            raise WrongAnswer("b is wrong")

    with pytest.raises(WrongAnswer, match="b is wrong"):
        race({name: clock.work(name, [1.0]) for name in "abc"}, Pace(), check, clock)
    assert clock.calls == ["a", "b"]


def test_the_same_call_under_two_names_is_raced_against_itself() -> None:
    clock = Clock()
    peer = clock.work("peer", [9.0, 1.0, 1.1, 1.0, 1.25])
    pace = Pace(rounds=2, seconds=0, long=99)
    laps = race({"sdpa": peer, "sdpa again": peer}, pace, clock=clock)
    assert clock.calls == ["peer"] * 5  # the first call is shared, too
    cell = Cell("forward", 64, 32, False, 1, seconds=laps)
    assert cell.noise() == pytest.approx((1.0 / 1.1, 1.25 / 1.0))


# ── what is made of it ────────────────────────────────────────────────────────────────────────


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    laps = {"sdpa": [2.0, 9.0, 3.0], "regard": [1.0, 3.0, 2.0]}
    cell = Cell("forward", 1000, 750, False, 1, heads=2, seconds=laps)
    assert cell.ratio("sdpa", "regard") == 2.0
    assert cell.difference("sdpa", "regard") == 1.0
    assert cell.gflops("regard") == 3.0
    assert cell.noise() is None


def test_causal_work_counts_half_and_a_picture_needs_one_product() -> None:
    whole = Cell("forward", 11, 7, False, 1, heads=3)
    assert whole.work() == 2 * 2 * 3 * 11 * 11 * 7
    assert Cell("forward", 11, 7, True, 1, heads=3).work() == whole.work() / 2
    assert Cell("tiles", 11, 7, False, 1, heads=3).work() == whole.work() / 2


def test_no_size_is_planned_twice() -> None:
    for quick in (False, True):
        cells = list(plan_cells((1, 2), quick=quick))
        assert len({str(replace(cell, received=False)) for cell in cells}) == len(cells)


# ── what is shown and kept ────────────────────────────────────────────────────────────────────


def test_json_brings_everything_back() -> None:
    results = made_up()
    results.notes.append("something could not be measured")
    text = to_json(results)
    assert from_json(text) == results
    content = json.loads(text)
    assert content["machine"]["processor"] == "<Z80> & co"
    assert content["cells"][0]["gflops"]["regard"] == pytest.approx(80.0)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 0}', "\x00"])
def test_other_json_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(text)
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    assert main(["bench", "--from", str(path)]) == 2


@pytest.mark.parametrize("results", [made_up(), made_up((1,)), Results()])
def test_the_report_fits_eighty_cells(results: Results) -> None:
    lines = render_results(results, 80)
    assert max(cell_len(line.plain) for line in lines) <= 80


def test_the_report_ends_with_what_it_comes_to() -> None:
    results = made_up()
    laps = results.of("forward")[7].seconds
    laps["sdpa"] = [time * 2**60 for time in laps["sdpa"]]  # of 60 sizes: twice the mean
    results.notes.append("The eager peer needs more memory.")
    text = "\n".join(line.plain for line in render_results(results))
    _, _, short = text.partition("In short\n")
    assert re.search(r"^right +every answer that was timed", short)
    assert re.search(r"\nattention +3\.00 × as fast as SDPA \(1\.50 to \d+", short)
    assert re.search(r"\nobserved +1\.43 × as fast as SDPA, which sees nothing", short)
    assert re.search(r"\ncost of looking +1\.05 × the time of the plain call", short)
    assert re.search(
        r"\neager PyTorch +10\.0 × the time .* N = 4,096, 7\.3 × with received\n", short
    )
    assert re.search(r"\nmemory +60 MB observed, N = 65,536; .* take 17,180 MB$", short)
    assert "The eager peer needs more memory." in text
    assert "Interrupted" not in text


def test_a_row_of_the_report_has_the_numbers_of_its_cell() -> None:
    laps = {"sdpa": [0.3, 0.5, 0.4], "regard": [0.2, 0.2, 0.25], "sdpa again": [0.4, 0.4, 0.4]}
    cell = Cell("forward", 1000, 125, True, 2, heads=4, seconds=laps)
    results = Results(peak={2: 2e10}, cells=[cell])
    text = "\n".join(line.plain for line in render_results(results))
    row = r"\n +2 +125 +1,000 +causal +400 +200 +1\.60 +0\.75–1\.25 +0\.25\n"
    assert re.search(row, text)
