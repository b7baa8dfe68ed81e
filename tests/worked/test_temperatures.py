"""Distributions at several temperatures, as lists and tables: right, and with a cell moved."""

from __future__ import annotations

import numpy as np
import pytest

from regard.worked import check_text

LOGITS = np.array([3.0, 1.0, 0.2])


def at(temperature: float) -> list[str]:
    powers = np.exp(LOGITS / temperature)
    return [f"{share:.3f}" for share in powers / powers.sum()]


FORMS = {
    "a list": """\
logits = [3.0, 1.0, 0.2]
T=0.5: [{0}]
T=2: [{1}]
T=5.0: [{2}]
""",
    "comments": """\
```python
logits = np.array([3.0, 1.0, 0.2])
for T in (0.5, 2, 5):
    print(T, softmax(logits / T))
# T = 0.5: [{0}]   sharp
# T = 2: [{1}]   flat
# T = 5: [{2}]   flatter
```
""",
    "words": """\
The logits are z = [3.0, 1.0, 0.2].

- At a temperature of 0.5: [{0}]
- At a temperature of 2: [{1}]
- At a temperature of 5: [{2}]
""",
    "a table of rows": """\
Logits: [3.0, 1.0, 0.2]

| Temperature | cat | dog | cow | entropy |
|---|---|---|---|---|
| 0.5 | {0} | 0.14 |
| 2.0 | {1} | 0.92 |
| 5.0 | {2} | 1.06 |
""",
    "a table of columns": """\
| Token | Logit | T=0.5 | T=2 | T=5 |
|---|---|---|---|---|
| cat | 3.0 | {a} |
| dog | 1.0 | {b} |
| cow | 0.2 | {c} |
""",
}


def written(form: str, rows: list[list[str]]) -> str:
    between = " | " if "table" in form else ", "
    columns = dict(zip("abc", (between.join(c) for c in zip(*rows, strict=True)), strict=True))
    return FORMS[form].format(*map(between.join, rows), **columns)


@pytest.mark.parametrize("form", FORMS)
def test_distributions_at_their_temperatures_are_right(form: str) -> None:
    report = check_text(written(form, [at(0.5), at(2), at(5)]), "a.md")
    assert not report.wrong
    assert sum(equation.checked for equation in report.equations) >= 9


@pytest.mark.parametrize("form", FORMS)
def test_a_share_that_is_moved_is_found_at_its_temperature(form: str) -> None:
    rows = [at(0.5), at(2), at(5)]
    right, rows[1][1] = rows[1][1], "0.207"
    report = check_text(written(form, rows), "a.md")
    assert [(cell.figure.text, cell.right_text) for cell in report.wrong] == [("0.207", right)]


def test_shares_in_another_order_than_the_logits_are_of_something_else() -> None:
    text = written("a list", [at(0.5)[::-1], at(2)[::-1], at(5)[::-1]])
    assert not check_text(text, "a.md").wrong
