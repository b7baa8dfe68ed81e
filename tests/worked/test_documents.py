"""Documents as people write them: every form that was met, right and with one number moved."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pptx
import pytest
from helpers.slides import pdf
from helpers.soak import times
from hypothesis import given, settings
from hypothesis import strategies as st
from pptx.util import Emu

from regard.worked import Report, Unreadable, check, check_text, fix_text
from regard.written.grammar import Grammar
from regard.written.tokens import tokens_of


def accused(report: Report) -> list[str]:
    return [cell.figure.text for cell in report.wrong]


# What is between «» is computed, and may not be another number.
EQUATIONS = [
    "softmax([1.41, 0.71]) ≈ [0.67, «0.33»]\n",
    "3·1 + 2·(−1) + 4·2 = «9»\n",
    "0.73·[1, 0] + 0.27·[0, 1] = [0.73, «0.27»]\n",
    "The weight is 1.78 / 4.56 = «0.39».\n",
    "$$e^{1.41} \\approx «4.10», \\quad e^{0.71} \\approx 2.03$$\n",
    "$\\frac{4.10}{4.10 + 2.03} = «0.669»$\n",
    "e^1.41 / e^1.41 + e^0.71 = «0.668»\n",
    "1.2×0.9 + 0.6×1.1 = 1.08 + «0.66» = 1.74\n",
    "score = q·k = 1*3 + 2*4 = «11»\n",
    "$$\\begin{bmatrix} 1 & 2 \\end{bmatrix} \\begin{bmatrix} 3 \\\\ 4 \\end{bmatrix} = «11»$$\n",
    "$\\text{ReLU}((2, -1, 1)) = (2, 0, «1»)$\n",
    "[1, 2] @ [[1, 0], [0, 1]] = [1, «2»]\n",
    "64 / 8 = «8» for each head\n",
    "512 × 512 = «262144»\n",
    "Layer 4: 0 x 7 + (-1) x 5 + 1 x 8 = «3»\n",
    "√(64) = «8»\n",
    "e^53.74 ≈ «2.18» × 10²³\n",
    "weights = softmax([0.8, 0.4, 0.7])\n        = [0.39, «0.26», 0.35]\n",
    "scores = [\n    0.8*1.0 + 0.3*0.1 = «0.83»,  # the\n    0.8*0.2 + 0.3*0.9 = 0.43,  # cat\n]\n",
    "mean = (1 + 2 + 6) / 3 = «3»\n",
    "0.278 = 27.8%; 0.5 · 2 = «1»\n",
    "\\begin{align}\ns &= 1 \\cdot 3 + 2 \\cdot 4 \\\\\n  &= «11»\n\\end{align}\n",
    "| pair | product |\n|---|---|\n| a | 1·3 + 2·4 = «11» |\n| b | 2·1 = 2 |\n",
    "sum = 0.10 + 0.25 + 0.65 = «1.00»\n",
]


def split(text: str) -> tuple[str, str, str]:
    before, _, rest = text.partition("«")
    figure, _, after = rest.partition("»")
    return before, figure, after


@pytest.mark.parametrize("text", EQUATIONS)
def test_an_equation_is_checked_by_itself(text: str) -> None:
    before, figure, after = split(text)
    right = check_text(before + figure + after)
    assert accused(right) == []
    assert right.exit_code == 0
    moved = check_text(f"{before}7{figure}{after}")
    assert f"7{figure}" in accused(moved)
    assert moved.exit_code == 1
    assert check_text(fix_text(moved)).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "(3 × 4) · (4 × 2) = (3 × 2)\n",
        "Q has shape (3 × 2) = 3 samples, 2 features each\n",
        "1 + 2 + … + 10 = 55\n",
        "half of 6 + 6 = 6\n",
        "50257 × 768 = 38.6M parameters\n",
        "f(2) = 5 and g(2 + 2) = 7\n",
        "3 + 4 ≠ 8\n",
        "x·2 + 1 = 4\n",
        "sin 2 + 3 = 4\n",
        "[1, 2]·[3, 4] = [3, 8]\n",
        "0.5 · 100 = 50%\n",
        "the range 1-2 = low\n",
        "512 × 512 = 262,144\n",
        "Figure 3.1 = the model\n",
        "403 / (403 + 55) = 0.8808\n",
        "0.1 + 0.2 = 0.30000000000000004\n",
        "log(8) = 3 in bits\n",
        "2/3 = 0.66\n",
    ],
)
def test_what_may_be_meant_otherwise_is_not_accused(text: str) -> None:
    report = check_text(text)
    assert accused(report) == []
    assert report.wrong_claims == 0


# ── formats ───────────────────────────────────────────────────────────────────────────────────


def test_html_is_read_with_its_tables_entities_and_printed_text() -> None:
    page = (
        "<!DOCTYPE html><html><body><script>var a = [1, 2];</script>\n<h2>Query (Q)</h2>\n"
        "<table><tr><th>Token</th><th>q<sub>1</sub></th><th></th></tr>"
        "<tr><td>a</td><td>1</td><td>&minus;2</td></tr></table>\n"
        "<p>K = [[3, 4]]</p><pre>scores = [[-5]]</pre><p>1 + 1 &asymp; 2</p></body></html>"
    )
    report = check_text(page, "page.html")
    assert (report.exit_code, report.checked) == (0, 2)
    wrong = check_text(page.replace("-5", "-6"), "page.html")
    assert accused(wrong) == ["-6"]
    assert fix_text(wrong) == page


def test_a_notebook_is_read_cell_by_cell_and_mended_in_its_json() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Scores\n", "$1 \\cdot 3 + 2 \\cdot 4 = 11$\n"]},
        {"cell_type": "code", "source": "Q = np.array([[1, 2]])\nK = np.array([[3, 4]])"},
        {
            "cell_type": "code",
            "outputs": [{"text": ["Scores:\n", "[[12]]\n"]}],
            "source": ["print('Scores:')\n", "print(Q @ K.T)"],
        },
    ]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    report = check_text(text, "a.ipynb")
    assert accused(report) == ["12"]
    assert fix_text(report) == text.replace("12", "11")
    with pytest.raises(Unreadable, match="no notebook"):
        check_text('{"cells": ', "a.ipynb")


def test_letters_that_were_decoded_wrongly_are_read_as_meant_and_that_is_said() -> None:
    text = "মান ⇒ ভাত\n\nQ = [[1, 2]]\nK = [[3, 4]]\n\nscores ⇒ [[12]]\n"
    garbled = text.encode().decode("cp1252", errors="ignore")
    report = check_text(garbled)
    assert accused(report) == ["12"]
    assert "decoded wrongly" in report.remarks[0]
    assert fix_text(report) == garbled.replace("12", "11")
    assert check_text(text).remarks == []


def test_doubled_backslashes_are_read_as_single_ones_and_that_is_said() -> None:
    text = "$$\nA =\n\\\\begin{bmatrix}\n0.1 & 0.9 \\\\\n0.3 & 0.7\n\\\\end{bmatrix}\n$$\n"
    report = check_text(text)
    assert (report.exit_code, report.checked) == (0, 6)
    assert "doubled" in report.remarks[0]
    assert check_text(text.replace("0.9", "0.6")).exit_code == 1


def test_latex_in_the_address_of_an_image_is_read() -> None:
    link = "![](https://latex.codecogs.com/svg.latex?1\\cdot%203+2\\cdot%204=11)\n"
    assert (check_text(link).exit_code, check_text(link).checked) == (0, 1)
    assert accused(check_text(link.replace("=11", "=12"))) == ["12"]


def test_a_column_of_scores_is_one_querys_row() -> None:
    text = "Scores: [2.0, 1.0, 0.1]\n\nSoftmax: [0.66, 0.24, 0.10]\n"
    assert check_text(text).exit_code == 0
    assert accused(check_text(text.replace("0.24", "0.34"))) == ["0.34"]


def test_a_matrix_is_checked_by_what_gives_most_of_it_whatever_it_is_called() -> None:
    text = (
        "$$A_{causal} = [[1, 0], [0.3304, 0.6696]]$$\n\n$$V = [[1.5, 2.5], [3.5, 4.25]]$$\n\n"
        "$$O_{first} = [[1.50, 2.50], [2.84, 3.67]]$$\n"
    )
    assert check_text(text).exit_code == 0
    assert accused(check_text(text.replace("2.84", "2.48"))) == ["2.48"]


def test_slides_are_read_as_text_and_tables_and_pictures_are_named(tmp_path: Path) -> None:
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[5])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "Q = [[1, 2]] and K = [[3, 4]]"
    table = slide.shapes.add_table(2, 2, *[Emu(99)] * 4).table
    for cell, text in zip(table.iter_cells(), ("Pair", "Scores", "a", "12"), strict=True):
        cell.text = text
    path = tmp_path / "slides.pptx"
    slides.save(str(path))
    assert accused(check(path)) == ["12"]
    pixel = tmp_path / "pixel.png"
    pixel.write_bytes(base64.b64decode(_PIXEL))
    slide.shapes.add_picture(str(pixel), Emu(0), Emu(0))
    slides.save(str(path))
    assert check(path).remarks == ["Numbers in pictures were not read (pages 1)."]
    path.write_bytes(b"PK no slides")
    with pytest.raises(Unreadable, match="no PPTX"):
        check(path)


def test_a_pdf_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.pdf"
    path.write_bytes(pdf("1 + 2 = 4"))
    assert accused(check(path)) == ["4"]
    path.write_bytes(b"%PDF-1.4 nothing")
    with pytest.raises(Unreadable, match="no PDF"):
        check(path)


_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


# ── claims ────────────────────────────────────────────────────────────────────────────────────


def test_shapes_that_do_not_meet_are_told_and_those_that_do_are_not() -> None:
    text = (
        "- $X \\in R^{n \\times d_{model}}$\n- $V = X W_V, \\in R^{n \\times n}$\n"
        "- $V = X V_{down}V_{up}$, $V_{down} \\in R^{n\\times d_k}, "
        "V_{up} \\in R^{d_k \\times n}$\n"
    )
    report = check_text(text)
    assert {claim.about: claim.right for claim in report.claims} == {
        "the shape of V": "n×d_v",
        "the shape of V_down": "d_model×d_k",
        "the shape of V_up": "d_k×d_model",
    }
    right = (
        "- $X \\in R^{n \\times d_{model}}$\n- $V = X W_V, \\in R^{n \\times d_v}$\n"
        "- $Q \\in R^{n \\times d_k}$, softmax $\\in R^{n \\times n}$\n"
    )
    assert check_text(right).claims == []


def test_that_rows_of_the_output_sum_to_one_is_told_as_wrong_and_of_weights_it_is_not() -> None:
    assert check_text("Each row of the output sums to 1.\n").wrong_claims == 1
    assert (
        check_text("각 row에 Value의 행렬곱으로 곱하고, 그 값의 합은 역시나 1이다.\n").wrong_claims
        == 1
    )
    assert check_text("Each row of the softmax output sums to 1.\n").wrong_claims == 0
    assert check_text("The attention weights sum to 1.\n").wrong_claims == 0


def test_a_root_that_is_called_d_k_is_remarked_and_d_k_stays() -> None:
    text = (
        "Q = [[1, 2]]\nK = [[3, 4]]\n\nDivide by $d_k = \\sqrt{2} \\approx 1.414$.\n\nS = [[11]]\n"
    )
    (judged,) = check_text(text).exercises
    assert any("that is √dₖ, and dₖ is 2" in remark for remark in judged.remarks)
    assert check_text(text).exit_code == 0


# ── hostile ───────────────────────────────────────────────────────────────────────────────────


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Nd", "No", "Nl"]), max_size=400))
@settings(max_examples=times(200))
def test_nothing_is_accused_in_a_text_without_numbers(text: str) -> None:
    try:
        report = check_text(text)
    except Unreadable:
        return
    assert accused(report) == []


def test_nested_brackets_and_long_sums_are_read_without_recursion() -> None:
    for text in ("[" * 5000 + "1" + "]" * 5000, "(" * 3000 + "1" + ")" * 3000 + " = 1"):
        check_text(text)
    ones = " + ".join(["1"] * 3000)
    assert check_text(f"{ones} = 3000").exit_code == 0
    assert accused(check_text(f"{ones} = 3001")) == ["3001"]
    deep = Grammar(tokens_of("-" * 5000 + "1")).expression(0)
    assert deep is None


def test_the_same_numbers_in_heads_and_behind_a_causal_mask() -> None:
    """Two heads, each masked, put side by side: right as computed, and a moved cell is found."""
    choose = np.random.default_rng(11)
    parts: list[str] = []
    outputs: list[np.ndarray] = []
    for head in (1, 2):
        q, k, v = (choose.integers(-20, 20, (3, 2)) / 10 for _ in range(3))
        scaled = q @ k.T / np.sqrt(2)
        masked = np.where(np.tri(3) > 0, scaled, -np.inf)
        weights = np.exp(masked) / np.exp(masked).sum(axis=1, keepdims=True)
        outputs.append(weights @ v)
        parts.append(f"### Head {head}\n")
        for name, array in (("Q", q), ("K", k), ("V", v), ("A", weights), ("Z", outputs[-1])):
            digits = 1 if name in "QKV" else 3
            rows = ", ".join("[" + ", ".join(f"{x:.{digits}f}" for x in row) + "]" for row in array)
            parts.append(f"{name} = [{rows}]\n")
    side = np.hstack(outputs)
    rows = ", ".join("[" + ", ".join(f"{x:.3f}" for x in row) + "]" for row in side)
    text = "A causal mask hides what comes later.\n\n" + "\n".join(parts)
    text += f"\nConcatenated = [{rows}]\n"
    assert accused(check_text(text)) == []
    assert check_text(text).exit_code == 0
    cell = f"{side[2, 3]:.3f}"
    start = text.rindex(cell)
    moved = text[:start] + f"{side[2, 3] + 0.2:.3f}" + text[start + len(cell) :]
    assert len(accused(check_text(moved))) == 1
