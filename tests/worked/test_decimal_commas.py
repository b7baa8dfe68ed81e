"""Texts that write their decimals with commas: read so everywhere, and never accused in doubt."""

from __future__ import annotations

import pytest

from regard.worked import check_text, fix_text

# What is between «» is computed, and may not be another number.
TEXTS = {
    "quotients": "Skor dibagi √3 = 1,732:\n\n3 / 1,732 = «1,732» dan 0 / 1,732 = 0,000\n",
    "exponentials": "```\ne^1,732 = «5,652» ; e^0 = 1 ; jumlah = 6,652\n```\nBerat 0,850.\n",
    "a softmax": "Gewichte: softmax([1,732 , 0]) = [0,850 , «0,150»]\n",
    "a softmax with semicolons": "Gewichte: softmax([1,732; 0,25]) = [0,815; «0,185»]\n",
    "a sum of pairs": (
        "```\nbobot = [0,850 , 0,150]\n"
        "out = 0,850*v1 + 0,150*v2 = 0,850*[2,4] + 0,150*[6,0] = [2,600 , «3,400»]\n```\n"
    ),
    "matrices of whole numbers": (
        "```\nQ = [[1,0],[0,2]]\nK = [[2,1],[0,1]]\nQKᵀ = [[2,0],[2,«2»]]\n"
        "Skala: [1,41 , 0,71]\n```\nLangkah 2.1: 0,85 dan 0,15.\n"
    ),
    "percentages": "85,0 % von 200 sind 0,850 · 200 = «170,0»; 0,25 · 100 = 25,0 %.\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_comma_is_the_point_of_a_text_that_writes_it_so(name: str) -> None:
    before, _, rest = TEXTS[name].partition("«")
    figure, _, after = rest.partition("»")
    right = check_text(before + figure + after, "a.md")
    assert [cell.figure.text for cell in right.wrong] == []
    assert right.checked > 0
    moved = check_text(f"{before}7{figure}{after}", "a.md")
    assert [cell.figure.text for cell in moved.wrong] == [f"7{figure}"]
    assert fix_text(moved) == before + figure + after


@pytest.mark.parametrize(
    "text",
    [
        # Points and commas: it cannot be told which is which.
        "lr = 0.01\n\n0,3*2 = 0,6 und 0,850*[2,4] = [1,700 , 3,400]\n",
        "lr = 0.01\n\nbobot = 0,850*2 + 0,150*4 = 2,300\n",
        # Pairs of whole numbers, or single numbers in brackets.
        "[0,5]·2 = [1,0] mit 0,25; [0,25; 0,75]\n",
        # Lists of three whole numbers.
        "Skala 0,25: 2·[1,2,3] = [2,4,6]\n",
    ],
)
def test_a_comma_that_may_be_either_is_not_accused(text: str) -> None:
    assert [cell.figure.text for cell in check_text(text, "a.md").wrong] == []


def test_large_numbers_keep_their_commas() -> None:
    report = check_text("512 · 512 = 272,144\n")
    assert [(cell.figure.text, cell.right_text) for cell in report.wrong] == [
        ("272,144", "262,144")
    ]
    report = check_text("Mit 0,25: 100,5 · 20 = 2110,0\n")
    assert [cell.right_text for cell in report.wrong] == ["2010,0"]
