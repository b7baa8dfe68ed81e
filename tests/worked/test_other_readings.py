"""Numbers that may be something else than they seem are not accused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.worked import check_text

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
