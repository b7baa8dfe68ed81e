"""The bench: its statistics on clocks that are known, and what it shows of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.bench_results import made_up
from rich.cells import cell_len

from regard._bench.check import WrongAnswer
from regard._bench.figure import figure
from regard._bench.plan import full_plan
from regard._bench.race import Pace, race
from regard._bench.report import render_results
from regard._bench.results import Cell, Results, mean_ratio
from regard._bench.stored import from_json, to_json
from regard._bench.table import BEGIN, END, insert_between_markers, markdown
from regard._bench.targets import targets
from regard.cli import main

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


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
    assert cell.doubt() == pytest.approx(1.25)


# ── what is made of it ────────────────────────────────────────────────────────────────────────


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    laps = {"sdpa": [2.0, 9.0, 3.0], "regard": [1.0, 3.0, 2.0]}
    cell = Cell("forward", 64, 32, False, 1, work=6e9, seconds=laps)
    assert cell.ratio("sdpa", "regard") == 2.0
    assert cell.difference("sdpa", "regard") == 1.0
    assert cell.gflops("regard") == 3.0
    assert cell.noise() is None
    assert cell.doubt() == 1.0


def test_ratios_are_averaged_geometrically() -> None:
    laps = [{"a": [4.0], "b": [1.0]}, {"a": [1.0], "b": [4.0]}]
    cells = [Cell("forward", 64, 32, False, 1, seconds=each) for each in laps]
    assert mean_ratio(cells, "a", "b") == pytest.approx(1.0)


def test_every_target_is_judged_on_the_full_plan_with_one_and_two_threads() -> None:
    judged = targets(made_up())
    assert len(judged) == 20
    assert all(target.met is not None for target in judged)
    assert judged[0].reached == pytest.approx(1.5)
    assert judged[0].of == 60


def test_a_part_of_the_cells_meets_no_target() -> None:
    judged = targets(made_up(threads=(1,)))
    assert judged[0].reached == pytest.approx(1.5)
    assert (judged[0].cells, judged[0].of, judged[0].met) == (30, 60, None)
    assert all(target.met is None for target in targets(Results()))


@pytest.mark.parametrize(("noise", "met"), [(1.0, False), (1.2, True)])
def test_a_cell_may_be_slower_than_its_peer_by_what_the_peer_is_slower_than_itself(
    noise: float, met: bool
) -> None:
    results = made_up(noise=noise)
    laps = results.cells[7].seconds
    results.cells[7].seconds["regard"] = [time / 0.9 for time in laps["sdpa"]]
    slowest = targets(results)[1]
    assert slowest.reached == pytest.approx(0.9)
    assert slowest.where == results.cells[7].title()
    assert slowest.met is met


def test_causal_work_counts_half() -> None:
    cells = [cell for cell in full_plan((1,)).cells() if cell.section == "forward"]
    assert len(cells) == 30
    assert len({(cell.n, cell.d, cell.causal) for cell in cells}) == 30


# ── what is shown and kept ────────────────────────────────────────────────────────────────────


def test_json_brings_everything_back() -> None:
    results = made_up()
    results.notes.append("something could not be measured")
    text = to_json(results)
    assert from_json(text) == results
    content = json.loads(text)
    assert content["machine"]["processor"] == "<Z80> & co"
    assert content["cells"][0]["gflops"]["regard"] == pytest.approx(80.0)
    assert content["targets"][0]["met"] is True


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


def test_the_report_says_how_far_it_gets() -> None:
    results = made_up()
    results.notes.append("The eager peer needs more memory.")
    text = "\n".join(line.plain for line in render_results(results))
    assert re.search(r"forward beside SDPA, geometric mean +1\.50 × +≥ 1\.25 × +yes", text)
    assert "causal, N ≤ 512, geometric mean" in text
    assert "The eager peer needs more memory." in text
    assert "Interrupted" not in text


@pytest.mark.parametrize("results", [made_up(), made_up((1, 2, 4)), Results()])
def test_the_figure_is_well_formed_and_needs_nothing_else(results: Results) -> None:
    svg = figure(results)
    root = ElementTree.fromstring(svg)
    width, height = (float(root.get(side) or 0) for side in ("width", "height"))
    assert re.findall(r"https?:[^\"' ]*", svg) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in svg
    for panel in root.iter(f"{SVG}g"):
        x, y = map(float, re.findall(r"[\d.]+", panel.get("transform") or ""))
        for element in panel.iter(f"{SVG}text"):
            assert 0 < x + float(element.get("x") or 0) < width
            assert 0 < y + float(element.get("y") or 0) < height
    written = [element.text for element in root.iter(f"{SVG}text")]
    if results.cells:
        assert any("<Z80> & co" in (text or "") for text in written)
        assert {"d = 32", "d = 64", "d = 128", "N = 64"} <= set(written)


def test_the_labels_of_an_axis_of_the_figure_stand_apart() -> None:
    results = made_up()
    for factor, cell in zip((0.2, 7.0, 0.9, 1.1), results.cells, strict=False):
        cell.seconds["regard"] = [time * factor for time in cell.seconds["regard"]]
    root = ElementTree.fromstring(figure(results))
    panel = next(root.iter(f"{SVG}g"))
    ratios = [e for e in panel.iter(f"{SVG}text") if (e.text or "").endswith("×")]
    places = sorted(float(element.get("y") or 0) for element in ratios)
    assert len(places) >= 3
    assert all(after - before >= 16 for before, after in pairwise(places))


def test_tables_go_between_the_markers_and_nowhere_else() -> None:
    text = f"# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n"
    once = insert_between_markers(text, markdown(made_up()))
    assert once.startswith("# Title\n\n")
    assert once.endswith(f"{END}\n\nmore\n")
    assert "old" not in once
    assert "| d = 64, causal | 1.50 · 1.50 |" in once
    assert insert_between_markers(once, markdown(made_up())) == once
    for wrong in ("", BEGIN, END + BEGIN, text + text):
        with pytest.raises(ValueError, match="once each"):
            insert_between_markers(wrong, "table")


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for table in markdown(made_up()).split("\n\n")[1:]:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_readme_shows_what_was_recorded() -> None:
    results = from_json((ROOT / "docs/bench.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert insert_between_markers(readme, markdown(results)) == readme
    pictured = (ROOT / "docs/pictures/bench.svg").read_text(encoding="utf-8")
    assert pictured == figure(results)
