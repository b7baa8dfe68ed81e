"""Every cell of every step of a model: its explanation is the calculation that made it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.traced_models import MADE, made, traced

from regard import Explanation, Trace, trace
from regard._rules.attention import Bucket, Joined, Scaled, Softmaxed
from regard._rules.general import (
    Activated,
    Copied,
    Gated,
    Given,
    LayerNormed,
    LookedUp,
    RmsNormed,
    Wave,
)
from regard._steps import Step


def cells(step: Step, most: int = 10_000) -> list[tuple[int, int, int]]:
    """(row, column, head) of every cell, or of cells all over the step."""
    heads, (rows, columns) = len(step.array) if step.has_heads else 1, step.array.shape[-2:]
    places = itertools.product(range(heads), range(rows), range(columns))
    return [(i, j, h) for h, i, j in places][:: 1 + step.array.size // most]


def number(step: Step, i: int, j: int, h: int) -> float:
    return float(step.array[h, i, j] if step.has_heads else step.array[i, j])


# ── from the terms ────────────────────────────────────────────────────────────────────────────


def added_up(terms: tuple[Any, ...]) -> float:
    return math.fsum(math.prod(t) if isinstance(t, tuple) else t for t in terms)


def from_terms(made: Trace, step: Step, said: Explanation, place: Any) -> float:
    """The number that the terms of an explanation come to."""
    i, j, h = place
    match step.rule:
        case Given() | Copied() | Joined() | Bucket():
            assert not said.terms
            return said.value
        case LookedUp():
            return added_up(said.terms) if said.terms else said.value
        case Scaled(scores=scores, divisor=divisor):
            if said.value == -math.inf:
                return -math.inf
            assert said.terms[0] == number(made.steps[scores], i, j, h)
            return said.terms[0] / divisor + sum(said.terms[1:])
        case Softmaxed(scaled=scaled):
            own = number(made.steps[scaled], i, j, h)
            return math.exp(own) / math.fsum(said.terms) if own > -math.inf else 0.0
        case LayerNormed():
            x, mean, variance, eps, weight, bias = said.terms
            return (x - mean) / math.sqrt(variance + eps) * weight + bias
        case RmsNormed():
            x, square, eps, weight = said.terms
            return x / math.sqrt(square + eps) * weight
        case Activated() | Gated():
            return math.prod(said.terms)
        case Wave():
            (angle,) = said.terms
            return math.sin(angle) if "sin(" in said else math.cos(angle)
        case _:
            return added_up(said.terms) if said.terms else said.value


@pytest.mark.parametrize("name", MADE)
def test_the_terms_of_every_cell_come_to_the_number_that_the_model_computed(name: str) -> None:
    found = traced(name)
    for step in found.steps.values():
        for i, j, h in cells(step, most=60):
            value = number(step, i, j, h)
            said = found.explain(step.name, i, j, h)
            assert said.value == value
            assert from_terms(found, step, said, (i, j, h)) == pytest.approx(
                value, rel=1e-12, abs=1e-13
            ), f"{step.name}: {said}"


# ── from what is printed ──────────────────────────────────────────────────────────────────────

_FUNCTIONS: dict[str, Any] = {
    "sqrt": math.sqrt,
    "erf": lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "sigma": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "sin": math.sin,
    "cos": math.cos,
    "max": max,
}


def read(line: str) -> tuple[float, float] | None:
    """Both sides of a printed line as a reader would compute them; None if it has no sum."""
    line = re.sub(r"^(\S+) is .*", "", line).replace("−∞: masked", "")
    if "…" in line or not re.search("[=≈]", line):
        return None
    left, right = re.split(" [=≈] ", line)[:2]
    right = re.sub(r" \((?:bias|[^()]*[a-z]{3}[^()]*)\)", "", right)
    right = right.replace("·½(1 + tanh(√(2/π)(x + 0.044715 x³)))", "·1")
    for sign, meant in (
        *(("−", "-"), ("·", "*"), ("^", "**"), ("Φ", "erf"), ("σ", "sigma")),
        *(("(slope * distance)", ""), (", not scaled", "")),
    ):
        right, left = right.replace(sign, meant), left.replace(sign, meant)
    right = re.sub(r"√(\d+(?:\.\d+)?)", r"sqrt(\1)", right).replace("√", "sqrt")
    right = re.sub(r"\be\*\*(-?[\d.]+)", r"2.718281828**(\1)", right)
    return float(left), float(eval(right, {"__builtins__": {}}, _FUNCTIONS))


def test_the_reader_of_lines_can_read_each_kind() -> None:
    for line, value in (
        ("1.65 = 1.0·1.2 + 1.1·0.5 + (−0.1) (bias)", 1.65),
        ("0.25 = 1.0·0.5 − 0.5·0.5 (turned by its position)", 0.25),
        ("1.1 ≈ (3.0 − 2.0) / √(1.0 + 1e−05)·1.2 + (−0.1)", 1.1),
        ("0.5 ≈ e^0.0 / (e^0.0 + e^0.0) ≈ 1.0 / 2.0", 0.5),
        ("2.5 = 6.0 / √4 + (−0.5) (bias)", 2.5),
    ):
        assert read(line) == pytest.approx((value, value), abs=1e-4)
    assert read("0.5 is looked up: row 7 of embedding.tokens.weight") is None


@pytest.mark.parametrize("name", MADE)
def test_what_is_printed_comes_to_what_is_printed(name: str) -> None:
    found = traced(name)
    read_lines = 0
    for step in found.steps.values():
        for i, j, h in cells(step, most=20):
            line = found.explain(step.name, i, j, h)
            if "tanh(√" in line or (sides := read(line)) is None:
                continue
            read_lines += 1
            # Each figure is off by half of its last digit at most, times what it is multiplied by.
            largest = max(abs(float(x)) for x in re.findall(r"\d+\.\d+", line.replace("−", "-")))
            assert sides[0] == pytest.approx(sides[1], abs=1e-3 * max(1.0, largest)), line
    assert read_lines > 10 or name in ("embedding", "layer norm", "RMS norm")


# ── what is looked up and carried over ────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", MADE)
def test_what_is_carried_over_is_the_number_of_the_step_that_is_named(name: str) -> None:
    found = traced(name)
    for step in found.steps.values():
        if isinstance(step.rule, Copied) and step.rule.row < 0:
            assert (found.steps[step.rule.of].array == step.array).all()
            assert f"is carried over: {step.rule.of}" in found.explain(step.name, -1, -1)


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("language model", "embedding."),
        ("encoder model", "embedding."),
        ("masked language model", "body.embedding."),
    ],
)
def test_an_embedding_names_the_row_of_the_table_that_it_is_from(name: str, begin: str) -> None:
    model, ids, _ = made(name)
    found = traced(name)
    step = found.steps[begin + "tokens"]
    for i, j, _ in cells(step):
        said = found.explain(step.name, i, j)
        row, table = re.search(r"row (\d+) of ([\w.]+)", said).groups()  # type: ignore[union-attr]
        assert int(row) == ids[i]
        scale = math.sqrt(7) if name == "masked language model" else 1.0
        own = float(model.get_parameter(table).detach()[int(row), j]) * scale
        assert number(step, i, j, 0) == pytest.approx(own, rel=1e-14)


def test_positions_and_segments_name_the_row_that_they_are_from() -> None:
    model, *_ = made("encoder model")
    found = traced("encoder model")
    for name, rows in (("positions", range(5)), ("segments", [0] * 5)):
        step, table = found.steps[f"embedding.{name}"], f"embedding.{name}.weight"
        numbers = model.get_parameter(table).detach()
        for i, j, _ in cells(step):
            assert float(numbers[rows[i], j]) == number(step, i, j, 0)
            assert found.explain(step.name, i, j).endswith(f"looked up: row {rows[i]} of {table}")


def test_a_relative_bias_names_the_bucket_and_how_far_away_the_key_is() -> None:
    model, *_ = made("decoder")
    found = traced("decoder")
    table = model.get_parameter("positions.weight").detach()
    step = found.steps["layers.0.attention.bias"]
    where: dict[int, str] = {0: "itself"}
    for i, j, h in cells(step):
        said = found.explain(step.name, i, j, h)
        bucket = int(re.search(r"row (\d+) of positions.weight", said)[1])  # type: ignore[index]
        assert number(step, i, j, h) == float(table[bucket, h])
        expected = where.get(i - j, f"{abs(i - j)} {'before' if i > j else 'after'}")
        assert said.endswith(f"for a key {expected}")


LINES: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("grouped", "key", lambda m: m.w_k, r"\+ \S+ \(bias\)$"),
    ("heads without bias", "query", lambda m: m.w_q, r"·\S+$"),
]


@pytest.mark.parametrize(("name", "step", "matrix", "end"), LINES)
def test_a_bias_is_named_where_there_is_one(
    name: str, step: str, matrix: Callable[[Any], Any], end: str
) -> None:
    model, *_ = made(name)
    assert ("bias" in end) == (matrix(model).bias is not None)
    assert re.search(end, traced(name).explain(step, 0, 0))


def test_lines_read_as_they_should() -> None:
    class Names:
        def __call__(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

    model, *_ = made("language model")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    found = trace("I love you", model=model, tokenizer=Names())
    layer = "decoder.layers.0"
    lines = {
        ("embedding.tokens", "id 1", "e1"): ("0.5 is looked up: row 1 of embedding.tokens.weight"),
        (f"{layer}.attention.input", 0, 0): (f"0.5 is carried over: {layer}.norms.0.output"),
        (f"{layer}.attention.turned_query", 1, 0): (
            "−0.527 ≈ 1.75·0.5403 − 1.75·0.8415 (turned by its position)"
        ),
        (f"{layer}.attention.scaled", 0, 2): (
            "−∞: masked, as “id 3” comes after “id 1” and may not be seen"
        ),
        (f"{layer}.attention.weights", 1, 2): "0.0 = e^−∞ / …: masked, no attention at all",
        (f"{layer}.norms.0.output", 2, 6): "0.5 ≈ 0.5 / √(0.25 + 1e−05)·0.5",
        (f"{layer}.attention.residual", 0, 0): (
            f"26.7495 = 0.5 + 26.2495 ({layer}.input + {layer}.attention.output)"
        ),
    }
    for (step, row, column), line in lines.items():
        assert found.explain(step, row, column) == line
