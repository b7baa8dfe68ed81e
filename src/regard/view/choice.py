"""What a reader asks for by name: a step of a trace, or a cell of it."""

from __future__ import annotations

import contextlib
import re

from regard._steps import STEPS, Axis, find_label
from regard._trace import Trace

_SEPARATORS = ",: "


def find_step(name: str, trace: Trace) -> str:
    """The step of that number (1 to 10), name, title or symbol, or whose name begins so.

    Raises KeyError, with the steps to choose from, if there is none or more than one.

    >>> from regard.worked import example
    >>> trace = example("apple").trace()
    >>> [find_step(name, trace) for name in ("7", "weights", "A", "s'", "head o")]
    ['weights', 'weights', 'weights', 'scaled', 'head_output']
    """
    wanted = name.strip().casefold().replace("'", "′").replace(" ", "_")
    numbers = {str(number): step for number, step in enumerate(STEPS, 1)}
    symbols = {kind.symbol.casefold(): step for step, kind in STEPS.items()}
    titles = {kind.title.casefold().replace(" ", "_"): step for step, kind in STEPS.items()}
    named = numbers | symbols | titles | {step: step for step in STEPS}
    found = {named[wanted]} if wanted in named else set[str]()
    if not found and wanted:
        found = {step for label, step in named.items() if label.startswith(wanted)}
    if len(found) == 1 and (step := found.pop()) in trace.steps:
        return step
    choices = ", ".join(
        f"{number} {step} ({STEPS[step].symbol})"
        for number, step in enumerate(STEPS, 1)
        if step in trace.steps
    )
    if found:
        problem = f"{name!r} may be {' or '.join(sorted(found))}"
    else:
        problem = f"there is no step {name!r} here"
    raise KeyError(f"{problem}. The steps: {choices}.")


def find_cells(cell: str, trace: Trace, step: str | None = None) -> list[tuple[str, int, int]]:
    """Every (step, row, column) that the cell may mean; of one step only, if it is given.

    A cell is the label of a row and of a column with a comma, a colon or a blank between them. What
    may be read in two ways is divided where both halves are labels: `,,love` is row `,`, column
    `love`. Raises KeyError if it fits no step.

    >>> from regard.worked import example
    >>> find_cells("love,phones", example("apple").trace())
    [('scores', 1, 3), ('scaled', 1, 3), ('weights', 1, 3)]
    >>> find_cells("love q2", example("apple").trace())
    [('query', 1, 1)]
    """
    found: list[tuple[str, int, int]] = []
    for name in trace.steps if step is None else [step]:
        with contextlib.suppress(KeyError):
            found.append((name, *_divide(cell, *trace.steps[name].axes[-2:])))
    if not found:  # say what is wrong with it as a cell of the weights, which every trace has
        _divide(cell, *trace.steps[step or "weights"].axes[-2:])
    return found


def _divide(cell: str, rows: Axis, columns: Axis) -> tuple[int, int]:
    """The indices of a row and a column, from the first division that gives two labels."""
    problem: KeyError | None = None
    for separator in _SEPARATORS:
        for match in re.finditer(separator, cell):
            row, column = cell[: match.start()].strip(), cell[match.end() :].strip()
            if row and column:
                try:
                    return find_label(row, rows), find_label(column, columns)
                except KeyError as error:
                    problem = problem or error
    raise problem or KeyError(f"a cell is a row and a column, as in love,phones; got {cell!r}.")
