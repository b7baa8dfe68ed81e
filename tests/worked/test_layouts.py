"""Matrices side by side, letters for matrices, σ: right as they are, and with a cell moved."""

from __future__ import annotations

import re

import pytest

from regard.worked import check_text

# Each with the numbers of which one is moved, and with them moved.
FORMS = {
    "rows in brackets": (
        "```\n[2 1]   [3 0]   [7 5]\n[0 4] × [1 5] = [4 20]\n```\n",
        ("[4 20]", "[4 21]"),
    ),
    "a row times a matrix": (
        "```\n            [3, 1, 0]\n[2, 0, 1] x [1, 1, 4] = [6, 7, 2]\n"
        "            [0, 5, 2]\n```\n",
        ("[6, 7, 2]", "[6, 8, 2]"),
    ),
    "side by side without a sign": (
        "  │ 0.5  0    │  │ 3 │   │ 1.5 │\n  │ 0.2  0.25 │  │ 8 │ = │ 2.6 │\n",
        ("2.6", "2.9"),
    ),
    "tall brackets": (
        "y =\n\n    ⎡ 1 2 ⎤ ⎡ 5 ⎤   ⎡ 17 ⎤\n    ⎣ 3 4 ⎦ ⎣ 6 ⎦ = ⎣ 39 ⎦\n",
        ("39", "37"),
    ),
    "nested brackets side by side": (
        "```\ng = [[2, 1],    × [[3, 5],\n     [0, 4]]      [1, 2]]\n  = [[7, 12],\n"
        "     [4, 8]]\n```\n",
        ("[7, 12]", "[7, 13]"),
    ),
    "names side by side": (
        "```\nQ = [[1, 2, 0],    K = [[3, 1, 1],\n     [0, 1, 5]]         [2, 0, 4],\n"
        "                        [1, 1, 0]]\n```\n\nQ K^T = [[5, 2, 3], [6, 20, 1]]\n",
        ("[6, 20, 1]", "[6, 22, 1]"),
    ),
    "a mean and a deviation": (
        "Input: [0.9, 1.7, 2.2, 4.8]\n\nμ = 2.40, σ = 1.46\n\n"
        "Normalized: [-1.03, -0.48, -0.14, 1.64]\n",
        ("1.46", "1.37"),
    ),
    "a row made standard": (
        "Input: [0.9, 1.7, 2.2, 4.8]\n\nμ = 2.40, σ = 1.46\n\n"
        "Normalized: [-1.03, -0.48, -0.14, 1.64]\n",
        ("1.64", "1.84"),
    ),
    "a display that goes on": (
        "\\[\ny = 0.3 \\cdot [1, 4, 2] + 0.7 \\cdot [3, 0, 1]\n\\]\n\n"
        "\\[\n= [2.4, 1.2, 1.3] \\ (\\text{approx})\n\\]\n",
        ("1.2", "1.7"),
    ),
    "letters": (
        "$$ \\boldsymbol{G} = \\begin{bmatrix} 1 & 2 & 0 \\\\ 3 & 1 & 4 \\end{bmatrix} $$\n"
        "$$ \\boldsymbol{H} = \\begin{bmatrix} 2 & 1 \\\\ 5 & 7 \\\\ 0 & 6 \\end{bmatrix} $$\n\n"
        "so that\n\n"
        "$$ \\boldsymbol{G}\\boldsymbol{H} = "
        "\\begin{bmatrix} 12 & 15 \\\\ 11 & 34 \\end{bmatrix} $$\n",
        ("11 & 34", "11 & 36"),
    ),
    "a sum of letters": (
        "A = [[1, 2], [3, 4]]\n\nB = [[10, 20], [30, 40]]\n\nA + B = [[11, 22], [33, 44]]\n",
        ("22", "26"),
    ),
    "sigma of a row": (
        "\\begin{aligned}\n\\sigma( & [3, 5] ) &= [0.119, 0.881] \\\\\n"
        "\\sigma( & [0, 1] ) &= [0.5, 0.731]\n\\end{aligned}\n",
        ("0.881", "0.841"),
    ),
    "a sum down the page": (
        "```\n[5, 1, 2]\n\n+\n\n[0.2, -0.3, 0.4]\n\n=\n\n[5.2, 0.7, 2.4]\n```\n",
        ("0.7", "0.9"),
    ),
    "a sum down the page, with what is added": (
        "```\nInput\n\n[3, 1, 7]\n\n+\n\nAttention Output\n\n[2, 8, 1]\n\n=\n\n[5, 9, 8]\n```\n",
        ("[5, 9, 8]", "[5, 6, 8]"),
    ),
    "large numbers whose products are printed": (
        "z = 0.4×120 + 0.25×38.5 + 0.3×90 + (-30)\n  = 48 + 9.625 + 27 - 30\n  = 54.625\n",
        ("54.625", "55.625"),
    ),
    "products of one decimal, with zeros": (
        "(0.3 × 0.2) + (0.9 × 0.0) + (0.5 × 0.0) + (0.7 × 0.3)\n= 0.06 + 0.00 + 0.00 + 0.21\n"
        "= 0.27\n",
        ("0.27", "0.29"),
    ),
    "scores, exponentials and shares without a name": (
        "Take [1.5, 0.5, 2]:\n\n1. Powers: [4.48, 1.65, 7.39]\n2. Total: 13.52\n"
        "3. Parts: [0.33, 0.12, 0.55]\n",
        ("0.12", "0.17"),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_layout_is_read(name: str) -> None:
    text, (right, wrong) = FORMS[name]
    assert text.count(right) == 1
    report = check_text(text)
    assert report.exit_code == 0
    report = check_text(text.replace(right, wrong))
    new, old = (set(re.findall(r"[\d.]+", part)) for part in (wrong, right))
    assert {cell.figure.text for cell in report.wrong} == new - old
    assert {cell.right_text for cell in report.wrong} == old - new


INNOCENT = {
    "shapes joined by @": "z is `28` = $1 \\times 6$ @ $6 \\times 28$.\n",
    "shapes in brackets": "[1, 4096] x [4096, 11008] = [1, 11008]\n",
    "an x that is a letter": "> f(g(x)) = 2(5 x - 1) + 3 = 10 x + 1.\n",
    "a ratio": "the shares are $e^{0} : e^{-90} : e^{-300} \\approx 1 : 0 : 0$.\n",
    "a unit within \\text": (
        "$$\\frac{2 \\times 70 \\times 10^9}{312 \\times 10^{12}} \\approx 0.45 \\text{ ms}$$\n"
    ),
    "a square without brackets": "-3² = 9\n",
    "a quotient in other units": "(6 * 14 * 10^9) / (4 * 10^6) = 21 * 10^3 / 3600 h\n",
    "what is only near, beside what it is": "a loss of 2.91 ≈ -log(1/20) = 2.996 by chance\n",
    "a permutation": "σ(1) = 2 and σ(1, 2) = (2, 1)\n",
    "weights of a network": "```python\nweights = constant([0.1, 0.2, 0.3])\n```\n",
    "the top of a distribution": "```python\nprobs = tensor([0.34, 0.28, 0.19, 0.08])\n```\n",
    "zeros and ones": "A = [[0, 1], [0, 0]]\n\nis no matrix of weights.\n",
    "the V of a decomposition": (
        "$X \\in \\mathbb{R}^{n \\times d}$\n\n"
        "$A = U \\Sigma V^\\top$, $V \\in \\mathbb{R}^{n \\times n}$\n"
    ),
    "a mean of terms": "MSE = mean((5 - 1)² + (4 - 2)² + 40) = mean(16 + 4 + 40) = 20\n",
    "a round number": "Parts: $7^5 \\approx 17000$\n",
    "a whole number that is near": "2¹⁶ × 1.999 ≈ 131072 at most\n",
    "a condition": "where the best share x | C=10²¹ = 95.60 is high\n",
    "a list within a listing": "```\nPatches\n- 32 / 4 = 8 a side\n- 8 × 8 = 64 tokens\n```\n",
    "other shares than those of the exponentials": (
        "Take [1.5, 0.5, 2]: [4.48, 1.65, 7.39], and the labels [0.9, 0.05, 0.05]\n"
    ),
    "a report of classes": (
        "              precision    recall  f1-score   support\n\n"
        "         red       1.00      1.00      1.00        11\n"
        "        blue       0.92      1.00      0.96        12\n"
        "       green       0.60      1.00      0.75         3\n"
        "       white       1.00      1.00      1.00         5\n"
        "        grey       1.00      1.00      1.00         4\n\n"
        "              precision    recall  f1-score   support\n\n"
        "         red       1.00      1.00      1.00        11\n"
        "        blue       0.71      0.83      0.77        12\n"
        "       green       1.00      1.00      1.00         3\n"
        "       white       1.00      1.00      1.00         5\n"
        "        grey       1.00      1.00      1.00         4\n"
    ),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_what_is_meant_otherwise_is_not_accused(name: str) -> None:
    report = check_text(INNOCENT[name] + "\n2 · 3 = 6\n")
    assert [cell.figure.text for cell in report.wrong] == []
    assert report.wrong_claims == 0
    assert report.exit_code == 0


def test_a_derivative_is_not_what_it_is_taken_of() -> None:
    text = (
        "Q = [[1, 2], [0, 1]]\nK = [[2, 1], [1, 3]]\nV = [[4, 0], [2, 6]]\n\n"
        "Q K^T = [[4, 7], [1, 3]]\n\n"
        "$$\\frac{\\partial L}{\\partial V} = \\begin{bmatrix} 0.1 & 0.2 \\\\ 0.3 & 0.4 "
        "\\end{bmatrix}$$\n\n∂L/∂Q = [[0.5, 0.1], [0.7, 0.2]]\n"
    )
    report = check_text(text)
    assert report.exit_code == 0
    matrices = report.exercises[0].exercise.matrices
    assert {key[0]: matrix.line for key, matrix in matrices.items()} == {
        "query": 1,
        "key": 2,
        "value": 3,
        "scores": 5,
    }


def test_places_in_brackets_are_no_numbers() -> None:
    text = (
        "Tokens:    [0]  [1]  [2]\n\nQ:\n  a: [1, 2]\n  b: [0, 1]\n  c: [3, 1]\n\n"
        "K:\n  a: [2, 1]\n  b: [1, 3]\n  c: [0, 2]\n\n"
        "Scores:\n  a: [4, 7, 4]\n  b: [1, 3, 2]\n  c: [7, 6, 2]\n"
    )
    assert check_text(text).exit_code == 0
    (cell,) = check_text(text.replace("[1, 3, 2]", "[1, 5, 2]")).wrong
    assert (cell.figure.text, cell.right_text) == ("5", "3")


def test_a_row_of_sums_with_holes_is_no_row() -> None:
    table = (
        "| word | score | exp(score) | weight |\n|---|---|---|---|\n| a | 2.0 | 7.39 | 0.58 |\n"
        "| b | 1.0 | 2.72 | 0.21 |\n| c | 0.95 | 2.59 | 0.20 |\n| Σ | — | 12.70 | — |\n"
    )
    assert check_text(f"Softmax:\n\n{table}").exit_code == 0
    (cell,) = check_text(f"Softmax:\n\n{table}".replace("0.21", "0.31")).wrong
    assert cell.figure.text == "0.31"


def test_a_symbol_of_its_own_is_not_named_by_the_line_above() -> None:
    text = (
        "Learned weights (after training):\n\n\\[\n\\begin{aligned}\nW_{xh} &= \\begin{bmatrix} "
        "0.3 & 0.4 \\\\\\\\ 0.2 & 0.1 \\end{bmatrix} \\quad \\text{(to the state)} \\newline\n"
        "W_{hh} &= \\begin{bmatrix} 0.2 & 0.6 \\\\\\\\ 0.5 & 0.7 \\end{bmatrix}\n"
        "\\end{aligned}\n\\]\n\n3 · 0.2 = 0.6\n"
    )
    report = check_text(text)
    assert report.exit_code == 0
    assert not any("weights" in key[0] for e in report.exercises for key in e.exercise.matrices)
