"""Equations that go on over lines and displays, one below another, and what they do not touch."""

from __future__ import annotations

import pytest

from regard.worked import check_text, fix_text

# What is between «» is computed, and may not be another number.
TEXTS = {
    "one equation a line": "```\n1.5 + 0.25 = 1.75\n0.24 + 0.31 = «0.55»\n2.5 - 1.1 = 1.4\n```\n",
    "a blank line between": "```text\n1.573 + 0.2 = 1.773\n\n-1.26 + (-0.14) = «-1.40»\n```\n",
    "a word between displays": (
        "\\[\n0.731[10,0]\n+\n0.269[0,20]\n\\]\n\n得到：\n\n\\[\n[7.31,«5.38»]\n\\]\n"
    ),
    "a name on every line": (
        "`z1 = [0, 0.4, 0.4] + [0.4, 0, 0.4] + [0.2, 0.2, 0]`\n"
        "`z1 = [0 + 0.4 + 0.2, 0.4 + 0 + 0.2, 0.4 + 0.4 + 0]`\n"
        "`z1 = [0.6, 0.6, «0.8»]`\n"
    ),
    "counted from 0": (
        "x0 = [1, 2]\nx1 = [3, 4]\n\n```\n"
        "z0 = 0.25×x0 + 0.75×x1\n   = 0.25×[1,2] + 0.75×[3,4]\n   = [2.50, 3.50]\n\n"
        "z1 = 0.5×x0 + 0.5×x1\n   = 0.5×[1,2] + 0.5×[3,4]\n   = [2.00, «3.00»]\n```\n"
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_equation_is_read_to_its_end(name: str) -> None:
    before, _, rest = TEXTS[name].partition("«")
    figure, _, after = rest.partition("»")
    right = check_text(before + figure + after, "a.md")
    assert right.checked > 0
    assert [cell.figure.text for cell in right.wrong] == []
    moved = figure.replace(figure.lstrip("-"), "7" + figure.lstrip("-"))
    wrong = check_text(before + moved + after, "a.md")
    assert [cell.figure.text for cell in wrong.wrong] == [moved]
    assert fix_text(wrong) == before + figure + after


@pytest.mark.parametrize(
    "text",
    [
        # A name that is set anew.
        "x = 2·[1, 2, 3]\nx = [5, 6, 7]\n",
        # Another name, and another line between.
        "z1 = 2·[1, 2, 3]\nz2 = [2, 4, 7]\n",
        "z1 = 2·[1, 2, 3]\nThen we add:\nz1 = [2, 4, 7]\n",
        # A sum that goes on below its first result.
        "total = 5.0\n-1.2 + 0.1 = 3.9\n",
        # The number above may be half of a fraction.
        "3\n1 + 1 = 1.5\n",
        # Another vector of two numbers, near one that is called X.
        "e1 = [1.0, 1.25]\ne2 = [1.6, 0.95]\n\nThe embeddings. A word is `t0 = [0.2, 0.3]`.\n",
        # Numbers that the text makes up.
        "Scores: [0.1, 0.5, 0.8]\n\nsoftmax; suppose the result is: [0.2, 0.3, 0.5]\n",
        "分数: [0.1, 0.5, 0.8]\n\nSoftmax，假设结果为：\n\n[0.20, 0.30, 0.50]\n",
        # Vectors of words that happen to sum to about 1.
        'Then a softmax over the words.\n\nvectors: "am"=[0.2, 0.1]  "the"=[0.9, 0.2]\n',
    ],
)
def test_what_may_be_something_else_is_not_accused(text: str) -> None:
    assert [cell.figure.text for cell in check_text(text, "a.md").wrong] == []


def test_weights_are_put_right_from_the_scores_beside_them() -> None:
    """Though Q and K of an earlier step are there, and would say √3."""
    text = (
        "Q = [1, 0, 1], K = [1, 1, 0]\n\nStep 3:\n\n"
        "scores: [3.0, 1.0, 0.0] → softmax → [0.79, 0.16, 0.05]\n"
    )
    wrong = check_text(text, "a.md").wrong
    assert {(c.figure.text, c.right_text) for c in wrong} >= {("0.79", "0.84"), ("0.16", "0.11")}
    right = text.replace("0.79, 0.16, 0.05", "0.84, 0.11, 0.04")
    assert not check_text(right, "a.md").wrong


def test_scores_that_sum_to_one_are_scores_by_their_name() -> None:
    text = "Q·K^T = [0.1, 0.9, 0.05]  → the second is nearest\nsoftmax → [0.15, 0.80, 0.05]\n"
    assert len(check_text(text, "a.md").wrong) == 3
    right = text.replace("0.15, 0.80, 0.05", "0.24, 0.53, 0.23")
    assert not check_text(right, "a.md").wrong


GIVEN = """\
## Exercise 2

scores = [[1.0, 2.0, 3.0], [1.2, 0.8, 2.0]]

```
行0: softmax([1.0, 2.0, 3.0]) ≈ [0.09, 0.24, 0.67]
行1: softmax([1.2, 0.8, 2.0]) ≈ [{}]
```
"""


def test_scores_that_a_section_starts_from_are_exact() -> None:
    """Else 1.2 could stand for 1.15, and 2.0 for 2.05."""
    assert not check_text(GIVEN.format("0.26, 0.17, 0.57"), "a.md").wrong
    wrong = check_text(GIVEN.format("0.24, 0.16, 0.60"), "a.md").wrong
    assert [cell.right_text for cell in wrong] == ["0.26", "0.17", "0.57"]
    made = GIVEN.replace("scores =", "d_k = 2\nQ = [[1, 2], [3, 1]]\nscores =")
    assert not check_text(made.format("0.24, 0.16, 0.60"), "a.md").equation_cells


@pytest.mark.parametrize("brackets", ["[{}]", "\\[ {} \\]", "\\left[ {} \\right]"])
def test_rows_in_brackets_may_end_as_they_do_in_latex(brackets: str) -> None:
    rows = brackets.format("1.0 2.0 \\\\ 3.0 4.0")
    text = "X = {}\n\nW_Q = [[1, 0], [0, 2]]\n\nQ = [[1.0, 4.0], [3.0, {}]]\n"
    assert check_text(text.format(rows, "8.0"), "a.md").exit_code == 0
    wrong = check_text(text.format(rows, "9.0"), "a.md").wrong
    assert [(cell.figure.text, cell.right_text) for cell in wrong] == [("9.0", "8.0")]
