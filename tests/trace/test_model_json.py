"""A trace of a model as JSON: nothing is lost, and what is damaged is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.traced_models import MADE, traced
from numpy.testing import assert_array_equal

from regard import Trace
from regard._trace import codec


@pytest.mark.parametrize("name", MADE)
def test_json_gives_back_every_number_and_every_line(name: str) -> None:
    found = traced(name)
    again = Trace.from_json(found.to_json())
    assert str(again) == str(found)
    assert again.to_json() == found.to_json()
    assert again.matrices.keys() == found.matrices.keys()
    for matrix, numbers in found.matrices.items():
        assert_array_equal(again.matrices[matrix], numbers)
    for step in found.steps.values():
        assert_array_equal(again.steps[step.name].array, step.array)
        assert again.steps[step.name].axes == step.axes
        for place in ((0, 0), (-1, -1)):
            assert again.explain(step.name, *place, -1) == found.explain(step.name, *place, -1)
    if found.attentions:
        assert again.attention().to_json() == found.attention().to_json()


def test_a_trace_is_saved_to_a_file(tmp_path: Path) -> None:
    found = traced("heads")
    found.save(tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text(encoding="utf-8")
    assert Trace.from_json(text).to_json() == found.to_json()


def _step(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["steps"]["query"].update(changes)


def _made(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["steps"]["query"]["rule"].update(changes)


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another format": (lambda c: c.update(format="regard.run"), "of format 'regard.trace'"),
    "another version": (lambda c: c.update(version=1), "version 1 of regard.trace"),
    "no steps": (lambda c: c.pop("steps"), "damaged: KeyError"),
    "no title": (_step(title=None), "expected str; got NoneType"),
    "no rule": (_step(rule="Nonsense"), "damaged: ValueError"),
    "an unknown rule": (_made(rule="Nonsense"), "damaged: KeyError"),
    "a rule without a field": (
        lambda c: c["steps"]["query"]["rule"].pop("left"),
        "damaged: KeyError",
    ),
    "a rule with one too many": (_made(more=1), "damaged: TypeError"),
    "a rule of another type": (_made(weight=3), "weight of Linear is 3"),
    "a step that is not there": (_made(left="nowhere"), "damaged: KeyError"),
    "a matrix that is not there": (_made(weight="nowhere"), "damaged: KeyError"),
    "a matrix that does not fit": (
        lambda c: c["matrices"].update({"w_q.weight": [[1.0]]}),
        "damaged",
    ),
    "an array that does not fit": (_step(array=[[1.0]]), "does not fit its labels"),
    "axes that are too many": (
        lambda c: c["steps"]["input"]["axes"].append({"name": "head", "labels": ["a"]}),
        "does not fit its labels",
    ),
    "a number that is none": (_step(formula=1.0), "expected str; got float"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_refused(damage: Callable[[dict[str, Any]], None], message: str) -> None:
    content = json.loads(traced("heads").to_json())
    Trace.from_json(json.dumps(content))
    damage(content)
    with pytest.raises(ValueError, match=rf"^Trace.from_json\(\): .*{message}"):
        Trace.from_json(json.dumps(content))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Trace.from_json\(\): not JSON"):
        Trace.from_json("{")


def test_more_numbers_than_a_file_should_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = traced("heads")
    arrays = [*found.matrices.values(), *(step.array for step in found.steps.values())]
    count = sum(np.size(array) for array in arrays)
    monkeypatch.setattr(codec, "_MOST_NUMBERS", count)
    found.to_json()
    monkeypatch.setattr(codec, "_MOST_NUMBERS", count - 1)
    with pytest.raises(ValueError, match=rf"at most {count - 1:,} numbers .* holds {count:,}"):
        found.to_json()
