"""A report of `check` in the terminal: what each matrix was taken for, and what is wrong."""

from __future__ import annotations

from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from regard.view.labels import fit, pad, visible
from regard.view.terminal import paragraph
from regard.worked._check import Report
from regard.worked.cell import Cell
from regard.worked.chain import sources
from regard.worked.names import KINDS, SYMBOLS
from regard.worked.verdict import Judged

_MOST_ROWS = 40
# Words say it, too; and these three can be told apart by those who see no red or green.
_WRONG, _INHERITED, _RIGHT = "bold red", "yellow", "cyan"


def render_report(report: Report, width: int = 80, *, everything: bool = False) -> list[Text]:
    """The report as lines of at most `width` cells.

    >>> from regard.worked import check_text
    >>> text = "Q = [[2, 3, 4, 1]]\\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\\nscores = [[6, 5]]"
    >>> print(*render_report(check_text(text)), sep="\\n")
    text: 1 of 2 checked numbers is wrong
    ...
    First causes
        line  cell          printed  right
           3  scores[1, 2]        5      4
    """
    lines = [_verdict(report, width), *_summary(report, width)]
    several = len(report.exercises) > 1
    for number, judged in enumerate(report.exercises, 1):
        if several:
            lines += [Text(), Text(f"Example {number} in this text", "bold")]
        lines += _matrices(judged, width)
        lines += _first_causes(judged, width, everything)
        lines += _inherited(judged, width, everything)
        lines += _claims(judged, width)
        for remark in judged.remarks:
            lines += [Text(), *paragraph(f"Remark: {remark.text}", width, indent=0)]
    for question in report.questions:
        lines += [Text(), *paragraph(f"Question: {question}", width, indent=0, style="bold")]
    return lines


def _verdict(report: Report, width: int) -> Text:
    wrong, checked = len(report.wrong) + report.wrong_claims, report.checked
    numbers = "number" if checked == 1 else "numbers"
    if wrong:
        verb = "is" if wrong == 1 else "are"
        text, style = f"{wrong} of {checked} checked {numbers} {verb} wrong", _WRONG
    elif report.questions:
        text, style = "not everything could be checked", "bold"
    else:
        verb = "is" if checked == 1 else "are"
        text = f"all {checked} checked {numbers} {verb} right, allowing for rounding"
        style = f"bold {_RIGHT}"
    return Text(_end_of(f"{report.source.name}: ", width - cell_len(text)) + text, style)


def _end_of(name: str, width: int) -> str:
    """The name of a file, cut on the left: its end tells more."""
    name = visible(name)
    if cell_len(name) <= width:
        return name
    while cell_len(name) > width - 1:
        name = name[1:]
    return "…" + name


def _summary(report: Report, width: int) -> list[Text]:
    """Where it began: `The first causes are in K (7) and V (6); 45 more numbers inherit them.`"""
    first: dict[str, int] = {}
    for cell in report.wrong:
        if cell.origin == "first":
            first[SYMBOLS[cell.kind]] = first.get(SYMBOLS[cell.kind], 0) + 1
    inherited = sum(cell.origin == "inherited" for cell in report.wrong)
    if not inherited:
        return []
    text = f"The first causes are in {_and([f'{name} ({n})' for name, n in first.items()])}; "
    rest = "1 more number inherits" if inherited == 1 else f"{inherited} more numbers inherit"
    return paragraph(text + f"{rest} them.", width, indent=0)


def _matrices(judged: Judged, width: int) -> list[Text]:
    if not judged.exercise.matrices:
        return []
    lines = [Text(), Text("What each matrix was taken to be", "bold")]
    matrices = sorted(
        judged.exercise.matrices.items(),
        key=lambda item: (KINDS.index(item[0][0]), item[0][1] or 0),
    )
    several = len(judged.exercise.heads) > 1
    names = [_name(kind, head, several) for (kind, head), _ in matrices]
    longest = max(map(cell_len, names), default=0)
    for name, (key, matrix) in zip(names, matrices, strict=True):
        shape = f"{matrix.shape[0]}×{matrix.shape[1]}"
        place = f"line {matrix.line:<4}" if matrix.line else "         "
        status, style = _status(judged, *key)
        line = Text(f"    {pad(name, longest)}  {shape:>7}  {place}  ")
        room = width - line.cell_len - cell_len(status) - 2
        if room < 8:  # too narrow for what the text calls it
            lines += [Text(fit(line.plain.rstrip(), width)), Text(f"      {status}", style)]
            continue
        called = visible(matrix.called)
        quoted = f"“{fit(called, room - 2)}”" if matrix.line else fit(called, room)
        line.append(pad(quoted, room), "dim").append("  ").append(status, style)
        lines.append(line)
        if matrix.reason:
            lines += paragraph(f"({matrix.reason})", width, indent=6, style="dim")
    return lines


def _and(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _name(kind: str, head: int | None, several: bool) -> str:
    return f"{SYMBOLS[kind]}, head {head}" if several and head is not None else SYMBOLS[kind]


def _status(judged: Judged, kind: str, head: int | None) -> tuple[str, str]:
    cells = [cell for cell in judged.wrong if (cell.kind, cell.head) == (kind, head)]
    first = sum(cell.origin == "first" for cell in cells)
    if not cells and (kind, head) in judged.unknown:
        return "not checked", "bold"
    if not cells:
        return ("given", "dim") if (kind, head) in judged.given else ("right", _RIGHT)
    inherited = len(cells) - first
    if not inherited:
        return f"{first} wrong", _WRONG
    if not first:
        return f"{inherited} inherited", _INHERITED
    return f"{first} wrong, {inherited} inherited", _WRONG


def _first_causes(judged: Judged, width: int, everything: bool) -> list[Text]:
    cells = [cell for cell in judged.wrong if cell.origin == "first"]
    if not cells:
        return []
    shown = cells if everything else cells[:_MOST_ROWS]
    several = len(judged.exercise.heads) > 1
    heads = [f", head {cell.head}" if several and cell.head is not None else "" for cell in shown]
    names = [fit(cell.name + head, 36) for cell, head in zip(shown, heads, strict=True)]
    longest = max(map(cell_len, names))
    printed = max(7, *(cell_len(cell.figure.text) for cell in shown))
    right = max(5, *(cell_len(cell.right_text) for cell in shown))
    lines = [Text(), Text("First causes", "bold")]
    title = f"    line  {pad('cell', longest)}  {'printed':>{printed}}  {'right':>{right}}"
    lines.append(Text(title, "dim"))
    for name, cell in zip(names, shown, strict=True):
        line = Text(f"    {cell.line:>4}  {pad(name, longest)}  ")
        line.append(cell.figure.text.rjust(printed), _WRONG).append("  ")
        line.append(cell.right_text.rjust(right), _RIGHT)
        why = _why(judged, cell)
        room = width - line.cell_len - 2
        if room >= 24 or cell_len(why) <= room:
            first, *rest = paragraph(why, room, indent=0) or [Text()]
            indent = line.cell_len + 2
            lines.append(line.append(f"  {first.plain}" if why else ""))
            lines += [Text(" " * indent + text.plain) for text in rest]
        else:
            lines += [line, *paragraph(why, width, indent=10)]
    return lines + _more(len(cells) - len(shown), width)


def _why(judged: Judged, cell: Cell) -> str:
    """The cause, or what the step gives from what is printed before it."""
    if cell.cause:
        return cell.cause
    before = sources(judged.exercise, cell.kind, cell.head)
    printed = [SYMBOLS[kind] for kind, head in before if judged.exercise.get(kind, head)]
    given = all(source in judged.given for source in before)
    if len(printed) != len(before) or given or cell.from_step:
        return ""
    return f"from {' and '.join(printed)} as printed: {cell.figure.like(cell.from_printed)}"


def _inherited(judged: Judged, width: int, everything: bool) -> list[Text]:
    cells = [cell for cell in judged.wrong if cell.origin == "inherited"]
    if not cells:
        return []
    lines = [Text(), Text("Inherited: these follow from what is printed before them", "bold")]
    several = len(judged.exercise.heads) > 1
    rows_shown = hidden = 0
    for (kind, head), group in groupby(cells, key=lambda cell: (cell.kind, cell.head)):
        causes = _and(judged.inherit_from(kind, head))
        lines += paragraph(f"{_name(kind, head, several)}, from {causes}", width, indent=4)
        for (line, label), row in groupby(group, key=lambda cell: (cell.line, cell.row_label)):
            changed = list(row)
            if rows_shown >= _MOST_ROWS and not everything:
                hidden += len(changed)
                continue
            rows_shown += 1
            pairs = [
                f"{visible(cell.column_label)} {cell.figure.text}→{cell.right_text}"
                for cell in changed
            ]
            lines += _wrapped(f"{line:>10}  {fit(label, 24)}: ", pairs, width)
    return lines + _more(hidden, width)


def _wrapped(start: str, pieces: list[str], width: int) -> list[Text]:
    """Pieces after a start, with a dot between two, broken between pieces only."""
    lines = [start]
    for number, piece in enumerate(pieces):
        piece = fit(piece, width - 12) + (" ·" if number < len(pieces) - 1 else "")
        if lines[-1].strip() and cell_len(lines[-1]) + cell_len(piece) > width:
            lines.append(" " * 12)
        lines[-1] += piece + " "
    return [Text(line.rstrip()) for line in lines]


def _more(hidden: int, width: int) -> list[Text]:
    if not hidden:
        return []
    return paragraph(f"… and {hidden} more; --all shows every one", width, style="dim")


def _claims(judged: Judged, width: int) -> list[Text]:
    wrong = [claim for claim in judged.claims if not claim.is_right]
    if not wrong:
        return []
    lines = [Text(), Text("What the text says, and is not so", "bold")]
    for claim in wrong:
        text = f"line {claim.line}: {claim.about} is {claim.right}, not {claim.printed}"
        lines += paragraph(text, width)
    return lines
