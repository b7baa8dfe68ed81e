"""Programs in Markdown say how the numbers beside and below them were made."""

from __future__ import annotations

import pytest

from regard.worked import check_text

GIVEN = "import numpy as np\n\nu = np.array([[0.31, 0.52], [0.83, 0.11], [0.29, 0.71]])\n"
# u @ u.T, and its softmax by rows.
SCORES = "[[0.3665 0.3145 0.4591]\n [0.3145 0.701  0.3188]\n [0.4591 0.3188 0.5882]]"
WEIGHTS = "[[0.3283 0.3116 0.3601]\n [0.2877 0.4234 0.2889]\n [0.3326 0.2890 0.3784]]"
FORMS = {
    "comments beside": (
        f"```python\n{GIVEN}r = u @ u.T  # [[0.3665, 0.3145, 0.4591], [0.3145, 0.701, 0.3188], "
        "[0.4591, 0.3188, 0.5882]]\n```\n"
    ),
    "comments below": (
        f"```python\n{GIVEN}r = u @ u.T\nprint(r)\n# [[0.3665, 0.3145, 0.4591],\n"
        "#  [0.3145, 0.7010, 0.3188],\n#  [0.4591, 0.3188, 0.5882]]\n```\n"
    ),
    "another fence": (
        f"```python\n{GIVEN}r = u @ u.T\nprint(r)\n```\n\nOutput:\n\n```\n{SCORES}\n```\n"
    ),
    "an indented block": (
        f"```python\n{GIVEN}r = np.dot(u, u.T)\nr\n```\n\n\n\n\n    "
        + f"array({SCORES})".replace("\n", "\n    ")
        + "\n"
    ),
    "no language": f"```\n{GIVEN}r = u @ u.T\nprint(r)\n```\n\n```text\n{SCORES}\n```\n",
    "several cells": (
        f"```py\n{GIVEN}r = u @ u.T\n```\n\nThen\n\n```py\np = softmax(r)\nprint(p)\n```\n\n"
        f"```\n{WEIGHTS}\n```\n"
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_listing_is_followed(name: str) -> None:
    text = FORMS[name]
    assert check_text(text, "a.md").exit_code == 0
    right, wrong = ("0.3601", "0.3901") if "0.3601" in text else ("0.5882", "0.5382")
    report = check_text(text.replace(right, wrong), "a.md")
    assert [cell.figure.text for cell in report.wrong] == [wrong]
    assert [cell.right_text for cell in report.wrong] == [right]


def test_numbers_that_are_slightly_off_are_found_though_they_are_many() -> None:
    text = FORMS["another fence"].replace("0.3665 0.3145 0.4591", "0.3661 0.3149 0.4595")
    wrong = [cell.figure.text for cell in check_text(text, "a.md").wrong]
    assert wrong == ["0.3661", "0.3149", "0.4595"]


@pytest.mark.parametrize(
    "program",
    [
        "r = mystery(u)\nprint(r)",
        "for k in range(3):\n    r = u @ u.T\nprint(r)",
        "r = u @ u.T\nr += mystery(r)\nprint(r)",
        "def f(x, y):\n    for k in x:\n        y = y @ k\n    return y\nr = f(u, u)\nprint(r)",
    ],
)
def test_what_cannot_be_followed_is_not_accused(program: str) -> None:
    text = f"```python\n{GIVEN}{program}\n```\n\n```\n{SCORES}\n```\n".replace("0.5882", "0.5382")
    assert check_text(f"{text}\n2 · 3 = 6\n", "a.md").exit_code == 0
