"""The statements of a paragraph: values with what stands left of them, and equations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from regard.written.ends import is_clean_left, is_clean_right
from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.grammar import Grammar
from regard.written.nodes import Node
from regard.written.piece import Piece
from regard.written.tokens import tokens_of

__all__ = ["Sentence"]


@dataclass
class _Chain:
    """Sides with the relations between them; `start` and `end` are tokens."""

    sides: list[Node] = field(default_factory=list)
    start: int = 0
    assigned: bool = False
    joined: list[bool] = field(default_factory=list)  # for each side but the first: set equal?


class Sentence:
    """A paragraph or a cell, read."""

    def __init__(self, piece: Piece, *, decimal_comma: bool = False) -> None:
        self.piece, self.decimal_comma = piece, decimal_comma
        self.tokens = tokens_of(piece.text, decimal_comma=decimal_comma)
        self.grammar = Grammar(self.tokens)
        self.values: list[Value] = []
        self.equations: list[Equality] = []
        self.passed_over: list[tuple[int, str]] = []
        self._figures: dict[tuple[int, int], Figure] = {}
        self._above: list[Node] = []  # the sides of the chain before, if a name starts it
        self._lead = 0  # where what stands left of the next value starts
        self._read()

    def figure(self, node: Node) -> Figure:
        """The figure of a number, with its sign."""
        key = (node.start, node.end)
        if key not in self._figures:
            self._figures[key] = self._figure(node)
        return self._figures[key]

    def _figure(self, node: Node) -> Figure:
        first, last = self.tokens[node.start], self.tokens[node.end - 1]
        if node.op == "group":
            return self.figure(node.args[0])
        if last.kind == "power" and node.op == "number":
            return Figure(last.text, self.piece.at[last.start], float(last.text), 1.0)
        if node.op == "scientific":
            mantissa, power = self.figure(node.args[0]), node.args[1].args[1]
            factor = 10.0 ** self.figure(power).value
            value, unit = mantissa.value * factor, mantissa.unit * factor
            return replace(mantissa, value=value, unit=unit, factor=factor)
        text = self.piece.text[first.start : last.end]
        if last.text == "∞":
            sign = -1.0 if text[:1] in "-−–" else 1.0
            at = self.piece.at
            return Figure(
                text, at[first.start], sign * float("inf"), 0.0, stop=at[last.end - 1] + 1
            )
        return self.piece.figure(first.start, last.end, decimal_comma=self.decimal_comma)

    # ── tokens to chains ─────────────────────────────────────────────────────────────────────

    def _read(self) -> None:
        chain = _Chain()
        pending = ""  # the kind of relation that waits for its right side
        i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            node = self.grammar.expression(i) if self._may_start(i) else None
            if node is not None:
                if pending and chain.sides:
                    chain.sides.append(node)
                    of_softmax = chain.sides[-2].op == "softmax" and node.is_literal
                    chain.joined.append(pending == "relation" or of_softmax)
                    chain.assigned = True
                else:
                    self._close(chain)
                    chain = _Chain([node], i, bool(pending))
                pending, i = "", node.end
                continue
            if token.kind in ("relation", "weak"):
                pending = token.kind
                if self._announces(chain, i):  # “# Result: [0.67, 0.33]” below softmax([…])
                    pending = "relation"
                elif not chain.sides or not self._touches(chain, i):
                    self._close(chain)
                    chain = _Chain()
            elif token.kind not in ("newline", "cell"):
                pending = ""
                if chain.sides and not _RESULT.fullmatch(token.text):
                    self._close(chain)
                    chain = _Chain()
            i += 1
        self._close(chain)

    def _may_start(self, i: int) -> bool:
        """Whether an expression may start here: not at a word that another word follows."""
        token = self.tokens[i]
        if token.kind != "word" or len(token.text) == 1 or i + 1 == len(self.tokens):
            return token.kind not in _NEVER
        return self.tokens[i + 1].kind not in _AFTER_PROSE

    def _announces(self, chain: _Chain, i: int) -> bool:
        """Whether a line that says “Result:” follows a function of numbers, and nothing else."""
        if not chain.sides or chain.sides[-1].op != "softmax" or not chain.sides[-1].is_known:
            return False
        between = self.tokens[chain.sides[-1].end : i]
        return len(between) > 1 and all(
            token.kind == "newline" or _RESULT.fullmatch(token.text) for token in between
        )

    def _touches(self, chain: _Chain, i: int) -> bool:
        """Whether nothing but line breaks stands between the last side and a relation."""
        end = chain.sides[-1].end
        return all(self.tokens[k].kind in ("newline", "cell") for k in range(end, i))

    def _close(self, chain: _Chain) -> None:
        if not chain.sides:
            return
        try:
            self._judge(chain)
            self._join_above(chain.sides)
            self._add_value(chain)
        except ValueError:  # a number out of all proportion
            self.passed_over.append((self._place(chain.sides[0]), "a number that is none"))
        chain.sides = []

    def _place(self, node: Node) -> int:
        return self.piece.at[self.tokens[node.start].start]

    # ── equations ────────────────────────────────────────────────────────────────────────────

    def _judge(self, chain: _Chain) -> None:
        """Each run of sides that are set equal, if its ends are clean."""
        sides, runs = chain.sides, []
        if self._is_condition(sides[0]):
            return
        below = len(sides) > 1 and self.tokens[sides[0].end].kind == "newline"
        bare = below and sides[0].is_literal  # a 4 under a line may be half of a fraction
        run = [sides[0]] if is_clean_left(self.tokens, sides[0]) and not bare else []
        for side, is_equal in zip(sides[1:], chain.joined, strict=True):
            if not is_equal:
                runs.append(run)
                run = []
            run.append(side)
        runs.append(run if not self._is_listed(sides) else [])
        runs = [
            run if not run or is_clean_right(self.tokens, run[-1]) else run[:-1] for run in runs
        ]
        for run in runs:
            known = [side for side in run if side.is_known] if len(run) > 1 else []
            if self.decimal_comma and self._may_be_decimals(known):
                continue
            if len(known) > 1 and not all(side.is_literal for side in known):
                text = self.piece.text[self.tokens[run[0].start].start : self._end(run[-1])]
                text = " ".join(text.split())
                self.equations.append(Equality(self._place(known[-1]), text, known, self.figure))

    def _join_above(self, sides: list[Node]) -> None:
        """`z = 0.4·[1, 2] + 0.6·[3, 4]`, and below it `z = [2.2, 3.2]`: one chain of matrices."""
        if len(sides) == 1 and sides[0].op == "name":  # the z of z1
            return
        above = self._above
        is_set = len(sides) > 1 and sides[0].op in ("name", "number") and sides[-1].is_known
        self._above = sides if is_set and sides[-1].matrices else []
        if not above or not self._above or above[-1].is_literal:
            return
        (begin, first), (line, second) = (self._left(each) for each in (above, sides))
        if first != second or not _LETTER.search(first):
            return
        if self.piece.text[self._end(above[-1]) : line].strip(" \t") == "\n":
            known = [side for side in (*above[1:], *sides[1:]) if side.is_known]
            text = " ".join(self.piece.text[begin : self._end(sides[-1])].split())
            place = self._place(sides[-1])
            self.equations.append(Equality(place, text, known, self.figure, by_lines=True))

    def _left(self, sides: list[Node]) -> tuple[int, str]:
        """Where the line of a chain starts, and what stands in it before the second side."""
        line = self.piece.text.rfind("\n", 0, self._start(sides[0])) + 1
        return line, self.piece.text[line : self._start(sides[1])].strip(" \t`=")

    def _may_be_decimals(self, sides: list[Node]) -> bool:
        """`2·[0,5] = [1,0]`: whether all rows in a text with decimal commas may be one number."""
        rows = [row for side in sides for row in side.matrices]
        return bool(rows) and all(
            len(row.args) % 2 == 0
            and re.fullmatch(r"\[[\d,]+\]", self.piece.text[self._start(row) : self._end(row)])
            for row in rows
        )

    def _start(self, node: Node) -> int:
        return self.tokens[node.start].start

    def _is_condition(self, node: Node) -> bool:
        """`n / d | C = 10²¹ = 95.60`: what stands after a bar is a condition, no side."""
        before = node.start - 1
        bar = before > 0 and self.tokens[before].text == "|" and node.op == "name"
        return bar and self.tokens[before - 1].kind == "word"

    def _is_listed(self, sides: list[Node]) -> bool:
        """`exp(2), exp(1) = 7.389, 2.718`: the last of some, set equal to the first of others."""
        before, after = sides[0].start - 1, sides[-1].end
        if len(sides) < 2 or before < 1 or after + 1 >= len(self.tokens):
            return False
        commas = self.tokens[before].kind == self.tokens[after].kind == "comma"
        listed = self.tokens[before - 1].kind in ("close", "number")
        return commas and listed and self.tokens[after + 1].kind in ("number", "open")

    def _end(self, node: Node) -> int:
        return self.tokens[node.end - 1].end

    def _continues(self, rows: list[list[Figure]], start: int) -> bool:
        """Whether a vector stands right below one as long: the next row of a matrix."""
        if not self.values or len(rows) > 1 or self.values[-1].is_number:
            return False
        return self.values[-1].shape[1] == len(rows[0]) and bool(
            _GAP.fullmatch(self.piece.text, self._lead, start)
        )

    # ── values ───────────────────────────────────────────────────────────────────────────────

    def _add_value(self, chain: _Chain) -> None:
        """The last literal of a chain, under what stands left of the chain."""
        literals = [side for side in chain.sides if side.is_literal]
        first = self.tokens[chain.sides[0].start]
        if not literals:
            node = chain.sides[-1]
            inner = self.tokens[node.start : node.end]
            if any(token.kind == "number" for token in inner) and (
                node.op == "matrix" or (node.op == "unknown" and len(inner) > 4)
            ):
                self.passed_over.append((self._place(node), "a matrix with symbols in it"))
            if chain.assigned or len(chain.sides) > 1:
                self._lead = self._end(chain.sides[-1]) if node.op == "matrix" else self._lead
            return
        node = literals[-1]
        is_number = node.op != "matrix"
        alone = len(chain.sides) == 1
        if is_number and (alone and not chain.assigned):
            return
        if node.round and not chain.assigned:
            return
        if is_number and not is_clean_right(self.tokens, node):
            return
        start = self.tokens[node.start].start
        line = self.piece.text.rfind("\n", 0, first.start) + 1
        lead_start = max(self._lead, line, start - 1000)
        between = _BETWEEN.match(self.piece.text, lead_start, start)
        lead = self.piece.text[between.end() if between else lead_start : start]
        if not lead.strip(" \t\n$[(\\&"):
            above = self.piece.text[max(self._lead, lead_start - 1000) : lead_start].rstrip()
            announced = re.search(r"[=≈:]\s*\\?\[?$", above)
            lead = above[above.rfind("\n") + 1 :] if announced else lead
        if not is_number:
            is_set = lead.rstrip().endswith(("=", "≈"))
            if is_set and (inner := _IN_BRACKETS.search(lead)):
                lead = inner[1]
            if _OF_SHAPE.search(lead[-60:]):
                return
        cells = (
            [self.figure(cell) for cell in node.args]
            if node.op == "matrix"
            else [self.figure(node)]
        )
        width = node.width or 1
        rows = [cells[k : k + width] for k in range(0, len(cells), width)]
        if alone and not chain.assigned and self._continues(rows, start):
            last = self.values[-1]
            last.rows.append(rows[0])
            last.is_vector = False
            self._lead = self._end(node)
            return
        begin = self.piece.text.rfind("\n", 0, start) + 1
        self.values.append(
            Value(
                self.piece.at[start],
                rows,
                lead[-1000:],
                is_vector=len(rows) == 1 and not is_number,
                is_number=is_number,
                sentence=self.piece.text[max(begin, start - 1000) : start],
                is_assigned=chain.assigned or not alone,
            )
        )
        following = self.tokens[node.end] if node.end < len(self.tokens) else None
        inside = is_number and following is not None and following.text == "}"  # √{d_k = 2}
        if (chain.sides[-1] is node or not is_number) and not inside:
            self._lead = self._end(node)


_LETTER = re.compile(r"[^\W\d_]")
_GAP = re.compile(r"[ \t,]*\n[ \t]*")
_OF_SHAPE = re.compile(r"shape|\bdim|\bsize\b|形状|크기|차원|维度|次元", re.IGNORECASE)
_BETWEEN = re.compile(
    r"(?:[\s,;&$.]|\\q?quad(?![a-zA-Z])|\\[,;\[\]()]|\\\\(?:\[\d[^\]\n]{0,9}\])?|\\begin\{\w+\*?\})+"
)
# “… of itself (v₁ = (1, 2))”
_IN_BRACKETS = re.compile(
    r"[^\W\d_].*(?<!\\)[(（]\s*([A-Za-z][\w₀-₉{}\\^]{0,19}\s*[=≈]\s*)$", re.DOTALL
)
_RESULT = re.compile("#|&|results?|outputs?|out|结果|결과|출력|結果|出力", re.IGNORECASE)
_AFTER_PROSE = frozenset(("word", "number", "newline", "comma"))
_NEVER = frozenset(("newline", "relation", "weak", "other", "comma", "cell", "row", "close", "end"))
