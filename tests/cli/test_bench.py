"""`regard bench` as a command, what it checks, and a tiny real run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.bench_results import TINY, TINY_PACE, made_up

import regard
from regard._bench import machine, plan, problems
from regard._bench import measure as measuring
from regard._bench.check import WrongAnswer, check_answer
from regard._bench.machine import NotMeasured
from regard._bench.measure import measure
from regard._bench.plan import SECTIONS, plan_cells
from regard._bench.problems import eager, random_problem, rising_problem, sdpa, sdpa_path
from regard._bench.report import render_results
from regard._bench.results import Cell, Pace, from_json, to_json
from regard.cli import main

# ── the command ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """`regard bench --quick` measures the tiny cells, in one round."""

    def some(threads: tuple[int, ...], sections: tuple[str, ...], quick: bool) -> list[Cell]:
        assert quick
        return [cell for cell in TINY if cell.section in sections or sections == SECTIONS]

    monkeypatch.setattr(plan, "plan_cells", some)
    monkeypatch.setattr(plan, "QUICK_PACE", TINY_PACE)


def test_what_was_measured_is_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(to_json(made_up()), encoding="utf-8")
    assert main(["bench", "--from", str(kept)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == [line.plain.rstrip() for line in render_results(made_up())]
    assert main(["bench", "--from", str(kept), "--json", "-"]) == 0
    assert from_json(capsys.readouterr().out) == made_up()


@pytest.mark.usefixtures("tiny")
def test_a_user_is_told_what_was_measured_and_no_aims_of_the_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept.json"
    assert main(["bench", "--quick", "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert "In short" in captured.out
    assert "≥" not in captured.out
    assert "≤" not in captured.out
    assert "measuring forward …" in captured.err
    assert len(from_json(path.read_text(encoding="utf-8")).cells) == len(TINY)


@pytest.mark.parametrize(
    "options",
    [
        ["--only", "nothing"],
        ["--threads", "0"],
        ["--threads", "one"],
        ["--rounds", "0"],
        ["--threads", ""],
        ["--from", "missing.json"],
        ["--from", "missing.json", "--quick"],
    ],
)
def test_bad_options_end_with_two_before_anything_is_measured(options: list[str]) -> None:
    assert main(["bench", *options]) == 2


@pytest.mark.usefixtures("tiny")
def test_an_interrupted_run_shows_what_it_has_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure_cell = measuring.measure_cell

    def interrupt(cell: Cell, pace: Pace) -> Cell:
        if cell.section == "observed":
            raise KeyboardInterrupt
        return measure_cell(cell, pace)

    monkeypatch.setattr(measuring, "measure_cell", interrupt)
    path = tmp_path / "part.json"
    assert main(["bench", "--quick", "--json", str(path)]) == 130
    output = capsys.readouterr().out
    assert "Interrupted" in output
    assert "Attention, beside PyTorch's SDPA" in output
    assert not path.exists()


@pytest.mark.usefixtures("tiny")
def test_a_wrong_answer_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(regard, "attention", lambda q, k, v, **_: v.clone(), raising=False)
    assert main(["bench", "--quick", "--only", "forward"]) == 1
    assert "regard: wrong output of regard for N = 64, d = 32" in capsys.readouterr().err


# ── the real thing, as small as it gets ───────────────────────────────────────────────────────


def test_a_tiny_run_measures_every_section() -> None:
    seen: list[str] = []
    before = torch.get_num_threads()
    results = measure(TINY, TINY_PACE, lambda number, of, section, cell: seen.append(section))
    assert results.complete
    sections = {cell.section for cell in results.cells}
    assert sections == {*SECTIONS, "rising", "eager"}
    assert {cell.path for cell in results.of("forward")} == {"flash"}
    assert ["received" in cell.seconds for cell in results.of("observed")] == [True, False]
    assert results.of("memory")[0].memory > 0
    assert set(seen) == sections | {"peak"}
    assert torch.get_num_threads() == before
    assert from_json(to_json(results)) == results
    assert render_results(results)
    assert results.peak[1] > 1e9


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_STATUS", Path("/nowhere"))
    results = measure([cell for cell in TINY if cell.section == "memory"], TINY_PACE)
    assert results.cells == []
    assert any("memory was not measured" in note for note in results.notes)
    with pytest.raises(NotMeasured):
        machine.measure_memory(64, 32, 1)


def test_eager_pytorch_is_left_out_where_its_weights_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "available_memory", lambda: 6 * 4 * 2 * 128**2 - 1)
    results = measure([cell for cell in TINY if cell.section == "eager"], TINY_PACE)
    assert results.cells == []
    assert any("eager was not measured" in note for note in results.notes)


@pytest.mark.parametrize("n", [8, 128, 1024])
@pytest.mark.parametrize("causal", [False, True])
def test_pytorch_passes_the_check_and_a_changed_number_does_not(n: int, causal: bool) -> None:
    problem = random_problem(3, n, 16, causal)
    out = sdpa(problem)
    assert sdpa_path(problem) == "flash"
    check_answer(problem, "sdpa", out)
    out[0, 0, n - 1, 5] += 0.001
    with pytest.raises(WrongAnswer, match="wrong output"):
        check_answer(problem, "sdpa", out)
    out[0, 0, n - 1, 5] = torch.nan
    with pytest.raises(WrongAnswer, match="wrong output"):
        check_answer(problem, "sdpa", out)


@pytest.mark.parametrize("n", [128, 1024])
@pytest.mark.parametrize("field", ["lse", "entropy", "top_keys", "top_weights", "map", "received"])
def test_eager_pytorch_passes_the_check_and_a_changed_statistic_does_not(
    n: int, field: str
) -> None:
    see = regard.See(entropy=True, top=8, map=(128, 32), received=True)
    for problem in (random_problem(3, n, 16), rising_problem(3, n, 16)):
        out, seen = eager(problem, see)
        check_answer(problem, "eager", (out, seen))
        changed = getattr(seen, field).clone()
        changed.view(-1)[0] += 100 if field in ("received", "top_keys") else 1
        with pytest.raises(WrongAnswer, match=field):
            check_answer(problem, "eager", (out, replace(seen, **{field: changed})))


def test_pixels_are_checked() -> None:
    problem = random_problem(1, 64, 8)
    q, k, _, _ = problem
    weights = (q @ k.mT / 8**0.5).softmax(-1).reshape(1, 1, 16, 4, 16, 4)
    check_answer(problem, "mean", weights.mean((3, 5)))
    check_answer(problem, "maximum", weights.amax((3, 5)))
    with pytest.raises(WrongAnswer, match="wrong pixels"):
        check_answer(problem, "mean", weights.amax((3, 5)))


def test_scores_rise_along_every_row() -> None:
    q, k, _, _ = rising_problem(2, 4096, 64)
    assert bool(((q[:, :, :64] @ k.mT).diff(dim=-1) > 0).all())


def test_the_quick_sizes_are_fewer_and_all_sections_are_among_them() -> None:
    quick, full = (list(plan_cells((1, 2), quick=each)) for each in (True, False))
    forward, recorded = (
        {(cell.n, cell.d, cell.causal, cell.threads) for cell in cells if cell.section == "forward"}
        for cells in (quick, full)
    )
    assert forward < recorded
    assert len(quick) < len(full) / 2
    assert {cell.section for cell in quick} == {cell.section for cell in full}
