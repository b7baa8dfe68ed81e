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
