"""One step of a trace as a block of matrices: its heads, its parts, and what it was made with."""

from __future__ import annotations

from dataclasses import replace

from regard._rules.general import Product, Summed
from regard._steps import Step, dimensions
from regard._trace import Trace
from regard.view.figures import largest
from regard.view.matrix import LONGEST_AXIS, Block, Matrix, beside, table

_MOST_HEADS = 4  # that are shown unless every one is asked for
_TALLEST = 8  # rows of a given matrix that stands beside the result


def step_block(
    trace: Trace,
    step: Step,
    width: int,
    *,
    head: int | None = None,
    marked: tuple[int, int] | None = None,
    everything: bool = False,
) -> Block:
    """The matrix of a step, or one a head, and the given matrix beside it where there is room.

    `marked` is a cell of the first matrix that is underlined.

    >>> from regard.worked import example
    >>> trace = example("cat").trace()
    >>> print(*step_block(trace, trace.steps["weights"], 80).lines, sep="\\n")
    A       The     cat     sat
    The  0.4223  0.1554  0.4223
    cat  0.1554  0.4223  0.4223
    sat  0.2119  0.2119  0.5761
    """
    limit = largest(step.array)
    corner, matrices, left_out = step.symbol, [], ""
    columns = step.axes[-1].labels
    if step.has_heads:
        heads = range(len(step.array)) if head is None else range(head, head + 1)
        if len(heads) > _MOST_HEADS and not everything:
            left_out = f"{_MOST_HEADS} of {len(heads)} heads"
            heads = heads[:_MOST_HEADS]
        for h in heads:
            mark = marked if h == heads[0] else None
            matrices.append(Matrix(step.axes[0].labels[h], columns, step.array[h], limit, mark))
    elif isinstance(step.rule, Summed):
        corner = ""
        for sign, name in zip(("", "+ "), step.rule.of, strict=True):
            matrices.append(Matrix(sign + name, columns, trace.matrices[name], limit))
        matrices.append(Matrix("= X", columns, step.array, limit, marked))
    elif step.name == "concatenated" and len(columns) <= LONGEST_AXIS:
        matrices = _by_head(step, limit)
    elif step.name == "concatenated":  # where the names of heads would be cut off
        columns = dimensions("c", len(columns)).labels
        matrices = [Matrix("", columns, step.array, limit, marked)]
    else:
        matrices = [Matrix("", columns, step.array, limit, marked)]
    if len(matrices) == 1:
        if len(all_heads(trace)) > 1 and matrices[0].title:
            corner += f", {matrices[0].title}"
        matrices = [replace(matrices[0], title="")]
    block = table(step.axes[-2].labels, matrices, width, corner=corner, everything=everything)
    given = _given(trace, step, width - block.width - 4, head)
    if given is not None:
        block = beside(block, given)
    elif (below := _given(trace, step, width, head)) is not None:
        block = replace(block, lines=[*block.lines, *below.lines])
    return replace(block, part=" and ".join(filter(None, (left_out, block.part))))


def all_heads(trace: Trace) -> tuple[str, ...]:
    """The labels of all heads, also of those that are known by their output only.

    >>> from regard.worked import example
    >>> all_heads(example("apple").trace())
    ('head 1', 'head 2, given')
    """
    step = trace.steps["head_output" if "head_output" in trace.steps else "weights"]
    return step.axes[0].labels


def chosen_cell(trace: Trace, step: Step) -> tuple[int, int]:
    """The cell (row, column) that stands for the others when one is worked out.

    >>> from regard.worked import example
    >>> trace = example("apple").trace()
    >>> chosen_cell(trace, trace.steps["scores"]), chosen_cell(trace, trace.steps["query"])
    ((1, 3), (1, 0))
    """
    n_rows, n_columns = step.array.shape[-2:]
    row = n_rows - 1 if trace.causal else min(1, n_rows - 1)  # the last row sees every column
    if step.axes[-1].name == "dimension":
        return row, 0
    return row, min(1, n_columns - 1) if trace.causal else n_columns - 1


def _by_head(step: Step, limit: float) -> list[Matrix]:
    """The concatenated heads taken apart again, to be shown side by side under their names."""
    labels = step.axes[-1].labels
    names = [label.rpartition(" ")[0] for label in labels]
    return [
        Matrix(
            name,
            tuple(labels[n].rpartition(" ")[2] for n in places),
            step.array[:, places[0] : places[-1] + 1],
            limit,
        )
        for name in dict.fromkeys(names)
        if (places := [n for n, own in enumerate(names) if own == name])
    ]


def _given(trace: Trace, step: Step, room: int, head: int | None) -> Block | None:
    """The matrix that the step was multiplied by, if it is small and there is room for it."""
    rule = step.rule
    if not isinstance(rule, Product):
        return None
    array = trace.matrices[rule.weight]
    if rule.left in trace.steps:
        rows = trace.steps[rule.left].axes[-1].labels
    else:
        rows = dimensions("y" if rule.left == "Y" else "d", array.shape[-2]).labels
    if step.has_heads:
        heads = range(len(array)) if head is None else range(head, head + 1)
        arrays = [array[h] for h in heads]
        titles = [step.axes[0].labels[h] for h in heads] if len(heads) > 1 else [""]
    else:
        arrays, titles = [array], [""]
    if len(rows) > _TALLEST or arrays[0].shape[1] > LONGEST_AXIS:
        return None
    columns = step.axes[-1].labels
    limit = largest(array)
    matrices = [Matrix(t, columns, a, limit) for t, a in zip(titles, arrays, strict=True)]
    block = table(rows, matrices, max(room, 1), corner=rule.weight)
    one_panel = len(block.lines) <= len(rows) + 2
    return block if one_panel and block.width <= room else None
