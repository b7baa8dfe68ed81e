"""Numbers that may be something else than they seem are not accused."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest

from regard.worked import Unreadable, check_text

DOUBTFUL = {
    "a decimal comma beside points elsewhere": "A score of 1.5, where `dₖ = 3`:\n\n`√3 ≈ 1,732`\n",
    "logits below a heading that names the softmax": (
        "### Scores\n\n$$\n[2, 1, 0]\n$$\n\n### Softmax\n\nGiven:\n\n"
        "$$\n\\boldsymbol z=[1000,1001,1002]\n$$\n\n2 · 3 = 6\n"
    ),
    "weights of a network": "The weights: $(w_{1,3}, w_{2,3}) = (0, .5)$\n\n2 · 3 = 6\n",
    "a mask that fits by its infinities": (
        "$q_3K^\\top=[1,1,2]$ and\n\n$$\n\\frac{q_3K^\\top}{\\sqrt2}=[0.707,0.707,1.414]\n$$\n\n"
        "$$\n\\frac{q_2K^\\top}{\\sqrt2}+M\n=[0,0.707,-\\infty].\n$$\n"
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_may_be_meant_otherwise_is_not_accused(name: str) -> None:
    report = check_text(DOUBTFUL[name])
    assert [cell.figure.text for cell in report.wrong] == []
    assert not [claim for each in report.exercises for claim in each.claims if not claim.is_right]


def test_a_number_out_of_all_proportion_is_passed_over() -> None:
    report = check_text("exp(88.7) = 3.40e+38\n\n2 · 3 = 7\n")
    assert [cell.figure.text for cell in report.wrong] == ["7"]


def _notebook(*cells: tuple[str, str]) -> str:
    made = [
        {"cell_type": "code", "source": [code], "outputs": [{"data": {"text/plain": [printed]}}]}
        for code, printed in cells
    ]
    return json.dumps({"cells": made, "nbformat": 4}, indent=1)


def test_what_a_program_prints_is_rounded_where_it_was_computed() -> None:
    text = _notebook(
        ("q", "tensor([[0.7621, -0.0428], [1.1063, 0.7890]])"),
        ("k", "tensor([[-0.1469, -0.3038], [0.1057, 0.3685]])"),
        ("scores = q @ k.T\nscores", "tensor([[-0.0990, 0.0648], [-0.4023, 0.4077]])"),
    )
    assert [cell.figure.text for cell in check_text(text, "a.ipynb").wrong] == []


def test_what_is_named_by_a_call_alone_is_not_accused() -> None:
    text = _notebook(
        ("Q = [[1.0, 3.0], [2.0, 1.0]]", ""),
        ("K = [[2.0, 1.0], [1.0, 2.0]]", ""),
        ("F.scaled_dot_product_attention(Q, K, V)", "[[0.86, 1.57], [0.98, 1.88]]"),
    )
    assert [cell.figure.text for cell in check_text(text, "a.ipynb").wrong] == []


def test_a_name_that_a_program_may_have_given_anew_is_not_accused() -> None:
    text = _notebook(
        ("Q = [[1.0, 3.0], [2.0, 1.0]]", ""),
        ("K = [[2.0, 1.0], [1.0, 2.0]]", ""),
        ("scores = (Q + 1) @ K.T\nscores", "[[8.0, 10.0], [8.0, 7.0]]"),
    )
    assert [cell.figure.text for cell in check_text(text, "a.ipynb").wrong] == []


# ── what stands beside a matrix and is none of it ─────────────────────────────────────────────


def test_terms_of_a_sum_that_stand_below_one_another_are_no_rows_of_weights() -> None:
    text = """\
attention weights = [0.27, 0.27, 0.46]

The output multiplies each value by its attention weight:

= 0.27 × [1, 2, 0]
+ 0.27 × [0, 1, 1]
+ 0.46 × [2, 0, 1]

= [0.27, 0.54, 0.00]
+ [0.00, 0.27, 0.27]
+ [0.92, 0.00, 0.46]

= [1.19, 0.81, 0.73]
"""
    assert check_text(text).wrong == []


def test_a_shape_in_a_comment_is_no_row() -> None:
    text = """\
Q = [[1, 0], [0, 1]]
K = [[3, 1], [2, 2]]
QKᵀ = [[3, 2], [1, 2]]

```python
Q = x @ W_Q  # [3, 4] @ [4, 4] = [3, 4]
K = x @ W_K  # [3, 4]
```
"""
    assert check_text(text).wrong == []


def test_weights_of_a_loss_are_no_attention_weights() -> None:
    text = "weights = [0.2, 0.3, 0.1, 0.4]\n\nloss = Loss(weight=tensor([1.0, 1.2, 1.5, 3.0]))\n"
    assert check_text(text).wrong == []


def notebook(*cells: tuple[str, str]) -> str:
    """A notebook of cells: their code, and what they print."""
    outputs = (
        [{"output_type": "stream", "name": "stdout", "text": out.splitlines(keepends=True)}]
        for _, out in cells
    )
    content = [
        {"cell_type": "code", "source": code.splitlines(keepends=True), "outputs": output}
        for (code, _), output in zip(cells, outputs, strict=True)
    ]
    return json.dumps({"cells": content, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def test_what_a_notebook_prints_of_random_numbers_is_rounded() -> None:
    generator = np.random.default_rng(7)
    x, w = generator.normal(size=(5, 3)), generator.normal(size=(3, 2))

    def tensor(values: np.ndarray) -> str:
        rows = (", ".join(f"{value:7.4f}" for value in row) for row in values)
        return "tensor([" + ",\n        ".join(f"[{row}]" for row in rows) + "])\n"

    printed = np.round(np.round(x, 4) @ np.round(w, 4), 4)
    assert (printed != np.round(x @ w, 4)).any()  # it could be told, were they exact
    text = notebook(
        ("print('inputs =', inputs)", f"inputs = {tensor(x)}"),
        ("print('w_query =', w_query)", f"w_query = {tensor(w)}"),
        ("query = inputs @ w_query\nprint('query =', query)", f"query = {tensor(x @ w)}"),
    )
    report = check_text(text, "notes.ipynb")
    assert report.checked >= 10
    assert report.wrong == []


def test_a_name_that_a_notebook_gives_anew_is_not_the_same_matrix() -> None:
    first = "X = np.array([[1.0, 0.5, 0.5],\n              [0.0, 1.0, 0.3],\n"
    first += "              [1.0, 1.0, 0.2]])\n"
    anew = first.replace("0.5, 0.5", "0.5, 1.0").replace("1.0, 0.3", "1.0, 1.0")
    assert check_text(notebook((first, ""), (anew, "")), "notes.ipynb").wrong == []


# ── how people write ──────────────────────────────────────────────────────────────────────────

RIGHT = {
    "a fraction of two digits": r"$\tfrac12(0.8884-(-0.8884))=0.8884$ and $\frac34 \cdot 8 = 6$",
    "a list set equal to a list": "T=1: exp(2), exp(1), exp(0.1) = 7.389, 2.718, 1.105",
    "bullets in a listing": "```\nRow 1:\n- exp(5) = 148.4, exp(7) = 1096.6\n- sum = 1245\n```",
    "another divisor than the text's d_k": (
        "Scores = [0.36, 0.74, 0.41]\n\nDivide by √4 = 2:\n\nScaled = [0.18, 0.37, 0.205]\n\n"
        "### In general\n\nA model with d_k = 512 divides by 22.6.\n"
    ),
    "a hidden state below the word softmax": (
        "### A dot-product softmax\n\n**Context:** its state\n\n$ h = [0.9,\\; 0.1,\\; 0.2] $\n"
    ),
    "shapes of four axes": "scores of 0.5: (1,4,6,16)×(1,4,16,5) = (1,4,6,5)",
    "numbers set apart by slashes": "the errors −0.0006 / −0.0006 / +0.0007 / −0.0013 ≈ 0",
    "softmaxes with and without scaling": (
        "Original Matrix = [[5, 10, 7],\n                   [6, 5, 3]]\n\n"
        "Row 1 Softmax: softmax([5, 10, 7])\nProbabilities: [0.006, 0.947, 0.047]\n\n"
        "Scaled Matrix = [[2.89, 5.77, 4.04],\n                 [3.46, 2.89, 1.73]]\n\n"
        "Row 1 Softmax: softmax([2.89, 5.77, 4.04])\nProbabilities: [0.045, 0.811, 0.144]\n"
    ),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_right_in_the_way_it_is_written_is_not_accused(text: str) -> None:
    report = check_text(text + "\n", "notes.md")
    assert report.wrong == []
    assert report.wrong_claims == 0


@pytest.mark.parametrize(
    "text",
    [
        "Softmax turns scores into shares: a score of [2.0, 1.5, 0.5] becomes [70%, 20%, 10%].\n",
        "Row: `[0, 2, 0, 2]`\n\n### After softmax\n\n`[0.061, 0.460, 0.061, 0.460]` (about)\n",
        "Scaled scores: `[0.05, 0.50, 0.15]`\n\nAfter softmax:\n\n```\nBefore: [0.05, 0.50, 0.15]\n"
        "After:  [0.05, 0.60, 0.20]\n```\n",
    ],
)
def test_a_softmax_in_running_text_is_found_wrong(text: str) -> None:
    wrong = check_text(text, "notes.md").wrong
    assert len(wrong) >= 2
    assert {cell.line for cell in wrong} == {text.rstrip("`\n").count("\n") + 1}


@pytest.mark.parametrize(("cell", "wrong"), [("1.7", []), ("1.4", ["1.4"])])
def test_rows_that_are_counted_from_zero_have_their_places(cell: str, wrong: list[str]) -> None:
    text = f"""\
weights[1] = [0.9, 0.1] and weights[0] = [0.3, 0.7]

V[1] = [2, 5], V[0] = [1, 4]

output[0] = [{cell}, 4.7]
output[1] = [1.1, 4.1]
"""
    assert [c.figure.text for c in check_text(text, "a.md").wrong] == wrong


@pytest.mark.parametrize(("cell", "wrong"), [("2.609", []), ("2.690", ["2.690"])])
def test_one_matrix_under_several_names_is_each_of_them(cell: str, wrong: list[str]) -> None:
    text = f"""\
Q = [[1, 0], [0, 1]]
K = V = [[1, 2], [3, 1]]

Output:
[[{cell}, 1.196], [1.660, 1.670]]
"""
    assert [c.figure.text for c in check_text(text, "a.md").wrong] == wrong


@pytest.mark.parametrize(("cell", "wrong"), [("2.121", []), ("2.211", ["2.211"])])
def test_scores_may_be_divided_by_a_root_that_only_they_tell(cell: str, wrong: list[str]) -> None:
    """Though the text says what would happen without scaling."""
    text = f"""\
Raw scores:
[[1, 3], [5, 7]]

Without scaling these would be too large.

Scaled scores:
[[0.707, {cell}], [3.536, 4.950]]
"""
    assert [c.figure.text for c in check_text(text, "a.md").wrong] == wrong


GIVEN_FACTORS = """\
query = [0.3, 0.1], key = [2, 1]

0.3 · 2 + 0.1 · 1 {} {}
"""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (GIVEN_FACTORS.format("=", "0.7"), []),
        (GIVEN_FACTORS.format("=", "0.8"), ["0.8"]),
        (GIVEN_FACTORS.format("≈", "0.8"), []),  # of longer numbers than are printed
        ("W_Q = [[1]]\n\n" + GIVEN_FACTORS.format("=", "0.8"), []),  # rows that are computed
        ("weights = [0.7, 0.3]\nvalues = [2, 1]\n\n0.7 · 2 + 0.3 · 1 = 1.8", []),  # 0.73, 0.27
    ],
)
def test_a_sum_of_given_factors_is_exact(text: str, wrong: list[str]) -> None:
    assert [cell.figure.text for cell in check_text(text, "a.md").wrong] == wrong


TURNED = r"""
All rows are the same: $q_p = k_p = \begin{bmatrix} 1 & 0 \end{bmatrix}$.

# Without turning

$$ Q K^\top = \begin{bmatrix} 1 & 1 & 1 \\ 1 & 1 & 1 \\ 1 & 1 & 1 \end{bmatrix} $$

# Turned

$$ Q_R = K_R \approx \begin{bmatrix} 1 & 0 \\ 0.8776 & 0.4794 \\ 0.5403 & 0.8415 \end{bmatrix} $$

$$ S_{\mathrm{turned}} = Q_R K_R^\top \approx \begin{bmatrix} 1.0000 & 0.8776 & 0.5403 \\
0.8776 & 1.0000 & 0.8776 \\ 0.5403 & 0.8776 & 1.0000 \end{bmatrix} $$

For $q_m = k_n = [1, 0]$ that is a cosine. Dividing by $\sqrt{2}$:

$$ S_{\mathrm{scaled}} \approx \begin{bmatrix} 0.7071 & 0.6205 & 0.3821 \\
0.6205 & 0.7071 & 0.6205 \\ 0.3821 & 0.6205 & 0.7071 \end{bmatrix} $$
"""


def test_what_follows_from_others_in_all_its_digits_is_not_accused() -> None:
    assert not check_text(TURNED, "a.md").wrong
    moved = check_text(TURNED.replace("0.3821 \\\\", "0.4821 \\\\"), "a.md")
    assert "0.4821" in {cell.figure.text for cell in moved.wrong}


SUMS_AND_MASK = """\
Weights sum   : [1.000, 1.000, 1.000]

Causal mask (1 = hidden):
[[0, 1, 1], [0, 0, 1], [0, 0, 0]]

Attention weights:
[[1.000, 0.000, 0.000], [0.407, 0.593, 0.000], [0.215, 0.463, 0.322]]
"""


@pytest.mark.parametrize(("weight", "claims"), [("0.593", 0), ("0.693", 1)])
def test_sums_of_weights_and_masks_are_no_weights(weight: str, claims: int) -> None:
    report = check_text(SUMS_AND_MASK.replace("0.593", weight), "a.md")
    matrices = report.exercises[0].exercise.matrices.values()
    assert [(matrix.kind, matrix.shape) for matrix in matrices] == [("weights", (3, 3))]
    assert report.wrong_claims == claims


@pytest.mark.parametrize("moved", [False, True])
def test_many_weights_that_fit_prove_a_divisor_that_is_not_printed(moved: bool) -> None:
    n = 7
    scores = np.random.default_rng(3).normal(size=(n, n)).round(4)
    scores[np.triu_indices(n, 1)] = -np.inf
    weights = np.exp(scores / 3**0.5)
    weights /= weights.sum(axis=1, keepdims=True)
    if moved:
        weights[4, 2] += 0.02
    printed = [
        "tensor(["
        + ",\n        ".join("[" + ", ".join(f"{x:7.4f}" for x in row) + "]" for row in matrix)
        + "])"
        for matrix in (scores, weights)
    ]
    text = _notebook(
        ("print('Masked attention scores:', s)", f"Masked attention scores:\n{printed[0]}"),
        ("print('Attention weights:', p)", f"Attention weights:\n{printed[1]}"),
    )
    wrong = [cell.figure.text for cell in check_text(text, "a.ipynb").wrong]
    assert wrong == ([f"{weights[4, 2]:.4f}"] if moved else [])


def test_the_collector_of_garbage_is_as_it_was_after_a_check() -> None:
    for change in (gc.enable, gc.disable, gc.enable):
        change()
        before = gc.isenabled()
        check_text("1 + 1 = 2", "a.md")
        with pytest.raises(Unreadable):
            check_text("{", "a.json")
        assert gc.isenabled() == before
