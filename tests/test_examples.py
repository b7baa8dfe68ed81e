"""The examples that learn do learn, and run as their first lines say."""

import random
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stderr == ""
    return done.stdout


def names_of(example: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / example))


def losses(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss (\d+\.\d+)", text)]


def test_copying_is_learned_and_the_head_that_does_it_is_shown() -> None:
    said = run("learn_to_copy.py", "--steps", "90", "--length", "5")
    assert losses(said)[0] > 2.0  # ln 10 is guessing
    assert losses(said)[-1] < 0.1
    assert "right 100.0%" in said
    read, written = (re.findall(rf"^{word} +(.*)$", said, re.M)[0] for word in ("read", "written"))
    assert read == written
    assert len(re.findall(r"^  at . \(place", said, re.M)) == 5


def test_translating_dates_learns_from_its_first_steps_and_shows_its_cross_attention() -> None:
    said = run("learn_to_translate_dates.py", "--steps", "20")
    assert losses(said)[-1] < losses(said)[0] / 2
    rows = re.findall(r"^      [\d-]   .*$", said, re.M)
    assert "".join(row[6] for row in rows) == re.findall(r"right: (\S+)\)", said)[0]


def test_a_training_that_goes_wrong_is_warned_of_before_its_loss_diverges() -> None:
    well, wrong = run("training_goes_wrong.py", "--steps", "60").split("\n\n")[:2]
    assert well.endswith("The loss has not diverged; 0 warnings.")
    grown, collapsed = (
        int(re.findall(rf"of decoder.layers.0.attention ha\w+ {what} at step (\d+)", wrong)[0])
        for what in ("grown", "collapsed")
    )
    lost = int(re.findall(r"has diverged at step (\d+)", wrong)[0])
    assert max(grown, collapsed) < lost
    assert f"{lost - min(grown, collapsed)} steps after the first warning" in wrong
    seen = dict(re.findall(r"step +(\d+)   loss (\d+\.\d+)", wrong))
    assert float(seen[str(collapsed)]) < 0.5  # nothing is wrong with the loss by then


def test_dates_are_written_in_ways_that_name_the_same_day() -> None:
    names = names_of("learn_to_translate_dates.py")
    chance = random.Random(0)
    formats = ("%d %B %Y", "%B %d, %Y", "%b %d, %Y", "%d.%m.%Y", "%m/%d/%Y", "%A, %d %B %Y")
    used: set[str] = set()
    for _ in range(199):
        written, wanted = names["some_pair"](chance)
        meant: set[str] = set()
        for form in formats:
            with suppress(ValueError):
                meant.add(datetime.strptime(written, form).date().isoformat())
                used.add(form)
        assert meant == {wanted}
        assert len(written) <= names["LONGEST"]
        assert names["text_of"](names["tokens_of"](written)) == written
    assert used == set(formats)


def test_lines_to_copy_repeat_what_stands_before_the_bar() -> None:
    names = names_of("learn_to_copy.py")
    lines = names["some_lines"](7, 5)
    assert torch.equal(lines[:, :5], lines[:, 6:])
    assert (lines[:, 5] == names["BAR"]).all()


@pytest.mark.parametrize(
    "name", ["learn_to_copy.py", "learn_to_translate_dates.py", "training_goes_wrong.py"]
)
def test_steps_below_one_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--steps", "0"])
    with pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "must be at least 1" in capsys.readouterr().err
