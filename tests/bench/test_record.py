"""What the repository makes of the bench: tables and figure of the README, and the targets."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from figure import figure
from helpers.bench_results import made_up
from readme import BEGIN, END, insert_between_markers, markdown
from targets import TARGETS, judge

from regard._bench.results import Results, from_json, to_json

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def test_every_target_is_judged_on_all_cells_of_one_and_two_threads() -> None:
    judged = [judge(target, made_up()) for target in TARGETS]
    assert len(judged) == 31
    assert all(each.met is not None for each in judged)
    assert judged[0].reached == pytest.approx(1.5)
    assert judged[0].of == 60


def test_a_part_of_the_cells_meets_no_target() -> None:
    judged = judge(TARGETS[0], made_up(threads=(1,)))
    assert judged.reached == pytest.approx(1.5)
    assert (judged.cells, judged.of, judged.met) == (30, 60, None)
    assert all(judge(target, Results()).met is None for target in TARGETS)


def test_ratios_are_averaged_geometrically() -> None:
    results = made_up()
    for cell, factor in zip(results.cells[:2], (4.0, 1 / 4.0), strict=True):
        cell.seconds["sdpa"] = [time * factor for time in cell.seconds["sdpa"]]
    assert judge(TARGETS[0], results).reached == pytest.approx(1.5)


@pytest.mark.parametrize(("noise", "met"), [(1.0, False), (1.2, True)])
def test_a_cell_may_be_slower_than_its_peer_by_what_the_peer_is_slower_than_itself(
    noise: float, met: bool
) -> None:
    results = made_up(noise=noise)
    laps = results.cells[7].seconds
    laps["regard"] = [time / 0.9 for time in laps["sdpa"]]
    slowest = judge(TARGETS[1], results)
    assert slowest.reached == pytest.approx(0.9 * noise)
    assert slowest.worst == results.cells[7].title()
    assert slowest.met is met


def test_what_is_too_slow_misses_its_target_alone() -> None:
    before = [judge(target, made_up()).met for target in TARGETS]
    results = made_up()
    slow = results.of("observed")[0]  # N = 128, not causal
    slow.seconds["observed"] = [1.5 * time for time in slow.seconds["plain"]]
    after = [judge(target, results).met for target in TARGETS]
    changed = [
        target for target, old, new in zip(TARGETS, before, after, strict=True) if old != new
    ]
    assert [(target.measure, target.n, target.causal) for target in changed] == [
        ("multiple of plain", (128, 512), False)
    ]


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
    text = (ROOT / "docs/bench.json").read_text(encoding="utf-8")
    results = from_json(text)
    assert to_json(results) == text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert insert_between_markers(readme, markdown(results)) == readme
    pictured = (ROOT / "docs/pictures/bench.svg").read_text(encoding="utf-8")
    assert pictured == figure(results)
