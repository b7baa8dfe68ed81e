"""Tables to values: which rows are headings, which columns are labels, what belongs together."""

from __future__ import annotations

import contextlib
import re

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.names import name_of
from regard.written.piece import Piece
from regard.written.statements import Sentence
from regard.written.words import is_exponential, is_sum

__all__ = ["read_table"]

_SEPARATOR = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_TOKEN_WORDS = re.compile(
    r"|tokens?|words?|토큰|단어|টোকেন|শব্দ|词|词元|单词|wort|mot|palabra|トークン|単語|từ",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\s*\d{1,4}\s*")
_REMARKED = re.compile(r"([-−]?\d+(?:\.\d+)?%?)[*`\s]*\s[(（←][^\d=]+$")
_FORMULA = re.compile(r"[\[(=≈·×*+/^√\\→]")


class _Cell:
    """A cell of a table: a number, as nearly all are, a vector, more than that, or words."""

    def __init__(self, piece: Piece, decimal_comma: bool) -> None:
        self.piece = piece
        self.bare = piece.stripped("*$`✓✔✅ \t\r\n")
        self.number = _number(self.bare)
        self.sentence: Sentence | None = None
        self.vector: list[Figure] | None = None
        if self.number is not None:
            self.figures = [self.number]
            return
        if remark := _REMARKED.match(self.bare.text):  # 0.50 (strong focus)
            self.bare = self.bare.cut(0, remark.end(1)).stripped("*$` \t")
            self.number = _number(self.bare)
        text = self.bare.text
        is_more = self.number is None and len(text) <= 500 and _FORMULA.search(text)
        if is_more and re.search(r"\d", text):
            self.sentence = Sentence(self.bare, decimal_comma=decimal_comma)
            self.vector = _vector(self.sentence)
        self.figures = [self.number] if self.number is not None else self.vector or self._result()

    @property
    def label(self) -> str:
        return re.sub(r"^[*_`$\s]+|(?<![*_`$\s])[*_`$\s]+$", "", self.piece.text)

    @property
    def is_number(self) -> bool:
        return bool(self.figures) and self.vector is None

    @property
    def is_vector(self) -> bool:
        return self.vector is not None

    def _result(self) -> list[Figure]:
        """`1·1 + 0·2 = 1` is a number; “Vector (dim=4)” is none."""
        values = self.sentence.values if self.sentence is not None else []
        words = re.sub(r"\\[a-zA-Z]+|exp|softmax|sqrt|max", "", values[-1].lead) if values else ""
        if not values or not values[-1].is_number or re.search(r"[^\W\d_]{2}", words):
            return []
        return [values[-1].figure]


def _number(bare: Piece) -> Figure | None:
    """The number that the whole of a cell is."""
    try:
        return bare.figure(0, len(bare.text), decimal_comma=True)
    except ValueError:  # none, or one out of all proportion
        return None


def _vector(sentence: Sentence) -> list[Figure] | None:
    values = sentence.values
    if values and values[-1].is_vector:
        if not values[-1].lead.strip(" $\\") or values[-1].is_assigned:
            return values[-1].rows[0]
    elif not values:
        node = sentence.grammar.expression(0)
        whole = node is not None and node.end == len(sentence.tokens)
        if node is not None and whole and node.is_literal and node.op == "matrix":
            with contextlib.suppress(ValueError):  # a number out of all proportion
                return [sentence.figure(cell) for cell in node.args]
    return None


_Row = list[_Cell]


def read_table(
    pieces: list[list[Piece]], *, decimal_comma: bool
) -> tuple[list[Value], list[Equality], str]:
    """The values and equations in a table, and what could not be read in it."""
    rows = [[_Cell(piece, decimal_comma) for piece in row] for row in pieces]
    header, body = _split_header(rows)
    body = [row for row in map(_without_trailing_blanks, body) if row]
    if len(body) > 2 and is_sum(body[-1][0].label) and not all(c.figures for c in body[-1][1:]):
        body.pop()  # sums of some columns
    equations = [
        equation
        for row in body
        for cell in row
        if cell.sentence is not None
        for equation in cell.sentence.equations
    ]
    if not body:
        return [], equations, ""
    labelled = _has_labels(header, body)
    columns, problem = _numeric_columns(body, 1 if labelled else 0)
    if problem or not columns:
        return [], equations, problem
    labels = [row[0].label for row in body] if labelled else None
    headings = _headings(header, max(columns) + 1)
    vectors = [c for c in columns if body[0][c].is_vector]
    if vectors and labels and _rows_are_matrices(labels, headings, vectors):
        values = [
            Value(
                start=row[vectors[0]].bare.start,
                rows=[row[c].figures for c in vectors],
                lead=row[0].label,
                row_labels=[headings[c] for c in vectors],
            )
            for row in body
            if len({len(row[c].figures) for c in vectors}) == 1
        ]
        ragged = "vectors of unequal lengths in a table" if len(values) < len(body) else ""
        return values, equations, ragged
    values = [
        Value(
            start=body[0][c].bare.start,
            rows=[row[c].figures for row in body],
            lead=headings[c],
            row_labels=labels,
        )
        for c in vectors
        if len({len(row[c].figures) for row in body}) == 1
    ]
    if len(values) < len(vectors):
        problem = "vectors of unequal lengths in a table"
    numeric = [c for c in columns if c not in vectors]
    sums = [c for c in numeric if is_sum(headings[c])]
    for group in _groups([c for c in numeric if c not in sums], headings, labels):
        group_sums = [c for c in sums if c == group[-1] + 1]
        kinds = {_column_kind(headings[c])[0] for c in group} - {""}
        same_kind = len(kinds) == 1 and not _are_labels(group, headings, labels)
        values.append(
            Value(
                start=body[0][group[0]].bare.start,
                rows=[[row[c].figures[0] for c in group] for row in body],
                headings=[headings[c] for c in group],
                lead=_matrix_symbol(headings[group[0]]) if same_kind else "",
                row_labels=labels,
                column_labels=None
                if same_kind or not any(headings[c] for c in group)
                else [headings[c] for c in group],
                sums=[row[group_sums[0]].figures[0] for row in body] if group_sums else None,
            )
        )
    return sorted(values, key=lambda value: value.start), equations, problem


def _is_separator(row: _Row) -> bool:
    return all(_SEPARATOR.fullmatch(cell.piece.text) for cell in row)


def _split_header(rows: list[_Row]) -> tuple[list[_Row], list[_Row]]:
    header: list[_Row] = []
    rows = list(rows)
    while rows:
        row = rows[0]
        if _is_separator(row):
            rows.pop(0)
            if header:
                break  # below the line there are no headings
            continue
        numeric = [cell for cell in row[1:] if cell.is_number or cell.is_vector]
        counts = [int(c.piece.text) for c in row[1:] if _COUNTED.fullmatch(c.piece.text)]
        titled = bool(_TOKEN_WORDS.fullmatch(row[0].label)) and len(rows) > 1
        counted = (
            len(counts) == len(row) - 1 > 1
            and counts in (list(range(len(counts))), list(range(1, len(counts) + 1)))
            and titled
        )
        words = [cell for cell in row[1:] if cell.label and not cell.is_number]
        names = (
            titled
            and bool(words)
            and not any(cell.is_vector or "." in cell.piece.text for cell in row[1:])
        )
        ruled = not header and len(rows) > 1 and _is_separator(rows[1]) and words
        if not ruled and (
            (numeric and not counted and not names) or row[0].is_number or row[0].is_vector
        ):
            break
        header.append(rows.pop(0))
    return header, [row for row in rows if not _is_separator(row)]


def _without_trailing_blanks(row: _Row) -> _Row:
    while row and not row[-1].piece.text.strip():
        row = row[:-1]
    return row


def _has_labels(header: list[_Row], body: list[_Row]) -> bool:
    if any(not row[0].figures for row in body):
        return True
    # Words that are written as digits, below a heading that says “Token”.
    heading = header[-1][0].label if header else ""
    counts = [row[0].piece.text.strip() for row in body] == [str(n) for n in range(len(body))]
    if header and not heading and counts and len(header[-1]) == len(body[0]):
        return True  # the rows are numbered, as pandas does
    return bool(heading) and bool(_TOKEN_WORDS.fullmatch(heading)) and len(body[0]) > 1


def _numeric_columns(body: list[_Row], first: int) -> tuple[list[int], str]:
    """The columns that hold numbers in every row; and what is wrong where none can be read."""
    width = max(len(row) for row in body)
    some = [c for c in range(first, width) if any(c < len(row) and row[c].figures for row in body)]
    columns = [
        c
        for c in some
        if all(c < len(row) and row[c].figures for row in body)
        and len({row[c].is_vector for row in body}) == 1
    ]
    if len(columns) == len(some):
        return columns, ""
    holes = [
        row[c].label if c < len(row) else ""
        for row in body
        for c in some
        if c >= len(row) or not row[c].figures
    ]
    # A matrix with a hole is no matrix; beside whole columns of vectors a column may be left out.
    whole = columns if all(body[0][c].is_vector for c in columns) else []
    return whole, f"“{holes[0][:20]}” among the numbers of a table" if holes else "a ragged table"


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
    kinds = {c: _column_kind(headings[c]) for c in columns}
    different = set(kinds.values())
    if len({kind for kind, _ in different}) < 2 or ("", None) in different:
        return [columns]
    if _are_labels(columns, headings, labels):
        return [columns]
    groups: list[list[int]] = []
    for c in columns:
        if groups and kinds[c] == kinds[groups[-1][-1]]:
            groups[-1].append(c)
        else:
            groups.append([c])
    return groups


def _column_kind(heading: str) -> tuple[str, int | None]:
    if is_exponential(heading):
        return "exponentials", None
    name = name_of(heading)
    return (name.kind, name.head) if name is not None else ("", None)


def _matrix_symbol(heading: str) -> str:
    """`q1`, the heading of a matrix' first column, as the matrix itself: `Q`."""
    name = name_of(heading)
    if name is not None and name.row is not None and name.row.isdigit():
        return re.sub(r"[_{(]*\d+[)}]*", "", heading).upper()
    return heading
