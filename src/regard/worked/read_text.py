"""Matrices in running text: LaTeX, tables, vectors in brackets; and single statements."""

from __future__ import annotations

import re
from bisect import bisect_left

from regard.worked.blocks import Block, Found, Statement
from regard.worked.figures import NUMBER, Figure, as_number
from regard.worked.read_tables import figure_at, read_tables, read_tabular, read_vector
from regard.worked.source import Source, Unreadable, numbers

__all__ = ["read_text"]

_LATEX = re.compile(
    r"\\{1,2}begin\{([bBpvV]?(?:small)?matrix|array)\}(?:\{[^}]*\})?"
    r"((?:(?!\\begin\{).)*?)\\{1,2}end\{\1\}",
    re.DOTALL,
)
_TABULAR = re.compile(
    r"\\begin\{tabular\}(?:\{(?:[^{}]|\{[^{}]*\})*\})?((?:(?!\\begin\{).)*?)\\end\{tabular\}",
    re.DOTALL,
)
_LATEX_ROWS = re.compile(r"\\{2,4}(?:\[[^\]]*\])?|\\cr\b")
_OPEN, _CLOSE = r"\\{0,2}[\[(]", r"\\{0,2}[\])]"
_GAP = r"(?:\s*[,;&|]\s*|\s+)"
# Atomic and possessive: what has matched a number is never tried again as two.
_VECTOR = re.compile(
    rf"{_OPEN}\s*+((?>{NUMBER})(?>{_GAP}(?>{NUMBER}))*+)\s*+,?\s*+{_CLOSE}", re.IGNORECASE
)
_LIST = re.compile(r"\\{0,2}\[([^\[\]]*)\\{0,2}\]")
_ASSIGNED = re.compile(r"(?:=>?|≈|\\approx|:|→|\\to|\\rightarrow)[\s$(\\]*$")
_COMMENT = re.compile(r"^[ \t]*(?:#+(?=[ \t]*[\[\]\d.\-−])|//+|>+)", re.MULTILINE)
# Between two operands of a product or a sum, and between them and their result.
_OPERATOR = re.compile(r"[\s\d.,·*×+@&()−-]*(?:\\(?:cdot|times)[\s\d.,·*×+@&()−-]*)*")
_RESULT = re.compile(r"[\s$&]*(?:=|≈|\\approx)[\s$&]*")
_IN_LIST = re.compile(r"[\[\]]\s*[,;]?\s*$")
_STATEMENT = re.compile(
    rf"(?:=|≈|\\approx|:)\s*+\$*+\s*+({NUMBER})(?![\w.]|\s*[·*×/^]|\s*\\(?:cdot|times))",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"""\s*(["'“”‘’])(.*?)["'“”‘’]\s*""")


def read_text(source: Source) -> Found:
    """Everything that looks like a matrix, a vector, a list of tokens or a statement."""
    reader = _Reader(source)
    reader.read_latex()
    reader.read_tabulars()
    reader.read_tables()
    reader.read_token_lists()
    reader.read_vectors()
    reader.read_statements()
    reader.found.blocks.sort(key=lambda block: block.start)
    reader.drop_operands()
    reader.add_titles()
    return reader.found


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        # What has been read is blanked, so that offsets stay; so are marks of comments.
        self.text = _COMMENT.sub(lambda mark: " " * len(mark[0]), source.text)
        self.decimal_comma = bool(
            re.search(r"\d,\d\d\b", source.text) and not re.search(r"\d\.\d", source.text)
        )
        self.found = Found()
        self.tall: list[tuple[int, int]] = []  # the spans of blocks with several rows

    def _blank(self, start: int, end: int) -> None:
        middle = re.sub(r"[^\n]", " ", self.text[start:end])
        self.text = self.text[:start] + middle + self.text[end:]

    def _blank_all(self, spans: list[tuple[int, int]]) -> None:
        parts: list[str] = []
        at = 0
        for start, end in spans:
            parts += [self.text[at:start], re.sub(r"[^\n]", " ", self.text[start:end])]
            at = end
        self.text = "".join([*parts, self.text[at:]])

    # ── LaTeX ────────────────────────────────────────────────────────────────────────────────

    def read_tabulars(self) -> None:
        for match in list(_TABULAR.finditer(self.text)):
            blocks = read_tabular(self.source, match[1], match.start(1))
            self.found.blocks += blocks
            self.tall.append(match.span())
            self._blank(*match.span())

    def read_latex(self) -> None:
        floor = 0
        for match in list(_LATEX.finditer(self.text)):
            rows: list[list[Figure]] = []
            offset = match.start(2)
            for part in _split(_LATEX_ROWS, match[2], offset):
                if not part[0].strip():
                    continue
                row = [self._latex_cell(*cell) for cell in _split(re.compile("&"), *part)]
                if rows and len(row) != len(rows[0]):
                    raise Unreadable(
                        f"{self.source.name}: a ragged matrix: row {len(rows) + 1} "
                        f"(line {self.source.line(row[0].start)}) has {numbers(len(row))}, "
                        f"the first row {len(rows[0])}."
                    )
                rows.append(row)
            if not rows:
                continue
            lead = self._lead(match.start(), across_lines=True, floor=floor)
            lead = re.sub(r"^\W*\\q?quad\b|^[\s,;$]+", "", lead)
            floor = match.end()
            self.found.blocks.append(Block(match.start(), rows, lead, end=match.end()))
            self.tall.append(match.span())
            self._blank(*match.span())

    def _latex_cell(self, text: str, start: int) -> Figure:
        cleaned = re.sub(
            r"\\hline|\\(?:mathbf|text|textbf|boldsymbol)\b|[{}]", lambda m: " " * len(m[0]), text
        )
        return figure_at(self.source, cleaned, start)

    # ── tables ───────────────────────────────────────────────────────────────────────────────

    def read_tables(self) -> None:
        for start, end, blocks in list(read_tables(self.source, self.text)):
            self.found.blocks += blocks
            self.tall.append((start, end))
            self._blank(start, end)

    # ── brackets ─────────────────────────────────────────────────────────────────────────────

    def read_token_lists(self) -> None:
        """`["The", "cat", "sat"]`: the tokens, if no other list came first."""
        for match in list(_LIST.finditer(self.text)):
            parts = match[1].rstrip("\\").split(",")
            quoted = [_QUOTED.fullmatch(part) for part in parts]
            if match[1].strip() and all(quoted):
                self.found.tokens = self.found.tokens or [m[2] for m in quoted if m]
                self._blank(*match.span())

    def read_vectors(self) -> None:
        self._refuse_words_in_vectors()
        matches = [m for m in _VECTOR.finditer(self.text) if self._is_vector(m)]
        used = floor = 0
        while used < len(matches):
            last = self._matrix_end(matches, used)
            group = matches[used : last + 1]
            used = last + 1
            rows: list[list[Figure]] = []
            for match in group:
                rows += self._rows(match)
            for number, row in enumerate(rows, 1):
                if len(row) != len(rows[0]):
                    raise Unreadable(
                        f"{self.source.name}: a ragged matrix: row {number} "
                        f"({self.source.place(row[0].start)}) has {numbers(len(row))}, "
                        f"the first row {len(rows[0])}."
                    )
            start = group[0].start()
            lead = self._lead(start, across_lines=len(rows) > 1, floor=floor)
            if re.search(r"softmax[\s$]*\\?\($", lead.strip(), re.IGNORECASE):
                lead = "scaled scores"  # whatever stands in the brackets of a softmax
            elif re.match(r"\s*\\?\)[\s$]*(=|≈|\\approx)", lead):
                lead = "softmax(…) ="
            floor = group[-1].end()
            line_start = self.source.text.rfind("\n", 0, start) + 1
            self.found.blocks.append(
                Block(
                    start,
                    rows,
                    lead,
                    end=floor,
                    is_vector=len(rows) == 1,
                    sentence=self.source.text[max(line_start, start - 1000) : start],
                )
            )
            if len(rows) > 1:
                self.tall.append((start, group[-1].end()))
        self._blank_all([match.span() for match in matches])

    def _rows(self, match: re.Match[str]) -> list[list[Figure]]:
        """`1 0; 0 1` is two rows; where decimals have commas, `1,5 ; 0,2` is one."""
        parts = _split(re.compile(";"), match[1], match.start(1))
        if self.decimal_comma and all(re.fullmatch(r"\s*[-−+]?\d+,\d+\s*", p) for p, _ in parts):
            return [[figure_at(self.source, *part, decimal_comma=True) for part in parts]]
        return [read_vector(*part, self.source) for part in parts]

    def _is_vector(self, match: re.Match[str]) -> bool:
        """Round brackets and single numbers are vectors only where something is set equal."""
        round_bracket = "(" in match[0][:3]
        if round_bracket and as_number(match[1]):
            return False  # (0.5) is a factor
        if round_bracket or re.fullmatch(NUMBER, match[1].strip(), re.IGNORECASE):
            return self._is_assigned(match.start(), nested=not round_bracket)
        return True

    def _is_assigned(self, start: int, *, nested: bool) -> bool:
        """Whether something is set equal to what starts here, or, `nested`, to a list it is in."""
        before = self.text[max(0, start - 40) : start]
        return bool(_ASSIGNED.search(before) or (nested and _IN_LIST.search(before)))

    def _matrix_end(self, matches: list[re.Match[str]], first: int) -> int:
        """The last of the vectors that are the rows of one matrix, one below another."""
        last = first
        while last + 1 < len(matches):
            between = self.text[matches[last].end() : matches[last + 1].start()]
            if re.fullmatch(r"[\s,;]*", between) is None:
                break
            last += 1
        return last

    def _refuse_words_in_vectors(self) -> None:
        """A list that is set equal to something and holds both numbers and words is a mistake."""
        for match in _LIST.finditer(self.text):
            if not self._is_assigned(match.start(), nested=True):
                continue
            words = list(re.finditer(r"[^\s,;&]+", match[1].rstrip("\\")))
            numbers = [word for word in words if re.fullmatch(NUMBER, word[0], re.IGNORECASE)]
            after_numbers = re.search(
                r"\d\.?\s*\\?\]\s*[,;]?\s*$", self.text[max(0, match.start() - 40) : match.start()]
            )
            if (len(words) >= 2 and 0 < len(numbers) < len(words)) or (
                words and not numbers and after_numbers and not _QUOTED.match(match[1])
            ):
                read_vector(match[1].rstrip("\\"), match.start(1), self.source)

    def _lead(self, start: int, *, across_lines: bool, floor: int = 0) -> str:
        """The text left of a block: on its line, or, for `A =` and a line break, on the one above.

        What stands before `floor` belongs to the vector before.
        """
        line_start = self.text.rfind("\n", 0, start) + 1
        lead = self.text[max(line_start, floor, start - 1000) : start]
        if across_lines and not re.sub(r"[$\[\\\s]|left", "", lead):
            above = self.text[:line_start].rstrip()
            last_line = above[above.rfind("\n") + 1 :]
            blank = re.search(r"\n[ \t]*\n", self.text[len(above) : line_start])
            if not blank and re.search(r"(=|≈|:)\s*(\\left)?[\s\[$]*$", last_line):
                return last_line
        return lead

    def drop_operands(self) -> None:
        """In `Q = [X][W] = [Q]` and `z = 0.6·[1, 2] + 0.4·[3, 4] = [1.8, 2.8]` the last counts."""
        kept: list[Block] = []
        operands: list[Block] = []
        for block in self.found.blocks:
            last = (operands or kept)[-1] if operands or kept else None
            between = self.source.text[last.end : block.start] if last and last.end else None
            if between is not None and "\n\n" not in between and len(between) < 200:
                if between.strip() and _RESULT.fullmatch(between):
                    operands = operands or [kept.pop()]
                    block.lead = operands[0].lead
                    block.sentence = operands[0].sentence
                    operands = []
                    kept.append(block)
                    continue
                if _OPERATOR.fullmatch(between) and re.search(r"^[^,\n]*$", between):
                    if not operands:
                        operands.append(kept.pop())
                    operands.append(block)
                    continue
            kept += operands  # they were no operands: no result followed
            operands = []
            kept.append(block)
        self.found.blocks = kept + operands

    # ── statements ───────────────────────────────────────────────────────────────────────────

    def read_statements(self) -> None:
        for line in re.finditer(r"[^\n]+", self.text):
            end = 0
            for match in _STATEMENT.finditer(line[0]):
                lead = line[0][end : match.start()]
                start = line.start() + match.start(1)
                if match[1].endswith("."):  # the sentence's
                    text = match[1][:-1]
                    self.found.statements.append(
                        Statement(start, lead, figure_at(self.source, text, start))
                    )
                    end = match.end()
                    continue
                self.found.statements.append(
                    Statement(start, lead, figure_at(self.source, match[1], start))
                )
                end = match.end()

    # ── the words above ──────────────────────────────────────────────────────────────────────

    def add_titles(self) -> None:
        """The lines of text above each block, up to the next block of several rows."""
        vectors = {self.source.line(b.start) for b in self.found.blocks if b.is_vector}
        lines = [
            line
            for line in re.finditer(r"[^\n]+", self.text)
            if re.search(r"\w", line[0]) and self.source.line(line.start()) not in vectors
        ]
        starts = [line.start() for line in lines]
        ends = sorted(end for _, end in self.tall)
        for block in self.found.blocks:
            above = bisect_left(ends, block.start + 1)
            floor = ends[above - 1] if above else 0
            index = bisect_left(starts, self.text.rfind("\n", 0, block.start) + 1)
            titles: list[str] = []
            while index and len(titles) < 8 and starts[index - 1] >= floor:
                index -= 1
                titles.append(lines[index][0].strip())
            block.titles = titles


def _split(pattern: re.Pattern[str], text: str, start: int) -> list[tuple[str, int]]:
    """The parts of `text` between matches of `pattern`, each with its offset."""
    parts: list[tuple[str, int]] = []
    offset = 0
    for match in pattern.finditer(text):
        parts.append((text[offset : match.start()], start + offset))
        offset = match.end()
    parts.append((text[offset:], start + offset))
    return parts
