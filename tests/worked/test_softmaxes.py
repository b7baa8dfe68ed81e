"""A softmax is checked by where it stands, in each form in which people write it."""

from __future__ import annotations

import pytest

from regard.worked import check_text

# Each with the softmax of 2, 1 and 0 to be filled in: 0.67, 0.24, 0.09.
FORMS = {
    "an arrow": "[2.0, 1.0, 0.0] → softmax → [{}, {}, {}]\n",
    "a call and an arrow": "Softmax([2.0, 1.0, 0.0]) → [{}, {}, {}]\n",
    "a list": """\
score("sky" → "the") = 2.0
score("sky" → "blue") = 1.0
score("sky" → "sky") = 0.0

After softmax:

weight("the") = {}
weight("blue") = {}
weight("sky") = {}
""",
    "spans": """\
<p>Scores for "sky":</p>
<div><span>the:</span> <span>2.0 (high)</span></div>
<div><span>blue:</span> <span>1.0</span></div>
<div><span>sky:</span> <span>0.0</span></div>
<p>After softmax:</p>
<span>the: {}</span>
<span>blue: {}</span>
<span>sky: {}</span>
""",
    "a box": """\
```
│  Scores for "sky":                     │
│    score(sky, the) = q · k1 = 2.0      │
│    score(sky, blue) = q · k2 = 1.0     │
│    score(sky, sky) = q · k3 = 0.0      │
│                                        │
│  After softmax: [{}, {}, {}]           │
```
""",
    "down the page": """\
```
Logits (any unit):  [2.0, 1.0, 0.0]
    ↓
Softmax transformation
    ↓
Probabilities:      [{}, {}, {}]
```
""",
    "remarks beside the rows": """\
scaled scores = [[2.0, 1.0, 0.0],   ← the sky at 0
                 [0.0, 0.0, 0.0]]   ← nothing in particular

Softmax → [[{}, {}, {}],     # position 0 looks at 0 and 1
           [0.33, 0.33, 0.33]]     # position 1 at all

× V → the output
""",
    "two tables": """\
Attention scores (scaled):
           the     blue    sky
  sky      2.0     1.0     0.0
  sea      0.0     0.0     0.0

Attention weights (after softmax):
           the     blue    sky
  sky      {}      {}      {}     ← mostly “the”
  sea      0.33    0.33    0.33   ← all alike
""",
    "a table with remarks": """\
Scaled scores:

| word | score |
|---|---|
| the | 2.0 |
| blue | 1.0 |
| sky | 0.0 |

After softmax:

| word | weight |
|---|---|
| the | **{}** (strong) |
| blue | {} (some) |
| sky | {} (little) |
""",
}
RIGHT, WRONG = ("0.67", "0.24", "0.09"), ("0.60", "0.30", "0.10")
in_every_form = pytest.mark.parametrize("form", FORMS)


def checked(form: str, numbers: tuple[str, ...]) -> list[tuple[str, str]]:
    name = "page.html" if form == "spans" else "notes.md"
    report = check_text(FORMS[form].format(*numbers), name)
    assert report.checked >= 3
    return [(cell.figure.text, cell.right_text) for cell in report.wrong]


@in_every_form
def test_a_right_softmax_is_right(form: str) -> None:
    assert checked(form, RIGHT) == []


@in_every_form
def test_a_softmax_by_no_divisor_at_all_is_wrong(form: str) -> None:
    assert ("0.30", "0.24") in checked(form, WRONG)


@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"a call and an arrow", "an arrow"}))
def test_scores_may_have_been_divided_by_the_root_of_a_number_that_nobody_tells(form: str) -> None:
    text = FORMS[form].replace("scaled", "raw").replace("Scaled", "Raw")
    text = text.format("0.51", "0.31", "0.19")  # divided by 2
    report = check_text(text, "page.html" if form == "spans" else "notes.md")
    assert report.wrong == []


@pytest.mark.parametrize(
    "text",
    [
        # Another temperature, which sharpens.
        "scores = [2.0, 1.0, 0.0]\nAt a low temperature, softmax:\nweights = [0.98, 0.02, 0.00]\n",
        # Scores and weights of different sections.
        "scores = [2.0, 1.0, 0.0]\n\n## Heads\n\nThe softmax gives\n\nweights = [0.1, 0.2, 0.7]\n",
        # Of as many words, but no softmax of them.
        "x = [2.0, 1.0, 0.0]\nLater on, the words of the answer have the shares\n[0.1, 0.2, 0.7]\n",
        # Masked: what is 0 was not to be seen.
        "scores = [2.0, 1.0, 0.0]\nWith a mask the softmax gives\nweights = [1.0, 0.0, 0.0]\n",
        # What a softmax is taken of, set behind the word.
        "3. Softmax\n   [0.71, 0.71] has equal values, so the softmax is [0.5, 0.5].\n",
    ],
)
def test_what_may_be_something_else_is_not_accused(text: str) -> None:
    assert check_text(text, "notes.md").wrong == []


def test_a_written_equation_says_what_its_softmax_is_of() -> None:
    report = check_text("probs = softmax([1.2, 3.5, 0.8]) = [0.14, 0.75, 0.10]\n")
    assert [cell.right_text for cell in report.wrong] == ["0.09", "0.86", "0.06"]
    # Far from 1 in sum, which no softmax is.
    report = check_text("softmax([0.6, 1.75, 0.4]) = [0.24, 0.41, 0.20]\n")
    assert [cell.right_text for cell in report.wrong] == ["0.20", "0.63", "0.16"]


def test_a_result_that_follows_from_the_factors_beside_it_is_not_accused() -> None:
    text = """\
weights = [0.5, 0.5]
V = [[1.0, 2.0], [3.0, 4.0]]
output = 0.4 * [1.0, 2.0] + 0.6 * [3.0, 4.0] = [2.2, 3.2]
"""
    assert check_text(text).wrong == []


def test_a_large_number_in_words_is_no_result() -> None:
    assert check_text("一个矩阵有 10,000×10,000 = 1 亿个元素。\n").wrong == []
    assert check_text("QKᵀ 需要 2,000×2,000 = 400万次乘法。\n").wrong == []


def test_a_name_in_brackets_counts_before_the_words_around_it() -> None:
    text = "LayerNorm\n\nIt mixes its own mean meaning（value₁ = (1,2)） with（value₂ = (3,4)）\n"
    assert check_text(text).wrong == []
