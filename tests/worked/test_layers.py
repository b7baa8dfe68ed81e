"""`check` on what stands around attention: residual, layer norm and feed-forward, in every form."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from helpers.soak import times
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.worked import Report, check_text, fix_text
from worked.forms import FORMATS
from worked.printing import WORDS, Printed, rounded, values

STEPS = (
    "residual",
    "mean",
    "variance",
    "normalized",
    "norm",
    "hidden",
    "activated",
    "feed_forward",
    "residual_2",
    "norm_2",
)
in_every_form = settings(max_examples=times(2))


def normalize(x: np.ndarray, epsilon: float, *, unbiased: bool) -> dict[str, np.ndarray]:
    mean = x.mean(axis=1, keepdims=True)
    variance = x.var(axis=1, keepdims=True, ddof=int(unbiased))
    return {
        "mean": mean,
        "variance": variance,
        "normalized": (x - mean) / np.sqrt(variance + epsilon),
    }


def compute(
    given: dict[str, np.ndarray],
    epsilon: float,
    unbiased: bool,
    carry: Callable[[str, np.ndarray], np.ndarray],
) -> dict[str, np.ndarray]:
    """A layer as of 2017: each norm after its residual; `carry` says what the next step takes."""
    exact: dict[str, np.ndarray] = {"residual": given["X"] + given["head_output"]}
    x = carry("residual", exact["residual"])
    exact |= normalize(x, epsilon, unbiased=unbiased)
    mean, variance = carry("mean", exact["mean"]), exact["variance"]
    variance = carry("variance", variance)
    exact["normalized"] = (x - mean) / np.sqrt(variance + epsilon)
    exact["norm"] = carry("normalized", exact["normalized"]) * given["gamma"] + given["beta"]
    n = carry("norm", exact["norm"])
    exact["hidden"] = n @ given["W_1"] + given["b_1"]
    exact["activated"] = np.maximum(carry("hidden", exact["hidden"]), 0)
    exact["feed_forward"] = carry("activated", exact["activated"]) @ given["W_2"] + given["b_2"]
    exact["residual_2"] = n + carry("feed_forward", exact["feed_forward"])
    y = carry("residual_2", exact["residual_2"])
    exact["norm_2"] = normalize(y, epsilon, unbiased=unbiased)["normalized"]
    return exact


@st.composite
def layers(draw: st.DrawFn) -> Printed:
    n, d, wide = (draw(st.sampled_from(sizes)) for sizes in ([2, 3], [3, 5], [2, 7]))
    number = st.integers(-30, 30).map(lambda i: i / 10)

    def matrix(rows: int, columns: int) -> np.ndarray:
        cells = draw(st.lists(number, min_size=rows * columns, max_size=rows * columns))
        return np.array(cells).reshape(rows, columns)

    shapes = {"X": (n, d), "head_output": (n, d), "gamma": (1, d), "beta": (1, d)}
    shapes |= {"W_1": (d, wide), "b_1": (1, wide), "W_2": (wide, d), "b_2": (1, d)}
    given = {name: matrix(*shape) for name, shape in shapes.items()}
    digits = {name: draw(st.sampled_from([2, 3, 4])) for name in STEPS}
    carried = {name: draw(st.booleans()) for name in STEPS}
    shown = {"norm"} | set(draw(st.sets(st.sampled_from(STEPS))))
    epsilon = draw(st.sampled_from([0.0, 1e-6, 1e-5]))

    def carry(name: str, array: np.ndarray) -> np.ndarray:
        return values(rounded(array, digits[name])) if carried[name] and name in shown else array

    with np.errstate(all="ignore"):
        exact = compute(given, epsilon, draw(st.booleans()), carry)
    # A row of equal numbers has no deviation to be divided by.
    assume(all(np.isfinite(array).all() and np.abs(array).max() < 1e3 for array in exact.values()))
    assume((exact["variance"] > 0.05).all() and (exact["residual_2"].var(axis=1) > 0.05).all())
    printed = {name: rounded(array, 1) for name, array in given.items()}
    steps = {name: rounded(exact[name], digits[name]) for name in STEPS if name in shown}
    return Printed(list(WORDS[:n]), printed, steps, digits, carried)


def read(example: Printed, form: str) -> Report:
    write, file_name = FORMATS[form]
    return check_text(write(example), file_name)


@pytest.mark.parametrize("form", FORMATS)
@given(example=layers())
@in_every_form
def test_a_right_layer_is_never_called_wrong(form: str, example: Printed) -> None:
    report = read(example, form)
    assert [(cell.name, cell.figure.text, cell.right_text) for cell in report.wrong] == []
    assert report.exit_code == 0
    assert report.questions == []
    (judged,) = report.exercises
    left_alone = [remark for remark in judged.remarks if "left alone" in remark]
    assert left_alone == []
    kinds = {_as_named(kind, example) for kind, _ in judged.exercise.matrices}
    assert kinds == {{"X": "input"}.get(name, name) for name in example.matrices}


def _as_named(kind: str, example: Printed) -> str:
    """Hidden values of which none is negative are taken for those after ReLU: they are the same."""
    return "hidden" if kind == "activated" and "activated" not in example.steps else kind


@pytest.mark.parametrize("form", FORMATS)
@given(example=layers(), data=st.data())
@in_every_form
def test_a_cell_of_a_layer_that_is_moved_far_is_found_and_put_right(
    form: str, example: Printed, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(example.steps)))
    rows = example.steps[name]
    i = data.draw(st.integers(0, len(rows) - 1))
    j = data.draw(st.integers(0, len(rows[0]) - 1))
    rows[i][j] = f"{float(rows[i][j]) + 40:.{example.digits[name]}f}"
    report = read(example, form)
    causes = [cell for cell in report.wrong if cell.origin == "first"]
    first = [(_as_named(cell.kind, example), cell.row, cell.column) for cell in causes]
    assert first == [(name, i, j)]
    assert check_text(fix_text(report), report.source.name).exit_code == 0


# ── what people write ─────────────────────────────────────────────────────────────────────────


def wrong(report: Report) -> dict[str, tuple[str, str]]:
    return {cell.name: (cell.figure.text, cell.right_text) for cell in report.wrong}


# What is between «» is computed; moved far, it is found.
WRITTEN = [
    "x = [1.0, 2.0, 6.0]\n\nLayerNorm(x) = [-0.926, «-0.463», 1.389]\n",
    "x = [1.0, 2.0, 6.0]\nμ = «3.0»\nσ² = 4.667\nLayerNorm(x) = [-0.926, -0.463, 1.389]\n",
    "x = [1.0, 2.0, 6.0]\nσ² = 4.667\nσ = «2.160»\nLayerNorm(x) = [-0.926, -0.463, 1.389]\n",
    "$x = [1.0, 2.0, 6.0]$\n\n$\\gamma = [2, 1, 1]$, $\\beta = [0, 1, 0]$\n\n"
    "$$\\mathrm{LN}(x) = [-1.852, 0.537, «1.389»]$$\n",
    "x = [1.0, 2.0, 6.0]\n\nγ = 2, β = 1\n\nLayerNorm(x) = [-0.852, «0.074», 3.777]\n",
    "LayerNorm([1.0, 2.0, 6.0]) = [-0.926, -0.463, «1.389»]\n",
    "X = [[1, 2], [3, 4]]\nAttention output = [[0.5, 0.5], [1.5, -1]]\n\n"
    "X + Attention(X) = [[1.5, 2.5], [4.5, «3»]]\n",
    "x = [1, -2]\nW1 = [[1, 0, 2], [0, 1, 1]]\nb1 = [0, 0.5, 0]\n\nReLU(x W1 + b1) = [1, 0, «0»]\n",
    "x = [2, 1]\nW_1 = [[1, 0, 2], [0, 1, 1]]\nW_2 = [[1, 0], [0, 1], [1, 1]]\n"
    "hidden = [2, 1, 5]\nFFN(x) = [7, «6»]\n",
    "$x = (2, -1)$, $W_1 = \\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\\\ 1 & 1 \\end{pmatrix}$\n\n"
    "$\\mathrm{ReLU}(W_1 x) = (2, 0, «1»)$\n",
    "The hidden layer goes through a GELU.\n\nx = [1, -1]\nW_1 = [[1, 0, 2], [0, 1, 1]]\n\n"
    "GELU(x W_1) = [0.841, -0.159, «0.841»]\n",
    "x = [1, -1]\nW_1 = [[1, 0, 2], [0, 1, 1]]\nb_1 = [1, 1, 1]\n\n"
    "x W_1 = [1, -1, «1»]\n\nReLU(x W_1 + b_1) = [2, 0, 2]\n",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_step_of_a_layer_is_checked_as_it_is_written(text: str) -> None:
    before, _, rest = text.partition("«")
    figure, _, after = rest.partition("»")
    right = check_text(before + figure + after)
    assert wrong(right) == {}
    assert right.exit_code == 0
    moved = check_text(f"{before}{float(figure) + 7}{after}")
    assert [cell.figure.text for cell in moved.wrong] == [f"{float(figure) + 7}"]
    assert check_text(fix_text(moved)).exit_code == 0


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("LayerNorm(x) = [-0.756, -0.378, 1.134]", "n − 1"),
        ("ε = 0.1\n\nLayerNorm(x) = [-0.916, -0.458, 1.374]", ""),
        ("γ = [2, 2, 2]\n\nLayerNorm(x) = [-0.926, -0.463, 1.389]", ""),
    ],
)
def test_another_reading_that_makes_a_layer_norm_right_accuses_nothing(
    text: str, remark: str
) -> None:
    report = check_text(f"x = [1.0, 2.0, 6.0]\n\n{text}\n")
    assert wrong(report) == {}
    assert report.checked == 3
    assert remark in " ".join(r for j in report.exercises for r in j.remarks)


def test_a_norm_before_attention_is_what_q_and_the_next_layer_are_made_of() -> None:
    """Pre-norm: LN(X) to attention, X + attention, LN of that to the feed-forward layer."""
    choose = np.random.default_rng(5)
    x, w_q, w_1, w_2 = (choose.integers(-20, 20, s) / 10 for s in ((3, 5), (5, 2), (5, 7), (7, 5)))
    out = choose.integers(-20, 20, (3, 5)) / 10
    norm = normalize(x, 1e-5, unbiased=False)["normalized"]
    residual = x + out
    norm_2 = normalize(residual, 1e-5, unbiased=False)["normalized"]
    feed = np.maximum(norm_2 @ w_1, 0) @ w_2
    parts = [("X", x, 1), ("LN1", norm, 3), ("W_Q", w_q, 1), ("Q", norm @ w_q, 3)]
    parts += [("Attention output", out, 1), ("X + Attention", residual, 1), ("LN2", norm_2, 3)]
    parts += [("W_1", w_1, 1), ("W_2", w_2, 1), ("FFN(LN2)", feed, 3)]
    parts += [("Output of the block", residual + feed, 3)]
    text = "\n\n".join(
        f"{name} = [{', '.join('[' + ', '.join(r) + ']' for r in rounded(array, digits))}]"
        for name, array, digits in parts
    )
    report = check_text(text)
    assert wrong(report) == {}
    assert {matrix.kind for j in report.exercises for matrix in j.exercise.matrices.values()} == {
        *("input", "norm", "W_Q", "query", "head_output", "residual", "norm_2", "W_1", "W_2"),
        *("feed_forward", "block"),
    }
    assert report.checked == 15 + 6 + 15 + 15 + 15 + 15
    for array in (norm, norm @ w_q, norm_2, feed, residual + feed):
        cell = f"{array[1, 1]:.3f}"
        assert text.count(cell) == 1
        moved = check_text(text.replace(cell, f"{array[1, 1] + 30:.3f}"))
        first = [c.figure.text for c in moved.wrong if c.origin == "first"]
        assert first == [f"{array[1, 1] + 30:.3f}"]


def test_what_a_layer_norm_is_taken_of_is_left_alone_where_it_cannot_be_told() -> None:
    report = check_text("x = [1.0, 2.0, 6.0]\n\nLayerNorm(y) = [0.311, 1.072, -1.383]\n")
    assert wrong(report) == {}
    assert any("left alone" in r for j in report.exercises for r in j.remarks)


def test_as_names_a_step_of_a_layer() -> None:
    text = "x = [1.0, 2.0, 6.0]\n\nthis = [-0.926, -0.463, 1.398]\n"
    report = check_text(text, taken_as={"this": "layer norm"})
    assert wrong(report) == {"layer norm[1, 3]": ("1.398", "1.389")}
    for name in ("norm", "LayerNorm", "LN"):
        assert wrong(check_text(text, taken_as={"3": name})) == wrong(report)


def test_the_report_as_json_has_the_steps_of_a_layer() -> None:
    text = "x = [1.0, 2.0, 6.0]\n\nLayerNorm(x) = [-0.429, -0.214, 0.643]\n"
    (exercise,) = json.loads(check_text(text).to_json())["exercises"]
    assert [matrix["kind"] for matrix in exercise["matrices"]] == ["input", "norm"]
    causes = {cell["cause"] for cell in exercise["cells"]}
    assert causes == {"as if divided by the variance, not by its root"}


def test_a_layer_norm_after_many_heads_is_followed_back_through_all_of_them() -> None:
    choose = np.random.default_rng(7)
    x, w_o = choose.integers(-9, 9, (2, 3)) / 10, choose.integers(-9, 9, (26, 3)) / 10
    example: dict[str, object] = {"X": x.tolist(), "W_O": w_o.tolist()}
    outputs = []
    for head in range(1, 14):
        w_v, weights = choose.integers(-9, 9, (3, 2)) / 10, np.array([[0.25, 0.75], [0.5, 0.5]])
        example[f"head_{head}"] = {"W_V": w_v.tolist(), "weights": weights.tolist()}
        outputs.append(weights @ x @ w_v)
    norm = normalize(x + np.hstack(outputs) @ w_o, 0.0, unbiased=False)["normalized"].round(3)
    example |= {"norm": norm.tolist(), "W_1": [[1], [2], [3]]}
    example["activated"] = np.maximum(norm @ [[1], [2], [3]], 0).round(3).tolist()
    assert wrong(check_text(json.dumps(example), "a.json")) == {}
    norm[1, 2] += 2
    moved = check_text(json.dumps(example | {"norm": norm.tolist()}), "a.json")
    assert [cell.name for cell in moved.wrong if cell.origin == "first"] == ["layer norm[2, 3]"]
