"""A report of `check` in the terminal: what each matrix was taken for, and what is wrong."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from regard.text import counted
from regard.view.labels import fit, pad, visible
from regard.view.lines import aligned, paragraph
from regard.worked._check import Report
from regard.worked.judged import Cell, Judged
from regard.worked.parts import sources
from regard.written.found import Claim
from regard.written.names import KINDS, SYMBOLS

_MOST_ROWS = 40
# Words say it, too; and these three can be told apart by those who see no red or green.
_WRONG, _INHERITED, _RIGHT = "bold red", "yellow", "cyan"


def render_report(report: Report, width: int = 80, *, everything: bool = False) -> list[Text]:
    """The report as lines of at most `width` cells.

    >>> from regard.worked import check_text
    >>> text = "Q = [[2, 3, 4, 1]]\\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\\nscores = [[6, 5]]"
    >>> print(*render_report(check_text(text)), sep="\\n")
    text: 1 of 2 checked numbers is wrong
    2 numbers in 1 statement checked
    ...
    First causes
        line  cell          printed  right
           3  scores[1, 2]        5      4
    """
    lines = _verdict(report, width) + _coverage(report, width)
    most = None if everything else _MOST_ROWS
    for number, judged in enumerate(report.exercises, 1):
        if len(report.exercises) > 1:
            lines += [Text(), Text(f"Example {number} in this text", "bold")]
        lines += _matrices(judged, width)
        lines += _first_causes(judged, width, most)
        lines += _inherited(judged, width, most)
        lines += _claims([claim for claim in judged.claims if not claim.is_right], width)
        for remark in judged.remarks:
            lines += [Text(), *paragraph(f"Remark: {remark}", width, indent=0)]
    lines += _outside(report, width, most)
    for remark in report.remarks:
        lines += [Text(), *paragraph(f"Remark: {remark}", width, indent=0)]
    for question in report.questions[:most]:
        lines += [Text(), *paragraph(f"Question: {question}", width, indent=0, style="bold")]
    return lines


def _verdict(report: Report, width: int) -> list[Text]:
    """How much is wrong; and where it began: `The first causes are in K (7) and V (6); …`."""
    wrong = len(report.wrong) + report.wrong_claims
    kind = "number" if report.checked > report.wrong_claims else "claim"
    checked = counted(report.checked, f"checked {kind}")
    if wrong:
        text, style = f"{wrong} of {checked} {'is' if wrong == 1 else 'are'} wrong", _WRONG
    elif report.questions:
        text, style = "not everything could be checked", "bold"
    else:
        verb = "is" if report.checked == 1 else "are"
        text = f"all {checked} {verb} right, allowing for rounding"
        style = f"bold {_RIGHT}"
    name = visible(f"{report.source.name}: ")
    room = width - cell_len(text)
    if cell_len(name) > room:  # its end tells more
        while name and cell_len(name) > room - 1:
            name = name[1:]
        name = f"…{name}" if name else ""
    lines = [Text(fit(name + text, width), style)]
    first = Counter(cell.symbol for cell in report.wrong if cell.origin == "first")
    inherited = sum(cell.origin == "inherited" for cell in report.wrong)
    if inherited:
        rest = "1 more number inherits" if inherited == 1 else f"{inherited} more numbers inherit"
        causes = _and([f"{name} ({n})" for name, n in first.items()])
        text = f"The first causes are in {causes}; {rest} them."
        lines += paragraph(text, width, indent=0)
    return lines


def render_summary(reports: list[Report | str], width: int = 80) -> list[Text]:
    """One line a document: its verdict, what is wrong in it, and how much was checked.

    What could not be read at all is given as the sentence that says why.
    """
    rows: list[tuple[str, str, str, str]] = []
    for report in reports:
        if isinstance(report, str):
            rows.append((report, "not read", _WRONG, ""))
            continue
        wrong = len(report.wrong) + report.wrong_claims
        verdict = f"{wrong} wrong" if wrong else "right" if report.checked else "nothing to check"
        first = sorted({cell.line for cell in report.wrong if cell.origin == "first"})
        where = f"line {first[0]}{', …' if len(first) > 1 else ''}" if first else ""
        numbers = f"{counted(report.checked, 'number')} checked"
        style = _WRONG if wrong else _RIGHT if report.checked else "dim"
        rows.append((visible(report.source.name), verdict, style, f"{numbers}  {where}".rstrip()))
    room = max(16, width - 40)
    names = aligned(fit(name, room) for name, *_ in rows)
    lines: list[Text] = []
    for name, (_, verdict, style, rest) in zip(names, rows, strict=True):
        line = Text(f"{name}  ").append(verdict.ljust(16), style).append(f"  {rest}", "dim")
        lines.append(Text(fit(line.plain, width)) if line.cell_len > width else line)
    return lines


def _coverage(report: Report, width: int) -> list[Text]:
    """`41 numbers in 12 statements checked; 3 statements not understood (lines 4, 17, 20)`."""
    checked = f"{counted(report.checked, 'number')} in {counted(report.statements, 'statement')}"
    text = f"{checked} checked"
    if report.passed_over:
        lines = sorted({line for line, _ in report.passed_over})
        shown = ", ".join(map(str, lines[:12])) + (", …" if len(lines) > 12 else "")
        where = f"line{'s' if len(lines) > 1 else ''} {shown}"
        text += f"; {counted(len(report.passed_over), 'statement')} not understood ({where})"
    return paragraph(text, width, indent=0, style="dim")


def _claims(claims: list[Claim], width: int) -> list[Text]:
    lines = [Text(), Text("What the text says, and is not so", "bold")] if claims else []
    for claim in claims:
        text = f"line {claim.line}: {claim.about} is {claim.right}, not {claim.printed}"
        lines += paragraph(text, width)
    return lines


def _outside(report: Report, width: int, most: int | None) -> list[Text]:
    """What is wrong outside the exercises: equations by themselves, and claims."""
    cells = report.equation_cells[:most]
    lines = [Text(), Text("Equations that do not hold", "bold")] if cells else []
    for cell in cells:
        what = f"line {cell.line}: {cell.right_text}, not {cell.figure.text}"
        lines += paragraph(f"{what}, in {visible(cell.name)} ({cell.cause})", width)
    lines += _more(len(report.equation_cells) - len(cells), width)
    return lines + _claims(report.claims, width)


def _matrices(judged: Judged, width: int) -> list[Text]:
    if not judged.exercise.matrices:
        return []
    lines = [Text(), Text("What each matrix was taken to be", "bold")]
    matrices = sorted(
        judged.exercise.matrices.items(),
        key=lambda item: (KINDS.index(item[0][0]), item[0][1] or 0),
    )
    names = aligned(SYMBOLS[kind] + _of_head(judged, head) for (kind, head), _ in matrices)
    for name, (key, matrix) in zip(names, matrices, strict=True):
        shape = f"{matrix.shape[0]}×{matrix.shape[1]}"
        place = f"line {matrix.line:<4}" if matrix.line else ""
        status, style = _status(judged, *key)
        line = Text(f"    {name}  {shape:>7}  {place:<9}  ")
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


def _status(judged: Judged, kind: str, head: int | None) -> tuple[str, str]:
    cells = [cell for cell in judged.wrong if (cell.kind, cell.head) == (kind, head)]
    if not cells:
        if (kind, head) in judged.unknown:
            return "not checked", "bold"
        return ("given", "dim") if (kind, head) in judged.given else ("right", _RIGHT)
    first = sum(cell.origin == "first" for cell in cells)
    counts = {"wrong": first, "inherited": len(cells) - first}
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return text, _WRONG if first else _INHERITED


def _first_causes(judged: Judged, width: int, most: int | None) -> list[Text]:
    cells = [cell for cell in judged.wrong if cell.origin == "first"]
    if not cells:
        return []
    shown = cells[:most]
    names = [fit(cell.name + _of_head(judged, cell.head), 36) for cell in shown]
    column, *names = aligned(["cell", *names])
    printed = max(7, *(cell_len(cell.figure.text) for cell in shown))
    right = max(5, *(cell_len(cell.right_text) for cell in shown))
    title = f"    line  {column}  {'printed':>{printed}}  {'right':>{right}}"
    lines = [Text(), Text("First causes", "bold"), Text(title, "dim")]
    for name, cell in zip(names, shown, strict=True):
        line = Text(f"    {cell.line:>4}  {name}  ")
        line.append(cell.figure.text.rjust(printed), _WRONG).append("  ")
        line.append(cell.right_text.rjust(right), _RIGHT)
        why, indent = _why(judged, cell), line.cell_len + 2
        if width - indent >= 24 or cell_len(why) <= width - indent:
            beside = paragraph(why, width, indent=indent)
            line.append(beside[0].plain[indent - 2 :] if beside else "")
            lines += [line, *beside[1:]]
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


def _inherited(judged: Judged, width: int, most: int | None) -> list[Text]:
    cells = [cell for cell in judged.wrong if cell.origin == "inherited"]
    if not cells:
        return []
    lines = [Text(), Text("Inherited: these follow from what is printed before them", "bold")]
    rows_shown = hidden = 0
    for (kind, head), group in groupby(cells, key=lambda cell: (cell.kind, cell.head)):
        causes = _and(judged.inherit_from(kind, head))
        lines += paragraph(f"{SYMBOLS[kind]}{_of_head(judged, head)}, from {causes}", width)
        for (line, label), row in groupby(group, key=lambda cell: (cell.line, cell.row_label)):
            changed = list(row)
            if rows_shown == most:
                hidden += len(changed)
                continue
            rows_shown += 1
            # Pieces after a start, with a dot between two, broken between pieces only.
            texts = [f"{line:>10}  {fit(label, 24)}: "]
            for cell in changed:
                piece = f"{visible(cell.column_label)} {cell.figure.text}→{cell.right_text}"
                piece = fit(piece, width - 12) + ("" if cell is changed[-1] else " ·")
                if texts[-1].strip() and cell_len(texts[-1] + piece) > width:
                    texts.append(" " * 12)
                texts[-1] += piece + " "
            lines += [Text(text.rstrip()) for text in texts]
    return lines + _more(hidden, width)


def _of_head(judged: Judged, head: int | None) -> str:
    return f", head {head}" if head is not None and len(judged.exercise.heads) > 1 else ""


def _and(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _more(hidden: int, width: int) -> list[Text]:
    if not hidden:
        return []
    return paragraph(f"… and {hidden} more; --all shows every one", width, style="dim")
