"""Several heads in every form: right ones are never called wrong, a moved cell is always found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from helpers.soak import times
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.worked import check_text
from worked.forms import FORMATS
from worked.printing import (
    CAUSAL,
    Ends,
    Pick,
    Printed,
    Rows,
    carried,
    compute,
    made_up,
    product,
    reach,
    rounded,
    some_numbers,
    values,
)

# In files of keys a head is part of the key; a notebook is written cell by cell.
FORMS = sorted(
    FORMATS.keys() - {"toml", "json", "notebook", "rows by symbol", "vectors in a table"}
)
in_every_form = settings(max_examples=times(6))


@dataclass
class Heads:
    """Heads over the same X, and what they give together."""

    heads: list[Printed]
    last: Printed  # with their outputs side by side, W_O and the output

    def printed(self, form: str) -> str:
        write, _ = FORMATS[form]
        first = self.heads[0]
        parts = [f"{CAUSAL}\n"] if first.causal else []
        parts.append(write(first.part("X")))
        for number, head in enumerate(self.heads, 1):
            parts += [f"## Head {number}\n", write(head.part(*(head.matrices.keys() - {"X"})))]
        return "\n".join([*parts, "## All heads\n", write(self.last)])

    def reach(self, name: str) -> Ends:
        """The ends of what each cell of their outputs side by side, or of the output, may be."""
        ends = [carried(head, "head_output", reach(head, "head_output")) for head in self.heads]
        low, high = np.hstack([e[0] for e in ends]), np.hstack([e[1] for e in ends])
        if name == "concatenated":
            return low, high
        w = values(self.last.given["W_O"])
        return product(carried(self.last, "concatenated", (low, high)), (w, w))

    def steps(self) -> dict[tuple[str, int | None], tuple[Rows, int, Ends]]:
        """Each computed matrix with its digits and what it may be."""
        found: dict[tuple[str, int | None], tuple[Rows, int, Ends]] = {}
        for number, head in enumerate(self.heads, 1):
            for name, rows in head.steps.items():
                found[name, number] = rows, head.digits[name], reach(head, name)
        for name, rows in self.last.steps.items():
            found[name, None] = rows, self.last.digits[name], self.reach(name)
        return found


def several(pick: Pick) -> Heads:
    heads = [made_up(pick, kinds=("self", "causal"))]
    kind = "causal" if heads[0].causal else "self"
    heads += [made_up(pick, kinds=(kind,), beside=heads[0]) for _ in range(pick([1, 2]))]

    def carry(example: Printed, name: str, array: np.ndarray) -> np.ndarray:
        if name not in example.steps or not example.carried[name]:
            return array
        return values(rounded(array, example.digits[name]))

    outputs = []
    for head in heads:
        given = {name: values(rows) for name, rows in head.given.items()}
        exact = compute(given, np.sqrt(head.d_k), partial(carry, head), causal=head.causal)
        outputs.append(carry(head, "head_output", exact["head_output"]))
    side = np.hstack(outputs)
    digits = {name: pick([2, 3]) for name in ("concatenated", "output")}
    projection = some_numbers(pick, side.shape[1], 2)
    steps = {"concatenated": rounded(side, digits["concatenated"])} if pick([True, False]) else {}
    is_carried = bool(steps) and pick([True, False])
    before = values(steps["concatenated"]) if is_carried else side
    steps["output"] = rounded(before @ projection, digits["output"])
    given = {"W_O": rounded(projection, 1)}
    return Heads(heads, Printed(heads[0].tokens, given, steps, digits))


@st.composite
def several_heads(draw: st.DrawFn) -> Heads:
    return several(lambda some: draw(st.sampled_from(some)))


@pytest.mark.parametrize("form", FORMS)
@given(heads=several_heads())
@in_every_form
def test_right_heads_are_taken_for_what_they_are(form: str, heads: Heads) -> None:
    report = check_text(heads.printed(form), FORMATS[form][1])
    assert [cell.name for cell in report.wrong] == []
    assert report.questions == []
    (judged,) = report.exercises
    assert judged.exact.keys() >= heads.steps().keys()


@pytest.mark.parametrize("form", FORMS)
@given(heads=several_heads(), data=st.data())
@in_every_form
def test_a_cell_of_a_head_moved_outside_its_reach_is_found(
    form: str, heads: Heads, data: st.DataObject
) -> None:
    steps = heads.steps()
    kind, head = data.draw(st.sampled_from(sorted(steps, key=str)))
    rows, digits, (low, high) = steps[kind, head]
    i, j = data.draw(st.sampled_from([tuple(cell) for cell in np.argwhere(np.isfinite(low))]))
    by = data.draw(st.integers(2, 50)) * 10.0**-digits
    moved = high[i, j] + by if data.draw(st.booleans()) else low[i, j] - by
    rows[i][j] = f"{moved:.{digits}f}"
    assume(form != "numpy prints" or not rows[i][j].endswith("0"))
    report = check_text(heads.printed(form), FORMATS[form][1])
    assert (kind, head, i, j) in {(c.kind, c.head, c.row, c.column) for c in report.wrong}
