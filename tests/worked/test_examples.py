"""The worked examples: every figure that is right in the notes, to the last digit printed there.

Figures are written here as the notes print them, and compared as text.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from regard import reference
from regard.worked import EXAMPLES, Example, example

Array = NDArray[np.float64]


def printed(text: str) -> list[list[str]]:
    """`I [1.2 0.6], love [1.0 1.1]` or `I 1.80 1.74; love 1.86 2.11` as rows of figures."""
    rows = re.split(r";|\]\s*,", text)
    return [
        re.findall(r"[−-]?\d*\.?\d+(?![\w])", re.sub(r"^\s*[A-Za-z]+", "", row)) for row in rows
    ]


def numbers(text: str) -> Array:
    return np.array([[float(cell.replace("−", "-")) for cell in row] for row in printed(text)])


def assert_printed(found: Iterable[Iterable[float]], text: str) -> None:
    """Each number, written with as many digits as the notes give it, is what they print."""
    for found_row, row in zip(found, printed(text), strict=True):
        for value, cell in zip(found_row, row, strict=True):
            digits = len(cell.partition(".")[2])
            whole = re.sub(r"^(−?)\.", r"\g<1>0.", cell).replace("−", "-")
            assert format(value, f".{digits}f") == whole


def step(name: str, step: str, **options: Any) -> Array:
    """The first head of a step, or the step itself where it has no heads."""
    found = example(name).trace(**options).steps[step]
    return found.array[0] if found.has_heads else found.array


def test_the_comparison_sees_a_difference_in_the_last_digit() -> None:
    assert printed("I .2596 .2708; love −.10 2") == [[".2596", ".2708"], ["−.10", "2"]]
    assert printed("I [1.2 0.6], love [1.0 1.1]") == [["1.2", "0.6"], ["1.0", "1.1"]]
    assert_printed([[0.25964, -0.1, 2.0]], ".2596 −.10 2")
    with pytest.raises(AssertionError):
        assert_printed([[0.25966]], ".2596")
    with pytest.raises(ValueError, match="zip"):
        assert_printed([[0.2596]], ".2596 .1")


# ── A. “I love apple phones” ──────────────────────────────────────────────────────────────────

X = "I [1.0 0.5 0.2 0.1], love [0.9 1.1 0.1 0.0], apple [0.1 0.2 1.0 0.5], phones [0.0 0.1 0.4 1.2]"
HEAD_2 = "I [.99 1.03], love [1.01 1.04], apple [1.02 1.02], phones [1.02 1.02]"


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("input", X),
        ("query", "I [1.2 0.6], love [1.0 1.1], apple [1.1 0.7], phones [0.4 1.3]"),
        ("key", "I [1.1 0.7], love [0.9 1.2], apple [0.6 1.2], phones [1.2 0.5]"),
        ("value", "I [1.2 0.8], love [1.0 1.2], apple [1.1 1.7], phones [0.4 1.7]"),
        (
            "scores",
            "I 1.74 1.80 1.44 1.74; love 1.87 2.22 1.92 1.75; "
            "apple 1.70 1.83 1.50 1.67; phones 1.35 1.92 1.80 1.13",
        ),
        (
            "weights",
            "I .2596 .2708 .2100 .2596; love .2361 .3024 .2446 .2169; "
            "apple .2536 .2780 .2201 .2483; phones .2116 .3166 .2908 .1811",
        ),
        (
            "head_output",
            "I [.9172 1.3309], love [.9415 1.3363], apple [.9238 1.3328], phones [.9627 1.3513]",
        ),
        (
            "concatenated",
            "I [.9172 1.3309 .99 1.03], love [.9415 1.3363 1.01 1.04], "
            "apple [.9238 1.3328 1.02 1.02], phones [.9627 1.3513 1.02 1.02]",
        ),
    ],
)
def test_apple_has_the_right_figures_of_the_notes(name: str, figures: str) -> None:
    assert_printed(step("apple", name), figures)


def test_apple_starts_from_the_numbers_of_the_notes() -> None:
    content = example("apple").content
    assert_array_equal(content["X"], numbers(X))
    assert content["W_Q"] == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert content["W_K"] == [[1, 0], [0, 1], [0, 1], [1, 0]]
    assert content["W_V"] == [[1, 0], [0, 1], [1, 1], [0, 1]]
    assert (content["d_model"], content["h"], content["d_k"]) == (4, 2, 2)
    assert_array_equal(content["head_2"]["head_output"], numbers(HEAD_2))
    made = example("apple").trace()
    assert made.tokens == ("I", "love", "apple", "phones")
    assert_array_equal(made.steps["head_output"].array[1], numbers(HEAD_2))
    assert_array_equal(made.steps["output"].array, made.steps["concatenated"].array)


def test_of_the_scores_printed_for_apple_two_do_not_follow_from_the_printed_query_and_key() -> None:
    query = numbers("I [1.2 0.6], love [1.0 1.1], apple [1.1 0.7], phones [0.4 1.3]")
    key = numbers("I [1.2 0.6], love [0.9 1.1], apple [0.7 0.7], phones [1.3 0.3]")
    as_printed = printed(
        "I 1.80 1.74 1.26 1.74; love 1.86 2.11 1.47 1.96; "
        "apple 1.74 1.76 1.26 1.64; phones 1.26 1.79 1.19 1.91"
    )
    scores = reference.attention(query, key, key).scores
    wrong = {
        (i, j): format(scores[i, j], ".2f")
        for i in range(4)
        for j in range(4)
        if format(scores[i, j], ".2f") != as_printed[i][j]
    }
    assert wrong == {(1, 3): "1.63", (3, 3): "0.91"}


def test_the_weights_and_outputs_printed_for_apple_follow_from_what_is_printed_before() -> None:
    scores = numbers(
        "I 1.80 1.74 1.26 1.74; love 1.86 2.11 1.47 1.96; "
        "apple 1.74 1.76 1.26 1.64; phones 1.26 1.79 1.19 1.91"
    )
    weights = numbers(
        "I .278 .266 .190 .266; love .248 .296 .189 .267; "
        "apple .273 .277 .195 .255; phones .200 .292 .191 .317"
    )
    value = numbers("I [1.2 0.6], love [0.9 1.1], apple [1.1 1.2], phones [1.3 1.3]")
    output = numbers(
        "I [1.128 1.034], love [1.119 1.049], apple [1.124 1.035], phones [1.125 1.082]"
    )
    assert_allclose(reference.softmax(scores / math.sqrt(2)), weights, atol=0.0011)
    assert_allclose(weights @ value, output, atol=0.0011)


# ── B. “The cat sat” ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("input", "The [1 0 1 0], cat [0 1 0 1], sat [1 1 1 1]"),
        ("query", "The [1 0 1 0], cat [0 1 0 1], sat [1 1 1 1]"),
        ("key", "The [1 0 1 0], cat [0 1 0 1], sat [1 1 1 1]"),
        ("value", "The [1 0 1 0], cat [0 1 0 1], sat [1 1 1 1]"),
        ("weights", "The [.4223 .1554 .4223], cat [.1554 .4223 .4223], sat [.2119 .2119 .5761]"),
        (
            "output",
            "The [.8446 .5777 .8446 .5777], cat [.5777 .8446 .5777 .8446], "
            "sat [.7881 .7881 .7881 .7881]",
        ),
    ],
)
def test_cat_has_the_right_figures_of_the_notes(name: str, figures: str) -> None:
    assert_printed(step("cat", name), figures)
    assert example("cat").trace().tokens == ("The", "cat", "sat")


def test_the_output_printed_for_the_is_what_adding_sat_twice_gives_and_outside_the_hull() -> None:
    weights, value = step("cat", "weights"), step("cat", "value")
    twice = weights[0] @ value + weights[0, 2] * value[2]
    assert_printed([twice], "1.2670 1.0000 1.2670 1.0000")
    assert step("cat", "output").max() <= 1.0 < twice.max()


# ── C. “Write a poem” ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("input", "[1.16 0.23], [0.57 1.36], [4.41 −2.16]"),
        ("output", "[1.0100 1.0641], [0.2040 0.7057], [3.4989 2.2427]"),
    ],
)
def test_poem_has_the_right_figures_of_the_notes(name: str, figures: str) -> None:
    assert_printed(step("poem", name), figures)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("weights", ".3573 .4011 .2416"),
        ("weights", "0.36 0.40 0.24"),
        ("query", ".7621 −.0428"),
        ("key", "−.1469 −.3038"),
    ],
)
def test_write_has_the_right_figures_of_the_notes(name: str, figures: str) -> None:
    assert_printed(step("poem", name)[:1], figures)


def test_the_score_of_write_with_itself_is_that_of_the_notes() -> None:
    assert format(step("poem", "scores")[0, 0], ".4f") == "-0.0990"
    made = example("poem").trace()
    assert made.explain("scores", "Write", "Write") == (
        "−0.099 ≈ 0.7621·(−0.1469) + (−0.0428)·(−0.3038)"
    )


def test_rows_of_weights_sum_to_one_and_rows_of_the_output_do_not() -> None:
    assert_allclose(step("poem", "weights").sum(axis=1), 1.0, rtol=1e-15)
    assert (np.abs(step("poem", "output").sum(axis=1) - 1) > 0.05).all()


def test_the_matrices_of_poem_are_what_pytorch_starts_with_after_seed_42() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        for name in ("W_Q", "W_K", "W_V"):
            layer = torch.nn.Linear(2, 2, bias=False)
            found = np.array(example("poem").content[name], dtype=np.float32)
            assert_array_equal(found, layer.weight.detach().numpy().T)


# ── D. scaling ────────────────────────────────────────────────────────────────────────────────


def test_scaling_has_the_right_figures_of_the_notes_scaled_and_unscaled() -> None:
    assert_array_equal(step("scaling", "query"), [[2, 3, 4, 1]])
    assert_array_equal(step("scaling", "key"), [[1, 0, 1, 0], [0, 1, 0, 1]])
    assert_array_equal(step("scaling", "scores"), [[6, 4]])
    assert_array_equal(step("scaling", "scaled"), [[3, 2]])
    assert_printed(step("scaling", "weights"), ".73 .27")
    assert_array_equal(step("scaling", "scaled", scale=False), [[6, 4]])
    assert_printed(step("scaling", "weights", scale=False), ".88 .12")
    made = example("scaling").trace()
    assert list(made.steps) == ["query", "key", "scores", "scaled", "weights"]
    assert made.explain("scaled", "Q", "K1") == "3.0 = 6.0 / √4"


# ── E. a given weight matrix ──────────────────────────────────────────────────────────────────


def test_given_has_the_weights_of_the_notes_and_their_product_with_its_values() -> None:
    weights = [[0.1, 0.7, 0.2], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3]]
    assert_array_equal(step("given", "weights"), weights)
    # Columns 1 and 2 of the values are those of the identity; the third adds a row up.
    assert_printed(step("given", "head_output"), "[.1 .7 1.0], [.3 .4 1.0], [.2 .5 1.0]")
    assert list(example("given").trace().steps) == ["value", "weights", "head_output"]


# ── by name ───────────────────────────────────────────────────────────────────────────────────


def test_every_data_file_is_an_example_and_every_example_has_one() -> None:
    folder = files("regard.worked").joinpath("data")
    names = {entry.name.removesuffix(".toml") for entry in folder.iterdir()}
    assert names == set(EXAMPLES) == {"apple", "cat", "poem", "scaling", "given"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_the_name_the_title_and_the_content_of_its_file(name: str) -> None:
    source = files("regard.worked").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    found = example(name)
    assert isinstance(found, Example)
    assert found.name == name
    assert found.content == tomllib.loads(source)
    assert found.title == found.content["title"]
    assert found.about
    assert found.about == found.about.strip()
    made = found.trace()
    assert (made.title, made.note) == (found.title, found.about)
    if "d_k" in found.content:
        assert made.divisor == math.sqrt(found.content["d_k"])


def test_an_unknown_example_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(KeyError, match=r"no example 'pear'. There are: apple, cat, poem"):
        example("pear")


def test_options_reach_the_trace() -> None:
    weights = step("apple", "weights", causal=True)
    assert_array_equal(np.triu(weights, k=1), np.zeros((4, 4)))
    with_positions = step("apple", "input", positions="sinusoidal")
    assert_array_equal(with_positions, numbers(X) + reference.sinusoidal(4, 4))


def test_what_an_example_has_no_use_for_is_refused() -> None:
    for name in ("scaling", "given"):
        with pytest.raises(ValueError, match=f"{name!r} has no input to add positions to"):
            example(name).trace(positions="sinusoidal")
    with pytest.raises(ValueError, match="no scores here"):
        example("given").trace(causal=True)
