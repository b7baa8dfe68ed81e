"""`regard bench` as a command, what it checks, and a tiny real run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.bench_results import TINY, made_up

import regard
from regard._bench import measure as measuring
from regard._bench import memory, plan
from regard._bench.check import WrongAnswer, check_output, check_pixels, check_seen
from regard._bench.figure import figure
from regard._bench.measure import measure
from regard._bench.plan import NotMeasured, Plan, full_plan, quick_plan
from regard._bench.problems import eager, random_problem, rising_problem, sdpa, sdpa_path
from regard._bench.report import render_results
from regard._bench.results import Cell
from regard._bench.stored import from_json, to_json
from regard._bench.table import BEGIN, END, markdown
from regard.cli import main

# ── the command ───────────────────────────────────────────────────────────────────────────────


def test_what_was_measured_is_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, svg, readme = (tmp_path / name for name in ("a.json", "a.svg", "README.md"))
    kept.write_text(to_json(made_up()), encoding="utf-8")
    readme.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    command = ["bench", "--from", str(kept), "--svg", str(svg), "--markdown", str(readme)]
    assert main(command) == 0
    assert "How far it gets" in capsys.readouterr().out
    assert svg.read_text(encoding="utf-8") == figure(made_up())
    assert markdown(made_up()) in readme.read_text(encoding="utf-8")
    assert main(["bench", "--from", str(kept), "--json", "-"]) == 0
    assert from_json(capsys.readouterr().out) == made_up()


@pytest.mark.parametrize(
    "options",
    [
        ["--only", "nothing"],
        ["--threads", "0"],
        ["--threads", "one"],
        ["--rounds", "0"],
        ["--json", "-", "--svg", "-"],
        ["--from", "missing.json"],
        ["--from", "missing.json", "--quick"],
    ],
)
def test_bad_options_end_with_two_before_anything_is_measured(options: list[str]) -> None:
    assert main(["bench", *options]) == 2


def test_a_file_without_markers_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n", encoding="utf-8")
    assert main(["bench", "--markdown", str(readme)]) == 2
    assert "has no place for the tables" in capsys.readouterr().err
    assert readme.read_text(encoding="utf-8") == "# Mine\n"


def test_an_interrupted_run_shows_what_it_has_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(plan: Plan, cell: Cell) -> Cell:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "quick_plan", lambda threads: TINY)
    monkeypatch.setitem(measuring._HOW, "observed", interrupt)
    path = tmp_path / "part.json"
    assert main(["bench", "--quick", "--json", str(path)]) == 130
    output = capsys.readouterr().out
    assert "Interrupted" in output
    assert "Forward" in output
    assert not path.exists()


def test_a_wrong_answer_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "quick_plan", lambda threads: TINY)
    monkeypatch.setattr(regard, "attention", lambda q, k, v, **_: v.clone(), raising=False)
    assert main(["bench", "--quick", "--only", "forward"]) == 1
    assert "regard: wrong output for N = 64, d = 32" in capsys.readouterr().err


# ── the real thing, as small as it gets ───────────────────────────────────────────────────────


def test_a_tiny_run_measures_every_section() -> None:
    seen: list[str] = []
    before = torch.get_num_threads()
    results = measure(TINY, lambda number, of, section, cell: seen.append(section))
    assert results.complete
    sections = {cell.section for cell in results.cells}
    assert sections == {"forward", "observed", "rising", "eager", "tiles", "calls"}
    assert {cell.path for cell in results.of("forward")} == {"flash"}
    assert {name for cell in results.of("observed") for name in cell.seconds} >= {"received"}
    assert results.memory[0].peak > 0
    assert set(seen) == sections | {"peak", "memory"}
    assert torch.get_num_threads() == before
    assert from_json(to_json(results)) == results
    assert render_results(results)
    assert results.peak[1] > 1e9


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATUS", Path("/nowhere"))
    results = measure(replace(TINY, sections=("memory",)))
    assert results.memory == []
    assert any("memory was not measured" in note for note in results.notes)
    with pytest.raises(NotMeasured):
        memory.measure_memory(TINY, Cell("memory", 64, 32, False, 1))


@pytest.mark.parametrize("n", [8, 128, 1024])
@pytest.mark.parametrize("causal", [False, True])
def test_pytorch_passes_the_check_and_a_changed_number_does_not(n: int, causal: bool) -> None:
    problem = random_problem(3, n, 16, causal)
    out = sdpa(problem)
    assert sdpa_path(problem) == "flash"
    check_output("sdpa", problem, out)
    out[0, 0, n - 1, 5] += 0.001
    with pytest.raises(WrongAnswer, match="wrong output"):
        check_output("sdpa", problem, out)
    out[0, 0, n - 1, 5] = torch.nan
    with pytest.raises(WrongAnswer, match="wrong output"):
        check_output("sdpa", problem, out)


@pytest.mark.parametrize("n", [128, 1024])
@pytest.mark.parametrize("field", ["lse", "entropy", "top_keys", "top_weights", "map", "received"])
def test_eager_pytorch_passes_the_check_and_a_changed_statistic_does_not(
    n: int, field: str
) -> None:
    for problem in (random_problem(3, n, 16), rising_problem(3, n, 16)):
        seen = eager(problem, (128, 32), received=True)
        check_seen("eager", problem, seen)
        changed = {name: getattr(seen, name).clone() for name in seen._fields}
        changed[field].view(-1)[0] += 100 if field in ("received", "top_keys") else 1
        with pytest.raises(WrongAnswer, match=field):
            check_seen("eager", problem, SimpleNamespace(**changed))


def test_pixels_are_checked() -> None:
    problem = random_problem(1, 64, 8)
    q, k, _, _ = problem
    weights = (q @ k.mT / 8**0.5).softmax(-1).reshape(1, 1, 16, 4, 16, 4)
    check_pixels("mean", problem, weights.mean((3, 5)), maximum=False)
    check_pixels("maximum", problem, weights.amax((3, 5)), maximum=True)
    with pytest.raises(WrongAnswer, match="wrong pixels"):
        check_pixels("mean", problem, weights.amax((3, 5)), maximum=False)


def test_scores_rise_along_every_row() -> None:
    q, k, _, _ = rising_problem(2, 4096, 64)
    assert bool(((q[:, :, :64] @ k.mT).diff(dim=-1) > 0).all())


def test_the_quick_plan_is_a_part_of_the_full_one() -> None:
    quick, full = quick_plan((1, 2)), full_plan((1, 2))
    assert set(quick.lengths) <= set(full.lengths)
    assert set(quick.widths) <= set(full.widths)
    assert len(list(quick.cells())) < len(list(full.cells())) / 2
