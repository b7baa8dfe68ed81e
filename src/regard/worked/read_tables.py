"""Tables in a text: Markdown's with pipes, tab-separated, comma-separated, and plain columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from regard.worked.blocks import Block
from regard.worked.figures import Figure, as_number, read_figure
from regard.worked.names import name_of
from regard.worked.source import Source, Unreadable, numbers
from regard.worked.words import is_sum

__all__ = ["figure_at", "read_tables", "read_tabular", "read_vector"]


@dataclass(frozen=True)
class _Cell:
    text: str
    start: int

    @property
    def label(self) -> str:
        return re.sub(r"^[*_`$\s]+|(?<![*_`$\s])[*_`$\s]+$", "", self.text)

    @cached_property
    def is_number(self) -> bool:
        return as_number(_bare(self.text), decimal_comma=True) is not None

    @cached_property
    def is_vector(self) -> bool:
        return _VECTOR.fullmatch(self.text) is not None

    def figure(self, source: Source) -> Figure:
        offset = len(self.text) - len(self.text.lstrip("*$` "))
        return figure_at(source, _bare(self.text), self.start + offset, decimal_comma=True)


_Row = list[_Cell]
_Split = Callable[[str, int], _Row | None]
_VECTOR = re.compile(r"\s*\$*\\{0,2}[\[(]([^\[\]()]*?)\\{0,2}[\])]\$*\s*")
_SEPARATOR = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_BOX = dict.fromkeys(map(ord, "│┃║├┤┼┌┐└┘┬┴╠╣╬╔╗╚╝╦╩┣┫╋┏┓┗┛┳┻╪╞╡"), "|") | dict.fromkeys(
    map(ord, "─━═"), "-"
)
_TOKEN_WORDS = re.compile(r"|tokens?|words?|토큰|단어|টোকেন|শব্দ|词|wort|mot|palabra", re.IGNORECASE)


def _bare(text: str) -> str:
    return re.sub(r"^[*$`\s]+|(?<![*$`\s])[*$`\s]+$", "", text)


def read_vector(text: str, start: int, source: Source) -> list[Figure]:
    """The numbers of `1.2, 0.6` or `1 0 1 0`, which stands at `start`."""
    figures: list[Figure] = []
    for match in re.finditer(r"[^\s,;&]+(?:\s?%)?", text):
        figures.append(figure_at(source, match[0], start + match.start()))
    return figures


def figure_at(source: Source, text: str, start: int, *, decimal_comma: bool = False) -> Figure:
    """The figure at a place. Raises Unreadable with line and column if there is none."""
    try:
        return read_figure(text, start, decimal_comma=decimal_comma)
    except ValueError as error:
        offset = start + len(text) - len(text.lstrip())
        raise Unreadable(f"{source.name}, {source.place(offset)}: {error}.") from None


def read_tables(source: Source, text: str) -> Iterator[tuple[int, int, list[Block]]]:
    """Each table in `text` (the source, with what was read before blanked): its span and blocks."""
    lines = list(re.finditer(r"[^\n]*\n|[^\n]+$", text))
    splits = (_pipe_cells, _tab_cells, _comma_cells, _space_cells)

    @cache
    def cells_of(split: _Split, line: int) -> _Row | None:
        return split(lines[line][0].rstrip("\n\r"), lines[line].start())

    # Where lines can be split in a way, but are no table, the lines from which on they may be one.
    hopeless = dict.fromkeys(splits, 0)
    i = 0
    while i < len(lines):
        for split in splits:
            if i < hopeless[split]:
                continue
            rows: list[_Row] = []
            j = i
            while j < len(lines) and (cells := cells_of(split, j)):
                rows.append(cells)
                j += 1
            if not rows:
                continue
            if split is _space_cells:
                rows = _with_heading(lines, i, rows)
            first = _first_that_may_be(rows, split)
            if first == 0:
                blocks = _blocks(source, rows)
                if blocks:
                    yield rows[0][0].start, lines[j - 1].end(), blocks
                    i = j - 1
                    break
            hopeless[split] = i + first
        i += 1


def read_tabular(source: Source, text: str, start: int) -> list[Block]:
    """The blocks in the body of a LaTeX `tabular`, which stands at `start`."""
    rows: list[_Row] = []
    at = 0
    for end in [m.span() for m in re.finditer(r"\\\\(?:\[[^\]]*\])?|$", text)]:
        rules = r"\\(?:hline|toprule|midrule|bottomrule)|\n"
        line = re.sub(rules, lambda rule: " " * len(rule[0]), text[at : end[0]])
        cells = [_Cell(cell[0], start + at + cell.start()) for cell in re.finditer(r"[^&]+", line)]
        if line.strip() and cells:
            rows.append(cells)
        at = end[1]
    return _blocks(source, rows) if rows else []


# ── lines to cells ────────────────────────────────────────────────────────────────────────────


def _pipe_cells(line: str, start: int) -> _Row | None:
    line = line.translate(_BOX)
    if re.fullmatch(r"\s*\+[-=+]+\+\s*", line):
        line = line.replace("+", "|").replace("=", "-")
    if "|" not in line:
        return None
    cells = [_Cell(m[0], start + m.start()) for m in re.finditer(r"[^|]+|(?<=\|)(?=\|)", line)]
    if cells and not cells[0].text.strip() and line.lstrip().startswith("|") and line[0] != "|":
        cells = cells[1:]
    if cells and line.rstrip().endswith("|") and not line.endswith("|"):
        cells = cells[:-1]
    return cells


def _tab_cells(line: str, start: int) -> _Row | None:
    if "\t" not in line:
        return None
    return [
        _Cell(m[0], start + m.start()) for m in re.finditer(r"[^\t]+|(?:^|(?<=\t))(?=\t|$)", line)
    ]


def _comma_cells(line: str, start: int) -> _Row | None:
    if not re.search(r"[,;]", line) or re.search(r"[\[\](){}=]", line):
        return None
    mark = ";" if ";" in line else ","
    cells: _Row = []
    offset = start
    for part in line.split(mark):
        cells.append(_Cell(part, offset))
        offset += len(part) + 1
    return cells


def _space_cells(line: str, start: int) -> _Row | None:
    cells = [_Cell(m[0], start + m.start()) for m in re.finditer(r"\S+", line)]
    if len(cells) < 2 or not all(cell.is_number for cell in cells[1:]):
        return None
    if not cells[0].is_number and (len(cells) < 3 or re.search(r"[:=.)]$|^[-*+]$", cells[0].text)):
        return None
    return cells


def _with_heading(lines: list[re.Match[str]], i: int, rows: list[_Row]) -> list[_Row]:
    """A table in plain columns with its heading: words directly above, or pandas' 0 1 2."""
    empty = _Cell("", rows[0][0].start)
    counts = [cell.text for cell in rows[0]]
    counted = counts == [str(n) for n in range(len(counts))]
    if counted and len(rows) > 1 and len(rows[1]) == len(counts) + 1:
        return [[empty, *rows[0]], *rows[1:]]
    if i == 0:
        return rows
    above = lines[i - 1]
    words = [_Cell(m[0], above.start() + m.start()) for m in re.finditer(r"\S+", above[0])]
    labelled = not rows[0][0].is_number
    if any(cell.is_number for cell in words) or len(words) != len(rows[0]) - labelled:
        return rows
    return [[_Cell("", above.start()), *words] if labelled else words, *rows]


def _first_that_may_be(rows: list[_Row], split: object) -> int:
    """0 if the rows are a table; else the first of them with which one may begin."""
    if split in (_tab_cells, _pipe_cells):
        enough = split is _tab_cells or len(rows) >= 2
        return 0 if enough and any(_has_numbers(row) for row in rows) else len(rows)
    if split is _comma_cells:
        start = 0 if _has_numbers(rows[0]) else 1  # below the headings
        for n, row in enumerate(rows[start:], start):
            if len(row) < 2 or not all(cell.is_number for cell in row[1:]):
                return max(n, 1)
        return 0 if len(rows) - start >= 2 else len(rows)
    return 0 if len(rows) >= 2 else len(rows)


def _has_numbers(row: _Row) -> bool:
    return any(cell.is_number or cell.is_vector for cell in row)


# ── cells to blocks ───────────────────────────────────────────────────────────────────────────


def _blocks(source: Source, rows: list[_Row]) -> list[Block]:
    header, body = _split_header(rows)
    body = [_without_trailing_blanks(row) for row in body]
    body = [row for row in body if row]
    if not body:
        return []
    labelled = _has_labels(header, body)
    first = 1 if labelled else 0
    columns = _numeric_columns(source, body, first)
    if not columns:
        return []
    labels = [row[0].label for row in body] if labelled else None
    headings = _headings(header, max(columns) + 1)
    vectors = [c for c in columns if body[0][c].is_vector]
    if vectors and labels and _rows_are_matrices(labels, headings, vectors):
        return [
            Block(
                start=row[vectors[0]].start,
                rows=[_figures(row[c], source) for c in vectors],
                lead=row[0].label,
                row_labels=[headings[c] for c in vectors],
            )
            for row in body
        ]
    blocks = [
        Block(
            start=body[0][c].start,
            rows=_equal_lengths(source, body, [_figures(row[c], source) for row in body], c),
            lead=headings[c],
            row_labels=labels,
        )
        for c in vectors
    ]
    numeric = [c for c in columns if c not in vectors]
    sums = [c for c in numeric if is_sum(headings[c])]
    for group in _groups([c for c in numeric if c not in sums], headings, labels):
        group_sums = [c for c in sums if c == group[-1] + 1]
        kinds = {name.kind for c in group if (name := name_of(headings[c])) is not None}
        same_kind = len(kinds) == 1 and not _are_labels(group, headings, labels)
        blocks.append(
            Block(
                start=body[0][group[0]].start,
                rows=[[row[c].figure(source) for c in group] for row in body],
                lead=_matrix_symbol(headings[group[0]]) if same_kind else "",
                row_labels=labels,
                column_labels=None
                if same_kind or not any(headings[c] for c in group)
                else [headings[c] for c in group],
                sums=[row[group_sums[0]].figure(source) for row in body] if group_sums else None,
            )
        )
    return sorted(blocks, key=lambda block: block.start)


def _split_header(rows: list[_Row]) -> tuple[list[_Row], list[_Row]]:
    header: list[_Row] = []
    rows = list(rows)
    while rows:
        row = rows[0]
        if _SEPARATOR.fullmatch("|".join(cell.text for cell in row)):
            rows.pop(0)
            if header:
                break  # below the line there are no headings
            continue
        numeric = [cell for cell in row[1:] if cell.is_number or cell.is_vector]
        counts = [int(cell.text) for cell in row[1:] if re.fullmatch(r"\s*\d{1,4}\s*", cell.text)]
        counted = (
            len(rows) > 1
            and len(counts) == len(row) - 1 >= 1
            and counts in (list(range(len(counts))), list(range(1, len(counts) + 1)))
            and not row[0].is_number
            and bool(_TOKEN_WORDS.fullmatch(row[0].label))
            and len(counts) > 1
        )
        words = [cell for cell in row[1:] if cell.label and not cell.is_number]
        names = (
            len(rows) > 1
            and bool(_TOKEN_WORDS.fullmatch(row[0].label))
            and bool(words)
            and not any(cell.is_vector or "." in cell.text for cell in row[1:])
        )
        if (numeric and not counted and not names) or row[0].is_number or row[0].is_vector:
            break
        header.append(rows.pop(0))
    body = [row for row in rows if not _SEPARATOR.fullmatch("|".join(c.text for c in row))]
    return header, body


def _without_trailing_blanks(row: _Row) -> _Row:
    while row and not row[-1].text.strip():
        row = row[:-1]
    return row


def _has_labels(header: list[_Row], body: list[_Row]) -> bool:
    if any(not (row[0].is_number or row[0].is_vector) for row in body):
        return True
    # Words that are written as digits, below a heading that says “Token”.
    heading = header[-1][0].label if header else ""
    counts = [row[0].text.strip() for row in body] == [str(n) for n in range(len(body))]
    if header and not heading and counts and len(header[-1]) == len(body[0]):
        return True  # the rows are numbered, as pandas does
    return bool(heading) and bool(_TOKEN_WORDS.fullmatch(heading)) and len(body[0]) > 1


def _numeric_columns(source: Source, body: list[_Row], first: int) -> list[int]:
    """The columns that hold numbers. A hole or a word among them is an error."""
    width = max(len(row) for row in body)
    columns = [
        c
        for c in range(first, width)
        if any(c < len(row) and (row[c].is_number or row[c].is_vector) for row in body)
    ]
    counts = [sum(c < len(row) and bool(row[c].text.strip()) for c in columns) for row in body]
    usual = max(set(counts), key=lambda count: (counts.count(count), count))
    for row, count in zip(body, counts, strict=True):
        if count != usual:
            raise Unreadable(
                f"{source.name}: a ragged matrix: row “{row[0].label}” "
                f"(line {source.line(row[0].start)}) has {numbers(count)}, the others {usual}."
            )
    for row in body:
        for c in columns:
            if c >= len(row):
                line = source.line(row[0].start)
                raise Unreadable(f"{source.name}: a ragged matrix: see line {line}.")
            if not (row[c].is_number or row[c].is_vector):
                figure_at(source, row[c].text, row[c].start)
    return columns


def _headings(header: list[_Row], width: int) -> list[str]:
    """One heading a column; an empty one continues the heading on its left."""
    headings = [""] * width
    for row in header:
        last = ""
        for c in range(width):
            text = row[c].label if c < len(row) else ""
            last = text or (last if c > 1 else "")
            headings[c] = text or headings[c] or last
    return headings


def _rows_are_matrices(labels: list[str], headings: list[str], vectors: list[int]) -> bool:
    kinds = [name_of(label) for label in labels]
    return (
        all(kind is not None for kind in kinds)
        and len({kind.kind for kind in kinds if kind}) == len(labels)
        and all(name_of(headings[c]) is None for c in vectors)
    )


def _are_labels(group: list[int], headings: list[str], labels: list[str] | None) -> bool:
    known = {label.casefold() for label in labels or ()}
    return bool(known) and all(headings[c].casefold() in known for c in group)


def _groups(columns: list[int], headings: list[str], labels: list[str] | None) -> list[list[int]]:
    """Columns that belong together: by the kind that their headings name, if those differ."""
    if not columns:
        return []
    names = {c: name_of(headings[c]) for c in columns}
    kinds = {name.kind for name in names.values() if name is not None}
    if len(kinds) < 2 or None in names.values() or _are_labels(columns, headings, labels):
        return [columns]
    groups: list[list[int]] = []
    for c in columns:
        name, before = names[c], names[groups[-1][-1]] if groups else None
        if name and before and name.kind == before.kind and name.head == before.head:
            groups[-1].append(c)
        else:
            groups.append([c])
    return groups


def _matrix_symbol(heading: str) -> str:
    """`q1`, the heading of a matrix' first column, as the matrix itself: `Q`."""
    name = name_of(heading)
    if name is not None and name.row is not None and name.row.isdigit():
        return re.sub(r"[_{(]*\d+[)}]*", "", heading).upper()
    return heading


def _figures(cell: _Cell, source: Source) -> list[Figure]:
    match = _VECTOR.fullmatch(cell.text)
    if match is None:
        return [cell.figure(source)]
    return read_vector(match[1], cell.start + match.start(1), source)


def _equal_lengths(
    source: Source, body: list[_Row], rows: list[list[Figure]], column: int
) -> list[list[Figure]]:
    for row, cells in zip(rows, body, strict=True):
        if len(row) != len(rows[0]):
            raise Unreadable(
                f"{source.name}: a ragged matrix: row “{cells[0].label}” "
                f"({source.place(cells[column].start)}) has {numbers(len(row))}, "
                f"the first row {len(rows[0])}."
            )
    return rows
