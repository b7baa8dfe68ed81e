"""The English that pages translate is what Python says, word for word."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers.traced_models import MADE, traced
from helpers.traced_models import made as made_model

import regard
from regard import flow, trace
from regard._flow.heads import attentions_of
from regard._flow.outline import outline_of
from regard._rules.rule import Step
from regard.studio.reading import BUILT_IN
from regard.view.html.bundle import source_of
from regard.worked import EXAMPLES, example

TABLE = dict(re.findall(r'^  "([\w. ]+)": "((?:[^"\\]|\\.)*)",$', source_of("words"), re.M))
# Parts of sentences that Python puts into others: what a model reads and for what, how many digits.
_LOST = "{} for {}"
_FILLED = {
    "read {}": f"read {_LOST}",
    "reads {}": f"reads {_LOST}",
    " gives{}.": " gives.",
    "model gives{}.": "model gives, the same to {} digits.",
}
_NAMED = ("LayerNorm", "RMSNorm")  # titles that are names


def room(name: str) -> dict[str, str]:
    """The texts of a room of the table, by the rest of their keys."""
    return {key.removeprefix(name): text for key, text in TABLE.items() if key.startswith(name)}


@cache
def steps() -> list[Step]:
    """Steps of every kind: of worked examples, of sentences, of models and of their attentions."""
    traces = [example(name).trace() for name in EXAMPLES]
    traces += [trace("I love apple", positions="sinusoidal"), trace("I love apple", causal=True)]
    traces += [trace("I love apple", scale=False)]
    models = [traced(name) for name in MADE]
    traces += models
    traces += [each.attention(0) for each in models if each.attentions]
    return [step for each in traces for step in each.steps.values()]


def _kind(step: Step) -> str:
    return step.kind or step.name.rpartition(".")[2]


def test_every_step_is_called_and_explained_as_python_does() -> None:
    titles, meanings = dict[str, str](), dict[str, str]()
    for step in steps():
        kind = _kind(step)
        if step.title not in _NAMED:
            assert titles.setdefault(kind, step.title) == step.title
        assert meanings.setdefault(kind, step.meaning) == step.meaning
    own = {f"{kind}.title": text for kind, text in titles.items()}
    own |= {f"{kind}.meaning": text for kind, text in meanings.items()}
    assert room("step.") == own


def test_every_band_is_called_as_python_does() -> None:
    titles = dict[str, str]()
    for name in MADE:
        made = traced(name)
        for band in outline_of(made.steps, made.sequences)["bands"]:
            key = band["id"]
            if band["layer"] is not None:
                key = f"layer_{band['stack']}".rstrip("_")
                band["title"] = band["title"].replace(str(band["layer"]), "{number}")
            assert titles.setdefault(key, band["title"]) == band["title"]
    assert {**titles, "layer_cross": "Layer {number} (cross)"} == room("band.")


def test_every_model_of_the_studio_is_described_as_python_does() -> None:
    assert room("reader.") == BUILT_IN


def _literals() -> Iterator[str]:
    """Every text in the code of the package; what is filled in is a {}."""
    for path in Path(str(regard.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(each.value) if isinstance(each, ast.Constant) else "{}"
                    for each in node.values
                )


@cache
def said() -> list[str]:
    """All that Python may say: texts of its code, of worked examples, and of what is made here."""
    made = [text for name in EXAMPLES for text in (example(name).title, example(name).about)]
    made += [label for step in steps() for axis in step.axes for label in axis.labels]
    made += [trace("I love apple").note]
    for name in ("language model", "transformer"):
        model, given, options = made_model(name)
        passed = flow(given, model=model, **options)
        made += [band["title"].lower() for band in passed.outline["bands"]]
        made += [passed.steps_of(each).note for each in attentions_of(passed)]
    literals = list(_literals())
    assert {_LOST, ", the same to {} digits"} <= set(literals)
    for old, new in _FILLED.items():
        made += [each.replace(old, new) for each in literals if old in each]
    return [*literals, *made]


def _is_said(text: str, way: Callable[[str, str], object], texts: list[str]) -> bool:
    """Does Python say a text of the table, whatever is filled in?"""
    parts = re.split(r"\{\w+\}", text)
    pattern, longest = ".*".join(map(re.escape, parts)), max(parts, key=len)
    return any(longest in each and way(pattern, each) for each in texts)


@pytest.mark.parametrize("name", ["origin.", "title.", "job.", "called."])
def test_a_text_that_is_found_by_its_english_is_one_of_pythons(name: str) -> None:
    assert room(name)
    for key, text in room(name).items():
        assert _is_said(text, re.fullmatch, said()), (key, text)


@pytest.mark.parametrize("name", ["formula.", "note."])
def test_a_remark_that_is_found_by_its_english_is_one_of_pythons(name: str) -> None:
    texts = [*said(), *(step.formula for step in steps())]
    assert room(name)
    for key, text in room(name).items():
        assert _is_said(text, re.search, texts), (key, text)
