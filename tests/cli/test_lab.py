"""`regard lab` as a command: lists, measures, refuses, shows again, writes whole files."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from regard.cli import main
from regard.cli.common import waiting
from regard.lab import NAMES

QUICK = ["lab", "order", "--quick", "--set", "shuffles=3"]


def test_without_a_name_every_experiment_is_listed_with_its_claim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lab"]) == 0
    printed = capsys.readouterr().out
    for name in NAMES:
        assert f"\n{name} " in f"\n{printed}"
    assert max(map(len, printed.splitlines())) <= 80
    assert "Reads with MiniLM, SmolLM2." in " ".join(printed.split())


def test_a_run_tells_question_guess_verdict_figures_and_how_to_make_it_false(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert main([*QUICK, "--guess", "other"]) == 0
    printed = capsys.readouterr().out
    for part in (
        "Verdict: holds here",
        "Your guess: The outputs become others",
        "It came out otherwise.",
        "✓ Without positions, 3 shuffles of 11 words",
        "no positions",
        "seed 0",
        "regard lab order --false",
    ):
        assert part in " ".join(printed.split()), part
    assert max(map(len, printed.splitlines())) <= 72


def test_broken_premises_are_told_above_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--false"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "The premise is broken here: A causal mask" in printed
    assert "Verdict: does not hold here" in printed
    assert printed.index("premise") < printed.index("Verdict")


def test_what_was_measured_is_written_and_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page, picture = tmp_path / "kept.json", tmp_path / "lab.html", tmp_path / "lab.svg"
    written = ["--json", str(kept), "--html", str(page), "--figure", str(picture)]
    assert main([*QUICK, "--seed", "5", *written]) == 0
    first = capsys.readouterr().out
    document = json.loads(kept.read_text(encoding="utf-8"))
    assert document["seed"] == 5
    assert document["experiment"] == "order"
    assert main(["lab", "--from", str(kept)]) == 0
    assert capsys.readouterr().out.strip() == first.rpartition("Make it false")[0].strip()
    assert "regard-data" in page.read_text(encoding="utf-8")
    assert "Verdict: holds here" in picture.read_text(encoding="utf-8")


def test_a_line_that_waits_counts_its_seconds_until_it_is_over() -> None:
    shown: list[str] = []
    counted = threading.Event()

    def show(line: str) -> None:
        shown.append(line)
        if len(shown) == 3:
            counted.set()

    with waiting(show, every=0.01) as say:
        say(lambda seconds: f"one {seconds > 0}")
        assert counted.wait(30)
        say(lambda seconds: "two")
    known = len(shown)
    assert shown[:3] == ["one False", "one True", "one True"]
    assert "two" in shown[3:]
    assert shown[shown.index("two") :] == ["two"] * (known - shown.index("two"))
    threading.Event().wait(0.05)
    assert len(shown) == known


def test_pictures_say_what_is_seen_in_them(tmp_path: Path) -> None:
    lines, charts = tmp_path / "lines.svg", tmp_path / "charts.svg"
    assert main([*QUICK, "--svg", str(lines), "--figure", str(charts)]) == 0
    for path, name in ((lines, "regard lab order"), (charts, "Does attention know the order")):
        svg = path.read_text(encoding="utf-8")
        assert name in svg.partition("<title>")[2].partition("</title>")[0]
        told = svg.partition("<desc>")[2].partition("</desc>")[0]
        assert "Change of the outputs, put back in order. change: no positions " in told
        assert svg.index("<desc>") < svg.index("<style")


def test_json_on_standard_output_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["outcome"] == "holds"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gravity"], "there must be an experiment of that name"),
        (["order", "--set", "shuffles"], "--set needs NAME=VALUE"),
        (["order", "--set", "shuffles=0"], "shuffles must be a whole number from 2 to 1000"),
        (["order", "--set", "sentence="], "sentence must be a text of 1 to 400 characters"),
        (["order", "--set", "shuffled=dog"], "shuffled must have the words of the sentence"),
        (["meaning", "--set", "own=a | b"], "own must be five parts with | between them"),
        (["order", "--guess", "maybe"], "guess must be one of same, other, words"),
        (["order", "--figure", "lab.doc"], "--figure must end in .svg, .pdf or .png"),
        (["order", "--figure", "no/such/folder/lab.svg"], "cannot write no/such/folder/lab.svg"),
        (["--quick"], "an experiment is needed"),
        (["order", "--from", "kept.json"], "--from shows what was measured"),
        (["--from", "no-such.json"], "cannot read no-such.json"),
        (["order", "--seed", "-1"], "'--seed'"),
    ],
)
def test_bad_input_is_refused_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "regard.bench"}', "\0"])
def test_a_file_of_another_kind_is_not_shown(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(content, encoding="utf-8")
    assert main(["lab", "--from", str(kept)]) == 2
    assert "kept.json" in capsys.readouterr().err
