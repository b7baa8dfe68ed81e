"""The grammar of expressions: tokens to trees, by recursive descent.

    expression = term {(+ | −) term}        term = factor {(· | × | * | @ | /) factor | factor}
    factor     = [−] primary {^ exponent | ᵀ | _ index}
    primary    = number | vector | matrix | ( expression ) | \\frac | √ | function( … ) | name

Nothing is tried twice but what stands in brackets, and those are entered at most 24 deep: the time
grows with the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.written.nodes import Node
from regard.written.tokens import Token

__all__ = ["Grammar"]

_DEPTH = 24
_FACTORS = 24
_BLANKS = 3  # line breaks before a “+” that stands alone
_WORDS = 4  # below it, that name what is added
_FUNCTION = re.compile(
    "softmax|exp|sqrt|log|ln|sin|cos|tanh|max|min|relu|sum|mean|abs|sigmoid|concat|dot"
    "|layernorm|gelu|silu|var|variance|std|squashed"
)
_WRAPPER = re.compile("constant|Variable|(?:as)?array|[tT]ensor|FloatTensor|[mM]atrix|mat|vector")
_QUOTES = frozenset("|'\"‘’“”")
_OPERATIONS = dict(zip("·•⋅∙×*⊙∘@/", "····×***@/", strict=True))


class Grammar:
    """Reads expressions from tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self._brackets: dict[int, Node | None] = {}  # what starts at a bracket, once it is read

    def expression(self, i: int, stop: int | None = None, depth: int = 0) -> Node | None:
        """The longest expression that starts at token `i`, or None."""
        stop = len(self.tokens) if stop is None else stop
        if depth > _DEPTH:
            return None
        first = self._term(i, stop, depth)
        if first is None:
            return None
        terms, signs = [first], "+"
        while True:
            j = self._inside(terms[-1].end, stop, depth)
            token = self._at(j, stop)
            if token is None or token.kind != "operator" or token.text not in "+-":
                break
            term = self._term(self._after(j, stop), stop, depth)
            if term is None:
                break
            terms.append(term)
            signs += token.text
        if len(terms) == 1:
            return first
        return Node("plus", i, terms[-1].end, terms, signs=signs)

    def _at(self, i: int, stop: int) -> Token | None:
        return self.tokens[i] if i < stop else None

    def _after(self, i: int, stop: int) -> int:
        """The place after an operator: its right side may stand on the next line.

        Below a “+” that stands alone a line of words may say what is added.
        """
        i += 1
        start = i
        while i < stop and self.tokens[i].kind in ("newline", "cell"):
            i += 1
        if i > start and self.tokens[start - 1].text == "+" and start > 1:
            k = i
            while k < stop and self.tokens[k].kind == "word" and k < i + _WORDS:
                k += 1
            named = k > i and self.tokens[start - 2].kind == "newline"
            while k < stop and named and self.tokens[k].kind == "newline":
                k += 1
            if k < stop and self.tokens[k].text == "[" and self.tokens[k - 1].kind == "newline":
                return k
        return i

    def _inside(self, i: int, stop: int, depth: int) -> int:
        """In brackets a line break is a blank; so it is before an operator that starts a line."""
        if i >= stop or self.tokens[i].kind != "newline":
            return i
        k = i
        while not depth and k < stop and self.tokens[k].kind == "newline":
            k += 1
        if i < k < stop - 1 and self.tokens[k].kind == "operator":
            alone = self.tokens[k + 1].kind == "newline"
            if k == i + 1:
                return k if alone or self.tokens[k].text in "+×·/" else i
            return k if alone and self.tokens[k].text == "+" and k <= i + _BLANKS else i
        while depth and i < stop and self.tokens[i].kind == "newline":
            i += 1
        return i

    def _term(self, i: int, stop: int, depth: int) -> Node | None:
        left = self._factor(i, stop, depth)
        for _ in range(_FACTORS):
            if left is None:
                return None
            j = self._inside(left.end, stop, depth)
            token = self._at(j, stop)
            if token is None:
                return left
            if token.kind == "operator" and token.text in _OPERATIONS:
                right, op = self._factor(self._after(j, stop), stop, depth), _OPERATIONS[token.text]
            elif self._juxtaposed(left, token):
                right, op = self._factor(j, stop, depth), "·"
            else:
                return left
            if right is None:
                return left
            left = Node(op, left.start, right.end, [left, right])
            if op in "×·*" and right.op == "^" and self._is_scientific(*left.args):
                left.op = "scientific"
        return left

    def _is_scientific(self, left: Node, right: Node) -> bool:
        """`1.5 · 10^3`."""
        bare = left.args[0] if left.op == "neg" else left
        of_ten = self.tokens[right.start].text == "10" and right.args[1].is_number
        return bare.op == "number" and of_ten

    def _juxtaposed(self, left: Node, token: Token) -> bool:
        """`0.5[1, 2]`, `(1)(2)`, a matrix beside a matrix, `2x`."""
        if token.kind in ("begin", "frac", "root"):
            return True
        if token.kind == "open":
            return not token.gap and token.text in "(["
        return token.kind == "word" and not token.gap and left.op in ("number", "name", "unknown")

    def _factor(self, i: int, stop: int, depth: int) -> Node | None:
        token = self._at(i, stop)
        if token is None or depth > _DEPTH:
            return None
        if token.kind == "operator" and token.text in "+-":
            inner = self._factor(i + 1, stop, depth + 1)
            if inner is None:
                return None
            return Node("neg", i, inner.end, [inner]) if token.text == "-" else inner
        node = self._primary(i, stop, depth)
        for _ in range(_FACTORS):
            if node is None or node.end >= stop:
                break
            token = self.tokens[node.end]
            if token.kind == "transpose":
                node = Node("T", i, node.end + 1, [node])
            elif token.kind == "power":
                node = Node("^", i, node.end + 1, [node, Node("number", node.end, node.end + 1)])
            elif token.kind == "sup":
                exponent = self._script(node.end + 1, stop, depth)
                if exponent is None:
                    return Node("unknown", i, node.end + 1)
                text = self.tokens[exponent.start].text
                if text == "T" or (text in "{(" and self.tokens[exponent.start + 1].text == "T"):
                    node = Node("T", i, exponent.end, [node])
                elif node.op == "name" and self.tokens[i].text == "e":
                    node = Node("exp", i, exponent.end, [exponent])
                elif node.op in ("name", "unknown"):
                    node = Node("name", i, exponent.end)
                else:
                    node = Node("^", i, exponent.end, [node, exponent])
            elif token.kind in ("sub", "digit") or token.text == "!":
                index = self._script(node.end + 1, stop, depth) if token.kind == "sub" else None
                end = index.end if index is not None else node.end + 1
                if node.op not in ("name", "unknown") or token.text == "!":
                    return Node("unknown", i, end)
                node = Node("name", i, end)
            else:
                break
        return node

    def _script(self, i: int, stop: int, depth: int) -> Node | None:
        """What is raised or lowered: a group, or one token."""
        token = self._at(i, stop)
        if token is None:
            return None
        if token.kind == "open" and token.partner > 0 and token.text in "{(":
            inner = self.expression(i + 1, token.partner, depth + 1)
            if inner is not None and inner.end == token.partner:
                return Node("group", i, token.partner + 1, [inner])
            return Node("unknown", i, token.partner + 1)
        if token.kind == "operator" and token.text in "+-":
            inner = self._script(i + 1, stop, depth + 1) if depth <= _DEPTH else None
            return inner and Node("neg", i, inner.end, [inner])
        if token.kind in ("number", "word", "frac", "root"):
            return self._primary(i, stop, depth + 1)
        return None

    def _primary(self, i: int, stop: int, depth: int) -> Node | None:
        token = self.tokens[i]
        if token.kind == "number":
            return Node("number", i, i + 1)
        if token.kind == "word":
            return self._word(i, stop, depth)
        if token.kind == "frac":
            top = self._script(i + 1, stop, depth + 1) if depth <= _DEPTH else None
            bottom = top and self._script(top.end, stop, depth + 1)
            return bottom and Node("frac", i, bottom.end, [top, bottom]) if top else None
        if token.kind == "root":
            under = self._factor(i + 1, stop, depth + 1)
            return under and Node("sqrt", i, under.end, [under])
        if token.kind == "begin":
            return self._environment(i, depth)
        if token.kind == "open" and i < token.partner < stop:
            if i not in self._brackets:
                self._brackets[i] = self._bracket(i, depth)
            return self._brackets[i]
        return None

    def _word(self, i: int, stop: int, depth: int) -> Node | None:
        """A function with its arguments, `np.array(…)`, or a name; prose is none of these."""
        last, following = i, self._at(i + 1, stop)
        while following is not None and following.text == "." and last + 2 < stop:  # np.exp
            word = self.tokens[last + 2]
            if word.kind != "word" or following.gap or word.gap:
                break
            last += 2
            following = self._at(last + 1, stop)
        name = self.tokens[last].text
        called = following is not None and following.kind == "open" and following.partner < stop
        function = name.casefold().removesuffix("_")
        if called and following is not None and following.text in "([{":
            known = _FUNCTION.fullmatch(function)
            if _WRAPPER.fullmatch(name) or (known and (not following.gap or following.text != "{")):
                end = following.partner + 1
                arguments = self._elements(last + 2, end - 1, depth + 1)
                if arguments is not None and not _WRAPPER.fullmatch(name):
                    return Node(function, i, end, arguments)
                if arguments and arguments[0].op == "matrix":
                    return Node("matrix", i, end, arguments[0].args, arguments[0].width)
                return Node("unknown", i, end)
            is_prose = len(name) > 12 or not name.isascii()
            if not following.gap and following.text in "([" and not is_prose:
                return Node("unknown", i, following.partner + 1)
        script = following is not None and following.kind in ("sub", "sup", "digit", "transpose")
        is_symbol = len(name) == 1 and (name.isascii() or "α" <= name <= "ω")
        is_name = script or is_symbol or (last > i and name.isascii())
        return Node("name", i, last + 1) if is_name else None

    def _bracket(self, i: int, depth: int) -> Node | None:
        token = self.tokens[i]
        end = token.partner
        if token.text in "({":
            inner = self.expression(i + 1, end, depth + 1)
            if inner is not None and self._inside(inner.end, end, 1) == end:
                return Node("group", i, end + 1, [inner])
            if token.text == "{":
                return None
        elements = self._elements(i + 1, end, depth + 1)
        if not elements or all(element.op in ("unknown", "name") for element in elements):
            return None
        if token.text == "(" and len(elements) < 2:
            return None
        node = self._stacked(i, end + 1, elements)
        node.round = token.text == "("
        return node

    @staticmethod
    def _stacked(start: int, end: int, elements: list[Node]) -> Node:
        """Rows on rows are a matrix; numbers side by side a vector."""
        widths = {e.width if e.op == "matrix" else 0 for e in elements}
        if widths == {0}:
            return Node("matrix", start, end, elements, len(elements))
        if len(widths) == 1:
            cells = [cell for row in elements for cell in row.args]
            return Node("matrix", start, end, cells, widths.pop())
        return Node("unknown", start, end)

    def _elements(self, i: int, end: int, depth: int) -> list[Node] | None:
        """The elements of a list between brackets; None if it is nested too deeply.

        Between commas stand expressions; without commas a blank separates: `[1 -2]` is two numbers.
        """
        if depth > _DEPTH:
            return None
        outer = (self.tokens[k] for k in self._outer(i, end))
        marks = {
            token.kind == "row" or token.text in ";；"
            for token in outer
            if token.kind in ("comma", "row")
        }
        commas, semicolons = False in marks, True in marks
        rows: list[list[Node]] = [[]]
        elements = rows[0]
        while i < end:
            token = self.tokens[i]
            if elements and (
                token.kind == "row" or (token.kind == "comma" and token.text in ";；")
            ):
                elements = []
                rows.append(elements)
            quotes = token.kind == "junk" and token.text in _QUOTES
            if quotes or token.kind in ("newline", "cell", "row", "comma"):
                i += 1
                continue
            node = (self.expression if commas else self._blank_separated)(i, end, depth)
            after = node.end if node is not None else i
            if node is None or not self._ends(after, end, commas):
                # What cannot be read, up to the next comma.
                outer = self._outer(after, end)
                ends = (k for k in outer if self.tokens[k].kind in ("comma", "row"))
                after = next(ends, end)
                node = Node("unknown", i, after)
            elements.append(node)
            i = after
        rows = [row for row in rows if row]
        if semicolons and len(rows) > 1:
            if not commas and all(len(row) == 1 for row in rows):
                return [row[0] for row in rows]
            return [Node("matrix", r[0].start, r[-1].end, r, len(r)) for r in rows]
        return rows[0] if rows else []

    def _outer(self, i: int, end: int) -> Iterator[int]:
        """The tokens from `i` on that stand in no brackets of their own."""
        while i < end:
            yield i
            token = self.tokens[i]
            i = token.partner + 1 if token.kind in ("open", "begin") else i + 1

    def _ends(self, i: int, end: int, commas: bool) -> bool:
        i = self._inside(i, end, 1)
        if i >= end:
            return True
        token = self.tokens[i]
        if token.kind in ("comma", "row", "cell") or token.text in _QUOTES:
            return True
        return not commas and (token.gap or self.tokens[i - 1].kind == "newline")

    def _blank_separated(self, i: int, end: int, depth: int) -> Node | None:
        token = self.tokens[i]
        if token.kind == "open" and token.text == "[" and token.partner < end:
            return self._bracket(i, depth)
        last = i + 1 if token.kind == "operator" and token.text in "+-" else i
        number = self._at(last, end)
        if number is not None and number.kind == "number" and not (last > i and number.gap):
            following, then = self._at(last + 1, end), self.tokens[min(last + 2, end - 1)]
            is_sign = following is not None and following.gap and following.text in "+-"
            if following is None or following.kind != "operator" or (is_sign and not then.gap):
                node = Node("number", last, last + 1)
                return node if last == i else Node("neg", i, last + 1, [node])
        return self.expression(i, end, depth)

    def _environment(self, i: int, depth: int) -> Node | None:
        """`\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}`."""
        end = self.tokens[i].partner
        rows: list[list[Node]] = []
        row: list[Node] = []
        start = i + 1
        for k in (*self._outer(start, end), end):
            token = self.tokens[k]
            if k == end or token.kind in ("cell", "row"):
                cell = self._cell(start, k, depth)
                if cell is not None:
                    row.append(cell)
                start = k + 1
                if token.kind != "cell" and row:
                    rows.append(row)
                    row = []
        if not rows or len({len(row) for row in rows}) > 1:
            return Node("unknown", i, end + 1)
        return Node("matrix", i, end + 1, [c for r in rows for c in r], len(rows[0]))

    def _cell(self, start: int, end: int, depth: int) -> Node | None:
        while start < end and self.tokens[start].kind == "newline":
            start += 1
        while end > start and self.tokens[end - 1].kind in ("newline", "comma"):
            end -= 1
        if start == end:
            return None
        node = self.expression(start, end, depth + 1)
        return node if node is not None and node.end == end else Node("unknown", start, end)
