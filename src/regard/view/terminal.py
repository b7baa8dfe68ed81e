"""A trace in the terminal: its steps as lines of text, each with its formula and its meaning."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from regard._steps import STEPS, Step
from regard._trace import Trace
from regard.text import counted
from regard.view.labels import fit, most_cells
from regard.view.lines import INDENT, indented, paragraph
from regard.view.steps import all_heads, chosen_cell, step_block

_LONGEST = 1000  # cells of an explanation: its tokens may be of any length
_NO_SUCH_HEAD = "(This head is known by its output only.)"


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines as they are: neither wrapped nor cut.

    In a terminal, the cursor is set to its column after text whose width terminals disagree on, so
    that what follows is aligned in all of them.

    >>> print_lines([Text("A   love")], Console())
    A   love
    """
    moves = console.file.isatty() and not console.is_dumb_terminal
    printed: list[Segment] = []
    for line in lines:
        if console.color_system is None:
            line = Text(line.plain.rstrip())
        segments = Text.assemble(line).render(console)
        if console.color_system == "standard":  # sixteen colours make no scale
            segments = Segment.remove_color(segments)
        cells, doubtful = 0, False
        for segment in segments:
            if doubtful and moves:
                control = (ControlType.CURSOR_MOVE_TO_COLUMN, cells)
                printed.append(Segment(f"\x1b[{cells + 1}G", None, [control]))
            printed.append(segment)
            cells += segment.cell_length
            doubtful = doubtful or most_cells(segment.text) != segment.cell_length
        printed.append(Segment.line())
    console.print(Segments(printed), end="", crop=False)


def render(
    trace: Trace,
    width: int = 80,
    *,
    steps: Iterable[str] | None = None,
    head: int | None = None,
    everything: bool = False,
) -> list[Text]:
    """The trace as lines of at most `width` cells: what it is, then its steps (or those asked for).

    `head` is an index; None shows all heads. `everything` leaves nothing out of long axes.

    >>> from regard.worked import example
    >>> lines = render(example("apple").trace(), 80, steps=["scores"])
    >>> print(lines[-2].plain)
        phones    1.35  1.92   1.80    1.13
    """
    lines = _introduction(trace, width)
    for name in trace.steps if steps is None else steps:
        lines += [Text(), *_step(trace, trace.steps[name], width, head, everything)]
    return lines


def render_cells(
    trace: Trace, cells: Iterable[tuple[str, int, int]], width: int = 80, head: int | None = None
) -> list[Text]:
    """What the trace is, then how cells (step, row, column) of it came about, in every head.

    >>> from regard.worked import example
    >>> lines = render_cells(example("apple").trace(), [("scores", 1, 3)])
    >>> print(lines[-1])
        love → phones: 1.75 = 1.0·1.2 + 1.1·0.5
    """
    lines = _introduction(trace, width)
    for name, row, column in cells:
        step = trace.steps[name]
        lines += [Text(), *heading(step, width), *paragraph(step.meaning, width)]
        for h in range(len(step.array) if step.has_heads else 1) if head is None else (head,):
            if step.has_heads and h >= len(step.array):
                lines += paragraph(_NO_SUCH_HEAD, width, style="dim")
                continue
            prefix = f"{step.axes[0].labels[h]}: " if step.has_heads and len(step.array) > 1 else ""
            lines += paragraph(prefix + _explanation(trace, step, (row, column), h), width)
    return lines


def heading(step: Step, width: int) -> list[Text]:
    """The number of a step, its title, its formula, and the shape of its array if there is room.

    >>> from regard.worked import example
    >>> print(*heading(example("cat").trace().steps["scores"], 60))
     5  Scores   S = Q Kᵀ                                     3 × 3
    """
    number = list(STEPS).index(step.name) + 1
    line = Text.assemble((f"{number:2}  {step.title}", "bold"))
    if line.cell_len + 3 + cell_len(step.formula) > width:
        return [line, *paragraph(step.formula, width, style="italic")]
    line.append("   ").append(step.formula, "italic")
    shape = " × ".join(f"{length:,}" for length in step.array.shape[-2:])
    if step.has_heads and len(step.array) > 1:
        shape = f"{len(step.array)} heads · {shape}"
    room = width - line.cell_len
    if room > len(shape) + 2:
        line.append(shape.rjust(room), "dim")
    return [line]


def _introduction(trace: Trace, width: int) -> list[Text]:
    lines = [Text(fit(" ".join(trace.title.split()), width), "bold")] if trace.title else []
    lines += paragraph(trace.note, width, indent=0)
    sizes = [counted(len(trace.tokens), "token")]
    if "input" in trace.steps:
        sizes.append(f"d_model = {trace.steps['input'].array.shape[1]}")
    sizes.append(counted(len(all_heads(trace)), "head"))
    d_k = trace.steps["key"].array.shape[-1] if "key" in trace.steps else None
    if d_k is not None:
        sizes.append(f"dₖ = {d_k}")
    if trace.causal:
        sizes.append("causal: no token sees a later one")
    if trace.divisor == 1.0 and (d_k or 0) > 1:
        sizes.append("not scaled")
    return lines + paragraph(" · ".join(sizes), width, indent=0, style="dim")


def _step(trace: Trace, step: Step, width: int, head: int | None, everything: bool) -> list[Text]:
    lines = [*heading(step, width), *paragraph(step.meaning, width)]
    if head is not None and step.has_heads and head >= len(step.array):
        return [*lines, *paragraph(_NO_SUCH_HEAD, width, style="dim")]
    cell = chosen_cell(trace, step)
    # How the cell came about, where that is a calculation that fits two lines.
    example: list[Text] = []
    if trace.explain(step.name, *cell, head or 0).terms:
        several = step.has_heads and len(step.array) > 1
        start = f"e.g. {step.axes[0].labels[head or 0]}, " if several else "e.g. "
        example = paragraph(start + _explanation(trace, step, cell, head or 0), width)
        example = example if len(example) <= 2 else []
    block = step_block(
        trace,
        step,
        width - INDENT,
        head=head,
        marked=cell if example else None,
        everything=everything,
    )
    lines += indented(block.lines)
    if block.part:
        lines += paragraph(f"{block.part} shown; --all shows every one", width, style="dim")
    return lines + example


def _explanation(trace: Trace, step: Step, cell: tuple[int, int], head: int) -> str:
    row, column = (
        fit(axis.labels[place], 16) for axis, place in zip(step.axes[-2:], cell, strict=True)
    )
    between = " → " if step.axes[-1].name == "key token" else ", "
    return fit(f"{row}{between}{column}: {trace.explain(step.name, *cell, head)}", _LONGEST)
