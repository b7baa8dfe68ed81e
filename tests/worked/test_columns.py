"""One query's scores down a column, with what follows beside them: `| word | score | weight |`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from helpers.soak import times
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.worked import Report, check_text, fix_text
from worked.printing import WORDS, Pick, some_numbers

HEADINGS = (
    {"scores": "score", "scaled": "scaled", "exponentials": "exp", "weights": "weight"},
    {
        "scores": "Raw score",
        "scaled": "Scaled score",
        "exponentials": "exp(score)",
        "weights": "Attention weight",
    },
    {"scores": "q·k", "scaled": "q·k/√d_k", "exponentials": "$e^{s}$", "weights": "softmax"},
)


@dataclass
class Column:
    """A query and its keys, and the columns that are printed of them."""

    words: list[str]
    query: np.ndarray
    keys: np.ndarray
    headings: dict[str, str]
    shows_keys: bool
    columns: dict[str, list[str]] = field(default_factory=dict)

    def printed(self) -> str:
        parts = []
        if self.shows_keys:
            keys = (f"k_{w} = {line(row)}" for w, row in zip(self.words, self.keys, strict=True))
            parts = [f"q = {line(self.query)}\n", *(f"{key}\n" for key in keys), ""]
        rows = [["word", *(self.headings[name] for name in self.columns)]]
        rows += [["---"] * len(rows[0])]
        rows += [list(row) for row in zip(self.words, *self.columns.values(), strict=True)]
        return "\n".join([*parts, *("| " + " | ".join(row) + " |" for row in rows), ""])


def line(numbers: np.ndarray) -> str:
    return "[" + ", ".join(f"{number:.2f}" for number in numbers) + "]"


def column(pick: Pick, *, shows_keys: bool, wanted: str = "") -> Column:
    n, d = pick([4, 5, 7]), pick([2, 4])
    query, keys = some_numbers(pick, 1, d)[0] / 2, some_numbers(pick, n, d) / 2
    digits = {name: pick([2, 3]) for name in HEADINGS[0]}
    names = [n for n in HEADINGS[0] if n in ("scores", "weights", wanted) or pick([True, False])]
    found = Column(WORDS[:n], query, keys, pick(HEADINGS), shows_keys)

    def show(name: str, exact: np.ndarray) -> np.ndarray:
        """What is printed, if it is, and what the next step is made of."""
        if name not in names:
            return exact
        found.columns[name] = [f"{number:.{digits[name]}f}" for number in exact]
        return np.array(found.columns[name], dtype=float) if pick([True, False]) else exact

    scores = show("scores", keys @ query)
    scaled = show("scaled", scores / np.sqrt(d)) if "scaled" in names else scores
    exponentials = show("exponentials", np.exp(scaled))
    show("weights", exponentials / exponentials.sum())
    return found


@st.composite
def columns(draw: st.DrawFn, *, shows_keys: bool | None = None, wanted: str = "") -> Column:
    def pick(several: Sequence[Any]) -> Any:
        return draw(st.sampled_from(several))

    shows = pick([True, False]) if shows_keys is None else shows_keys
    return column(pick, shows_keys=shows, wanted=wanted)


def accused(report: Report) -> list[str]:
    return [cell.figure.text for cell in report.wrong]


@given(columns())
@settings(max_examples=times(100))
def test_right_columns_are_never_called_wrong(found: Column) -> None:
    report = check_text(found.printed())
    assert accused(report) == []
    assert report.exit_code == 0


def test_scores_of_queries_and_keys_that_are_not_shown_may_have_been_rounded() -> None:
    # −0.75 and −0.51 were −0.7525 and −0.5125: with them the weight is 0.10501, without 0.10486.
    text = (
        "| word | score | scaled | weight |\n|---|---|---|---|\n"
        "| a | 1.38 | 0.69 | 0.30 |\n| b | 1.88 | 0.94 | 0.38 |\n| c | -0.75 | -0.38 | 0.10 |\n"
        "| d | -0.70 | -0.35 | 0.11 |\n| e | -0.51 | -0.26 | 0.12 |\n"
    )
    assert accused(check_text(text)) == []
    assert accused(check_text(text.replace("0.11", "0.13"))) == ["0.13"]


@given(columns(shows_keys=True), st.data())
@settings(max_examples=times(50))
def test_a_moved_score_is_found(found: Column, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(found.words) - 1))
    moved = float(found.columns["scores"][k]) + data.draw(st.sampled_from([-1, 1, 2.5]))
    found.columns["scores"][k] = f"{moved:.3f}"
    report = check_text(found.printed())
    assert f"{moved:.3f}" in accused(report)


@pytest.mark.parametrize("name", ["exponentials", "weights"])
@given(data=st.data())
@settings(max_examples=times(50))
def test_a_moved_number_beside_the_scores_is_found(name: str, data: st.DataObject) -> None:
    found = data.draw(columns(shows_keys=False, wanted=name))
    assume(len(set(found.columns[name])) > 3)  # numbers that fit, and not by chance
    k = data.draw(st.integers(0, len(found.words) - 1))
    moved = float(found.columns[name][k]) * 1.5 + 0.3
    found.columns[name][k] = f"{moved:.3f}"
    report = check_text(found.printed())
    assert f"{moved:.3f}" in accused(report)
    if name == "exponentials":  # and nothing but it, and put right
        assert accused(report) == [f"{moved:.3f}"]
        assert check_text(fix_text(report)).exit_code == 0


# What is between «» is computed, and may not be another number.
DOCUMENTS = {
    "rows with an equals sign": (
        "Weights: [0.70, 0.30]\n\n## Values\n\ndog = [0, 2]\ncat = [1, 0]\n\n"
        "Output: [0.30, «1.40»]\n"
    ),
    "a softmax of a name": "scores = [1.2, 0.7, 0.4]\n\nsoftmax(scores) = [0.48, «0.29», 0.22]\n",
    "a softmax of another name": "z = [2.0, 1.0, 0.1]\n\nsoftmax(z) = [0.66, «0.24», 0.10]\n",
    "a softmax of a matrix": (
        "$$S = \\begin{bmatrix} 1.2 & 0.7 \\\\ 0.3 & 0.5 \\end{bmatrix}$$\n\n"
        "$$\\text{softmax}(S) = "
        "\\begin{bmatrix} 0.622 & 0.378 \\\\ «0.450» & 0.550 \\end{bmatrix}$$\n"
    ),
    "tables of HTML within Markdown": (
        "## Query (Q)\n\n<table>\n<tr><td>a</td><td>1</td><td>2</td></tr>\n</table>\n\n"
        "## Key (K)\n\n| | | |\n|---|---|---|\n| b | 3 | 1 |\n| c | 0 | 2 |\n\n"
        "## Scores\n\n<table><tr><th></th><th>b</th><th>c</th></tr>\n"
        "<tr><td>a</td><td>5</td><td>«4»</td></tr></table>\n"
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_other_ways_to_write_are_read(name: str) -> None:
    before, _, rest = DOCUMENTS[name].partition("«")
    figure, _, after = rest.partition("»")
    right = check_text(before + figure + after)
    assert accused(right) == []
    assert right.exit_code == 0
    assert accused(check_text(f"{before}7{figure}{after}")) == [f"7{figure}"]


def test_a_matrix_without_a_name_is_asked_about_only_if_something_may_depend_on_it() -> None:
    unnamed = "\\begin{align}\n\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}\n\\end{align}\n\n"
    named = "Q = [[1, 2]]\n\nK = [[3, 1], [0, 2]]\n\nscores = [[5, 4]]\n"
    report = check_text(unnamed + named)
    assert (report.exit_code, report.questions) == (0, [])
    assert (2, "a matrix without a name") in report.passed_over
    assert "what is the 2×2 matrix" in check_text(unnamed).questions[0]
    lacking = check_text(unnamed + "A = [[0.3, 0.7]]\n")
    assert "what is the 2×2 matrix" in lacking.questions[0]
