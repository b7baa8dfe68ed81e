"""Expressions of Python as trees of the grammar, for what names stand for."""

from __future__ import annotations

import ast
import re
from math import inf

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.masks import Grid, compared, constant, filled, triangle
from regard.written.nodes import Node
from regard.written.versions import Version, applied

__all__ = ["PRODUCTS", "called", "equality_of", "keeps", "operand_of", "written"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.MatMult: "@",
    ast.Mult: "⊙",
    ast.Div: "/",
    ast.Pow: "^",
    ast.Add: "+",
    ast.Sub: "-",
}
_ARRAYS = re.compile(r"array|asarray|[tT]ensor|FloatTensor|matrix|as_tensor|DataFrame|Parameter")
PRODUCTS = frozenset(("dot", "matmul", "mm", "mv", "vdot"))
_FUNCTIONS = frozenset(("exp", "sqrt", "log", "tanh", "relu", "sigmoid"))
_SAME = re.compile(
    "round|around|detach|numpy|float|double|clone|copy|tolist|cpu|astype|contiguous|squeeze"
    "|unsqueeze|reshape|view|to|list|print|bool"
)
_TURNED = frozenset(("transpose", "t", "swapaxes"))
_INFINITE = re.compile(r"(?:np|numpy|torch|math)\.(?:inf|infty|Inf)")
_CONSTANTS = frozenset(("ones", "zeros", "eye"))
_MASKS = _CONSTANTS | {"tril", "triu", "masked_fill", "where"}
_BY_ROWS = frozenset(("mean", "var", "std", "sum", "max", "amax"))
_MOST_CALLS = 24  # of a program's own functions, one in another
_DEEPEST = 40
_LARGEST = 1e30


def equality_of(version: Version) -> Equality | None:
    """What is shown of a name and how it was made, as an equation; None if that is not known."""
    if version.value is None or version.made is None:
        return None
    builder = _Builder()
    node = builder.tree(version.made, version.names, 0)
    if node is None or node.is_literal:
        return None
    sides = [node, builder.literal(version.value)]
    text = f"{version.name} = {written(version.made)}".lstrip(" =")
    return Equality(version.value.start, text, sides, builder.figure, by_program=True)


def keeps(name: str) -> bool:
    """Whether a function only changes how an array is held or printed."""
    return bool(_SAME.fullmatch(name) or _ARRAYS.fullmatch(name))


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def operand_of(call: ast.Call) -> ast.expr | None:
    """What a function is applied to: `x` in x.round(2), np.round(x, 2), round(x, 2)."""
    function = call.func
    if isinstance(function, ast.Attribute) and not _is_module(function.value):
        return function.value
    return call.args[0] if call.args else None


def _is_module(tree: ast.expr) -> bool:
    return bool(
        re.fullmatch(r"np|numpy|torch|math|tf|F|nn|pd|jnp|sp|scipy(?:\.special)?", _dotted(tree))
    )


def written(tree: ast.expr) -> str:
    """The source of an expression; nothing if it is nested too deep."""
    try:
        return ast.unparse(tree)
    except RecursionError:
        return ""


def _dotted(tree: ast.expr) -> str:
    text = written(tree)
    return text.rsplit(".", 1)[-1] if re.fullmatch(r"[\w.]+", text) else ""


class _Builder:
    """Trees of the grammar from those of Python, for one equation."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []
        self._known: dict[int, Node | None] = {}
        self._joins = 0  # one join after another would double an array again and again
        self._calls = 0

    def figure(self, node: Node) -> Figure:
        return self._figures[node.start]

    def literal(self, value: Value) -> Node:
        return self._matrix([f for row in value.rows for f in row], value.shape[1])

    def _matrix(self, figures: list[Figure], width: int) -> Node:
        return Node("matrix", 0, 0, [self._number(figure) for figure in figures], width)

    def _number(self, figure: Figure) -> Node:
        self._figures.append(figure)
        return Node("number", len(self._figures) - 1, len(self._figures))

    def _exact(self, value: float) -> Figure:
        return Figure("", -1, float(value), 0.0)

    def _of(self, version: Version, depth: int) -> Node | None:
        key = id(version)
        if key not in self._known:
            if version.value is not None:
                self._known[key] = self.literal(version.value)
            elif version.made is not None:
                self._known[key] = self.tree(version.made, version.names, depth + 1)
            else:
                self._known[key] = None
        return self._known[key]

    def tree(self, made: ast.expr, names: dict[str, Version], depth: int) -> Node | None:
        """The same expression; None if something in it is not known."""
        if depth > _DEEPEST:
            return None
        match made:
            case ast.Name(id=name):
                return self._of(names[name], depth) if name in names else None
            case ast.Constant(value=bool() | str() | None):
                return None
            case ast.Constant(value=int() | float() as number) if abs(number) < _LARGEST:
                return self._number(self._exact(number))
            case ast.List() | ast.Tuple():
                return self._list(made)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._with("neg", [inner], names, depth)
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                grid = self._grid(inner, names, depth)
                return self._written_out(compared(grid, ast.Eq(), 0.0) if grid else None)
            case ast.Compare(left=left, ops=[sign], comparators=[ast.Constant(value=int() as to)]):
                grid = self._grid(left, names, depth)
                return self._written_out(compared(grid, sign, to) if grid else None)
            case ast.Attribute() if _INFINITE.fullmatch(written(made)):
                return self._number(self._exact(inf))
            case ast.Attribute(value=inner, attr="T"):
                return self._with("T", [inner], names, depth)
            case ast.Subscript(value=inner, slice=index):
                return self._part(inner, index, names, depth)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                sign = _OPERATORS[type(op)]
                node = self._with("plus" if sign in "+-" else sign, [left, right], names, depth)
                if node is not None and sign in "+-":
                    node.signs = "+" + sign
                return node
            case ast.Call():
                return self._call(made, names, depth)
            case _:
                return None

    def _with(
        self, op: str, parts: list[ast.expr], names: dict[str, Version], depth: int
    ) -> Node | None:
        nodes = [self.tree(part, names, depth + 1) for part in parts]
        known = [node for node in nodes if node is not None]
        return Node(op, 0, 0, known) if len(known) == len(nodes) else None

    def _list(self, made: ast.List | ast.Tuple) -> Node | None:
        """Numbers in brackets, row by row, which are exact."""
        try:
            content = ast.literal_eval(made)
        except (ValueError, TypeError, MemoryError):
            return None
        rows = content if content and isinstance(content[0], list | tuple) else [content]
        cells = [cell for row in rows for cell in row] if rows else []
        if not cells or len({len(row) for row in rows}) > 1:
            return None
        if not all(type(cell) in (int, float) and abs(cell) < _LARGEST for cell in cells):
            return None
        return self._matrix([self._exact(cell) for cell in cells], len(rows[0]))

    def _part(
        self, inner: ast.expr, index: ast.expr, names: dict[str, Version], depth: int
    ) -> Node | None:
        """`x.shape[1]`, one row of a matrix that is written out, or one of what is returned."""
        try:
            place = ast.literal_eval(index)
        except (ValueError, TypeError):
            return None
        if not isinstance(place, int) or isinstance(place, bool):
            return None
        if isinstance(inner, ast.Call) and (returned := self._applied(inner, names)) is not None:
            made, local = returned
            several = made.elts if isinstance(made, ast.Tuple) else []
            within = -len(several) <= place < len(several)
            return self.tree(several[place], local, depth + 1) if within else None
        is_shape = isinstance(inner, ast.Attribute) and inner.attr == "shape"
        owner = inner.value if isinstance(inner, ast.Attribute) and is_shape else inner
        node = self.tree(owner, names, depth + 1)
        if node is None or node.op != "matrix":
            return None
        rows = [node.args[k : k + node.width] for k in range(0, len(node.args), node.width)]
        sizes = (len(rows), node.width) if len(rows) > 1 else (node.width,)
        if is_shape and -len(sizes) <= place < len(sizes):
            return self._number(self._exact(sizes[place]))
        if not is_shape and len(rows) > 1 and -len(rows) <= place < len(rows):
            return Node("matrix", 0, 0, rows[place], node.width)
        return None

    def _applied(
        self, call: ast.Call, names: dict[str, Version]
    ) -> tuple[ast.expr, dict[str, Version]] | None:
        """What a function of the program returns."""
        version = names.get(called(call)) if isinstance(call.func, ast.Name) else None
        if version is None or version.function is None or self._calls >= _MOST_CALLS:
            return None
        self._calls += 1
        return applied(version.function, call, names)

    def _call(self, call: ast.Call, names: dict[str, Version], depth: int) -> Node | None:
        name, operand = called(call), operand_of(call)
        if operand is None:
            return None
        if len(call.args) > 1 and (returned := self._applied(call, names)) is not None:
            return self.tree(*returned, depth + 1)
        if name in _MASKS:
            return self._mask(call, operand, names, depth)
        if name == "float" and isinstance(operand, ast.Constant) and operand.value == "-inf":
            return self._number(self._exact(-inf))
        if name in _BY_ROWS:
            return self._with(f"row{name}", [operand], names, depth) if _by_rows(call) else None
        is_method = isinstance(call.func, ast.Attribute) and operand is call.func.value
        if name in PRODUCTS:
            parts = [operand, *call.args] if is_method else call.args
            return self._with("@", parts, names, depth) if len(parts) == 2 else None
        if "softmax" in name.lower() and "log" not in name.lower():
            return self._with("softmax", [operand], names, depth)
        if name in _TURNED:
            return self._with("T", [operand], names, depth)
        if name in ("size", "len"):
            parts = call.args if is_method else [ast.Constant(0)]
            shape = ast.Attribute(operand, "shape", ast.Load())
            return self._part(shape, parts[0], names, depth) if parts else None
        if name in ("hstack", "concatenate", "cat") and isinstance(operand, ast.List | ast.Tuple):
            self._joins += 1
            if self._joins > 1:
                return None
            return self._with("concat", operand.elts, names, depth)
        if name in _FUNCTIONS and not (is_method and call.args):
            return self._with(name, [operand], names, depth)
        if keeps(name):
            return self.tree(operand, names, depth + 1)
        return None

    # ── masks ────────────────────────────────────────────────────────────────────────────────

    def _grid(self, made: ast.expr, names: dict[str, Version], depth: int) -> Grid | None:
        """The numbers of a matrix that is written out or was made of ones."""
        node = self.tree(made, names, depth + 1)
        if node is None or not node.is_literal:
            return None
        cells = [self.figure(cell).value for cell in (node.args or [node]) if cell.op == "number"]
        width = node.width or 1
        whole = len(cells) == max(1, len(node.args))
        return [cells[k : k + width] for k in range(0, len(cells), width)] if whole else None

    def _written_out(self, grid: Grid | None) -> Node | None:
        if not grid:
            return None
        return self._matrix([self._exact(cell) for row in grid for cell in row], len(grid[0]))

    def _size(self, made: ast.expr, names: dict[str, Version], depth: int) -> float:
        grid = self._grid(made, names, depth)
        return grid[0][0] if grid and len(grid) == len(grid[0]) == 1 else 0.5

    def _mask(
        self, call: ast.Call, operand: ast.expr, names: dict[str, Version], depth: int
    ) -> Node | None:
        """Ones, a triangle, or scores with a mask filled in."""
        name = called(call)
        if name in _CONSTANTS:
            sides = operand.elts if isinstance(operand, ast.Tuple) else call.args
            sizes = [self._size(side, names, depth) for side in sides]
            return self._written_out(constant(name, sizes))
        others = [part for part in call.args if part is not operand]
        if name in ("tril", "triu"):
            grid = self._grid(operand, names, depth)
            moved = [k.value for k in call.keywords if k.arg in ("diagonal", "k")] + others
            k = self._size(moved[0], names, depth) if moved else 0.0
            known = grid is not None and k.is_integer()
            return self._written_out(triangle(name, grid, k)) if grid and known else None
        parts = [*others, operand] if name == "masked_fill" else call.args
        if len(parts) != 3:
            return None
        where, new = self._grid(parts[0], names, depth), self.tree(parts[1], names, depth + 1)
        if where is not None and self._number_of(new) is None:  # where(mask, scores, -inf)
            where, new = compared(where, ast.Eq(), 0.0), self.tree(parts[2], names, depth + 1)
            parts = [parts[0], parts[2], parts[1]]
        old = self._grid(parts[2], names, depth)
        fill = self._number_of(new)
        if where is None or fill is None:
            return None
        if old is not None:
            return self._written_out(filled(where, fill, old))
        # What is filled in is far below all scores: added, it is the same.
        scores = self.tree(parts[2], names, depth + 1)
        empty = [[0.0] * len(row) for row in where]
        mask = self._written_out(filled(where, fill, empty))
        if scores is None or mask is None or fill > -1e4:
            return None
        return Node("plus", 0, 0, [scores, mask], signs="++")

    def _number_of(self, node: Node | None) -> float | None:
        if node is not None and node.op == "neg":
            inner = self._number_of(node.args[0])
            return None if inner is None else -inner
        return self.figure(node).value if node is not None and node.op == "number" else None


def _by_rows(call: ast.Call) -> bool:
    """Whether a mean or a sum is taken of each row, and stands in a column."""
    words = {keyword.arg: written(keyword.value) for keyword in call.keywords}
    axes = [words[name] for name in ("axis", "dim") if name in words]
    axes += [written(part) for part in call.args[-1:]] if not axes else []
    kept = "True" in (words.get("keepdim"), words.get("keepdims"))
    return kept and axes[:1] in (["-1"], ["1"])
