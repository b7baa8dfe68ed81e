"""`check` in every format: a right example is never called wrong, a wrong cell is always found."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from helpers.soak import times
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.worked import check_text, fix_text
from regard.worked.judged import Cell
from worked.forms import FORMATS
from worked.printing import STEPS, Printed, examples, reach

KINDS = {"X": "input", "X_dec": "input", "X_enc": "context"}
EVERY_KIND = ("self", "causal", "cross")
# The formats are many, and what is written in them is of the same kind: some hundreds in all.
in_every_format = settings(max_examples=times(20))


def read(example: Printed, form: str, name: str = ""):
    write, file_name = FORMATS[form]
    return check_text(write(example), name or file_name)


@pytest.mark.parametrize("form", FORMATS)
@given(example=examples(kinds=EVERY_KIND))
@in_every_format
def test_a_right_example_is_taken_for_what_it_is_and_never_called_wrong(
    form: str, example: Printed
) -> None:
    report = read(example, form)
    assert [cell.name for cell in report.wrong] == []
    assert report.exit_code == 0
    assert report.questions == []
    (judged,) = report.exercises
    matrices = {kind: matrix for (kind, _), matrix in judged.exercise.matrices.items()}
    assert set(matrices) == {KINDS.get(name, name) for name in example.matrices}
    for name, rows in example.matrices.items():
        printed = np.array([[float(text) for text in row] for row in rows])
        np.testing.assert_array_equal(matrices[KINDS.get(name, name)].values, printed)


@pytest.mark.parametrize("form", FORMATS)
@given(example=examples(kinds=EVERY_KIND), data=st.data())
@in_every_format
def test_a_cell_moved_outside_its_reach_is_always_found(
    form: str, example: Printed, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(example.steps)))
    rows = example.steps[name]
    low, high = reach(example, name)
    i, j = data.draw(st.sampled_from([tuple(cell) for cell in np.argwhere(np.isfinite(low))]))
    unit = 10.0 ** -example.digits[name]
    steps = data.draw(st.integers(2, 50))  # one may be a tie, when it is rounded
    moved = high[i, j] + steps * unit if data.draw(st.booleans()) else low[i, j] - steps * unit
    rows[i][j] = f"{moved:.{example.digits[name]}f}"
    # NumPy leaves a zero at the end out, and 0.9 may be 0.93.
    assume(form != "numpy prints" or not rows[i][j].endswith("0"))
    report = read(example, form)
    found = {(cell.kind, cell.row, cell.column) for cell in report.wrong}
    assert (name, i, j) in found
    assert report.exit_code == 1
    # Nothing that stands before the moved cell is called wrong.
    assert all(STEPS.index(kind) >= STEPS.index(name) for kind, _, _ in found)


# Where the factors are written out again, a wrong one stays wrong there.
@pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"chains"}))
@given(example=examples(kinds=EVERY_KIND), data=st.data())
@in_every_format
def test_after_fix_nothing_is_wrong_and_only_numbers_have_changed(
    form: str, example: Printed, data: st.DataObject
) -> None:
    touched: Counter[str] = Counter()
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(example.steps)))
        rows = example.steps[name]
        i = data.draw(st.integers(0, len(rows) - 1))
        j = data.draw(st.integers(0, len(rows[0]) - 1))
        moved = float(rows[i][j]) + data.draw(st.integers(-99, 99)) / 100
        rows[i][j] = f"{moved:.{example.digits[name]}f}"
        touched[name] += 1
    # In a notebook a step of which most is wrong may be another of that name: it is left alone.
    sizes = {name: len(rows) * len(rows[0]) for name, rows in example.steps.items()}
    assume(form != "notebook" or all(2 * n <= sizes[name] for name, n in touched.items()))
    report = read(example, form)
    fixed = fix_text(report)
    after = check_text(fixed, report.source.name)
    assert after.exit_code == 0
    number = r"\s*[-+]?\d+\.\d*"
    assert re.sub(number, "#", fixed) == re.sub(number, "#", report.source.text)
    if form != "numpy prints":  # which leaves zeros out
        assert digits_of(fixed) == digits_of(report.source.text)
    if report.exit_code == 0:
        assert fixed == report.source.text


def digits_of(text: str) -> list[int]:
    return [len(digits) for digits in re.findall(r"\d\.(\d+)", text)]


@given(example=examples(all_steps=True), data=st.data())
@settings(max_examples=50)
def test_the_first_cause_is_where_the_mistake_was_made(
    example: Printed, data: st.DataObject
) -> None:
    """A key is copied wrongly, and everything after it computed rightly from what is printed."""
    from worked.printing import compute, rounded, values

    name = data.draw(st.sampled_from(["query", "key", "value"]))
    given_values = {m: values(rows) for m, rows in example.given.items()}
    i = data.draw(st.integers(0, len(example.steps[name]) - 1))
    j = data.draw(st.integers(0, len(example.steps[name][0]) - 1))

    def carry(step: str, array: np.ndarray) -> np.ndarray:
        array = values(rounded(array, example.digits[step]))
        if step == name:
            array[i, j] += 2.0
        return array

    exact = compute(given_values, np.sqrt(example.d_k), carry)
    example.steps = {step: rounded(exact[step], example.digits[step]) for step in STEPS}
    example.steps[name][i][j] = f"{float(example.steps[name][i][j]) + 2.0:.{example.digits[name]}f}"
    report = read(example, "tabs")
    first = [cell for cell in report.wrong if cell.origin == "first"]
    assert [(cell.kind, cell.row, cell.column) for cell in first] == [(name, i, j)]
    assert all(is_made_of(cell, name, i, j) for cell in report.wrong)


def is_made_of(cell: Cell, name: str, i: int, j: int) -> bool:
    if cell.kind in ("query", "key", "value"):
        return (cell.kind, cell.row, cell.column) == (name, i, j)
    if name == "query":
        return cell.row == i
    if name == "value":
        return cell.kind == "head_output" and cell.column == j
    return True
