"""What the outputs of a notebook are, by the names in its cells: each as an equation.

`weights = softmax(Q @ K.T / np.sqrt(2))` and a cell that shows `weights` say together how what is
shown was made. Only what plain assignments say is followed; a name that is set in a loop, by an
unknown function or in a cell that cannot be parsed is not known from then on.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.written.figures import Figure
from regard.written.found import Equality, Value
from regard.written.grammar import Node

__all__ = ["Shown", "equalities"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.MatMult: "@",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "^",
    ast.Add: "+",
    ast.Sub: "-",
}
_ARRAYS = re.compile(r"array|asarray|[tT]ensor|FloatTensor|matrix|as_tensor|DataFrame|Parameter")
_PRODUCTS = frozenset(("dot", "matmul", "mm", "mv", "vdot"))
_FUNCTIONS = frozenset(("exp", "sqrt", "log", "tanh", "relu", "sigmoid"))
_SAME = re.compile(
    "round|around|detach|numpy|float|double|clone|copy|tolist|cpu|astype|contiguous|squeeze"
    "|unsqueeze|reshape|view|to|list|print"
)
_TURNED = frozenset(("transpose", "t", "swapaxes"))
_DEEPEST = 40
_LARGEST = 1e30


@dataclass
class Shown:
    """A cell: its source, and for each of its outputs the values in it."""

    source: str
    printed: list[Value] = field(default_factory=list)  # by print, in order
    displayed: list[Value] = field(default_factory=list)  # the value of its last line


@dataclass(eq=False)
class _Version:
    """What a name stands for, from one assignment to the next."""

    name: str
    made: ast.expr | None = None
    names: dict[str, _Version] = field(default_factory=dict)  # as they were when it was made
    value: Value | None = None  # as it was shown


def equalities(cells: Sequence[Shown]) -> list[Equality]:
    """For each value that is shown and whose making is known: the two as an equation."""
    names: dict[str, _Version] = {}
    versions: list[_Version] = []
    for cell in cells:
        tree = _parsed(cell.source)
        if tree is None:
            names = {}
            continue
        seen = list(_run(tree, names, versions))
        for made, value in _matched(tree, seen, cell, names):
            version = made if isinstance(made, _Version) else _Version("", made, dict(names))
            if not made or version.value is not None:
                continue
            version.value = value
            if version is not made:
                versions.append(version)
    found: list[Equality] = []
    for version in versions:
        if version.value is None or version.made is None:
            continue
        builder = _Builder()
        node = builder.tree(version.made, version.names, 0)
        if node is not None and not node.is_literal:
            sides = [node, builder.literal(version.value)]
            text = f"{version.name} = {_written(version.made)}".lstrip(" =")
            start = version.value.start
            found.append(Equality(start, text, sides, builder.figure, by_program=True))
    return found


def _parsed(source: str) -> ast.Module | None:
    lines = (line for line in source.splitlines() if not re.match(r"\s*[%!]", line))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _run(
    tree: ast.Module, names: dict[str, _Version], versions: list[_Version]
) -> Iterator[tuple[str, ast.expr | _Version | None]]:
    """Follow the assignments; what is printed, each under its label, as it is at that time."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=made):
                known = {n: names[n] for n in _names_in(made) if n in names}
                for target in targets:
                    if isinstance(target, ast.Name):
                        names[target.id] = _Version(target.id, made, known)
                        versions.append(names[target.id])
                    else:
                        _forget(target, names)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=args)):
                label = ""
                for part in args:
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        label = part.value
                    elif isinstance(part, ast.JoinedStr):
                        yield from _in_string(part, names)
                    else:
                        yield label, _version_of(part, names)
            case ast.Expr() | ast.Import() | ast.ImportFrom():
                pass
            case ast.FunctionDef() | ast.ClassDef():
                names.pop(statement.name, None)
            case _:
                _forget(statement, names)


def _in_string(
    string: ast.JoinedStr, names: dict[str, _Version]
) -> Iterator[tuple[str, ast.expr | _Version | None]]:
    label = ""
    for part in string.values:
        if isinstance(part, ast.FormattedValue):
            yield label, _version_of(part.value, names)
        elif isinstance(part, ast.Constant):
            label = str(part.value)


def _forget(tree: ast.AST, names: dict[str, _Version]) -> None:
    """Whatever may be set within is not known any more."""
    for node in ast.walk(tree):
        base = node
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        is_set = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_set and isinstance(base, ast.Name):
            names.pop(base.id, None)


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _version_of(made: ast.expr, names: dict[str, _Version]) -> ast.expr | _Version | None:
    """The version that a printed name stands for; another expression is printed for itself."""
    while isinstance(made, ast.Call):
        inner = _operand(made)
        if inner is None or (not _keeps(_called(made))):
            break
        made = inner
    if isinstance(made, ast.Name):
        return names.get(made.id)
    return None if isinstance(made, ast.Constant) else made


def _matched(
    tree: ast.Module,
    printed: list[tuple[str, ast.expr | _Version | None]],
    cell: Shown,
    names: dict[str, _Version],
) -> Iterator[tuple[ast.expr | _Version | None, Value]]:
    """What stands for which value: by their order if they are as many, else by their labels."""
    arrays = [(label, made) for label, made in printed if not _is_number(made)]
    if len(arrays) == len(cell.printed):
        pairs = zip(arrays, cell.printed, strict=True)
        yield from ((made, value) for (_, made), value in pairs)
    else:
        for value in cell.printed:
            said = (value.lead or "".join(value.titles[:1])).strip()
            here = [made for label, made in arrays if label.strip() and label.strip() == said]
            if len(here) == 1:
                yield here[0], value
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and len(cell.displayed) == 1:
        yield _version_of(last.value, names), cell.displayed[0]


def _is_number(made: ast.expr | _Version | None) -> bool:
    """Whether it is a size or a sum, which is no array."""
    tree = made.made if isinstance(made, _Version) else made
    text = _written(tree) if tree is not None else ""
    return bool(
        re.search(
            r"\.(?:shape|dtype|ndim)(?:\[.{1,9}\])?$|\.(?:size|item)\(.{0,9}\)$|^len\(|^[\d.]+$",
            text,
        )
    )


def _keeps(name: str) -> bool:
    """Whether a function only changes how an array is held or printed."""
    return bool(_SAME.fullmatch(name) or _ARRAYS.fullmatch(name))


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _operand(call: ast.Call) -> ast.expr | None:
    """What a function is applied to: `x` in x.round(2), np.round(x, 2), round(x, 2)."""
    function = call.func
    if isinstance(function, ast.Attribute) and not _is_module(function.value):
        return function.value
    return call.args[0] if call.args else None


def _is_module(tree: ast.expr) -> bool:
    return bool(
        re.fullmatch(r"np|numpy|torch|math|tf|F|nn|pd|jnp|sp|scipy(?:\.special)?", _dotted(tree))
    )


def _written(tree: ast.expr) -> str:
    """The source of an expression; nothing if it is nested too deep."""
    try:
        return ast.unparse(tree)
    except RecursionError:
        return ""


def _dotted(tree: ast.expr) -> str:
    text = _written(tree)
    return text.rsplit(".", 1)[-1] if re.fullmatch(r"[\w.]+", text) else ""


class _Builder:
    """Trees of the grammar from those of Python, for one equation."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []
        self._known: dict[int, Node | None] = {}
        self._joins = 0  # one join after another would double an array again and again

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

    def _of(self, version: _Version, depth: int) -> Node | None:
        key = id(version)
        if key not in self._known:
            if version.value is not None:
                self._known[key] = self.literal(version.value)
            elif version.made is not None:
                self._known[key] = self.tree(version.made, version.names, depth + 1)
            else:
                self._known[key] = None
        return self._known[key]

    def tree(self, made: ast.expr, names: dict[str, _Version], depth: int) -> Node | None:
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
        self, op: str, parts: list[ast.expr], names: dict[str, _Version], depth: int
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
        self, inner: ast.expr, index: ast.expr, names: dict[str, _Version], depth: int
    ) -> Node | None:
        """`x.shape[1]`, or one row of a matrix that is written out."""
        try:
            place = ast.literal_eval(index)
        except (ValueError, TypeError):
            return None
        if not isinstance(place, int) or isinstance(place, bool):
            return None
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

    def _call(self, call: ast.Call, names: dict[str, _Version], depth: int) -> Node | None:
        name, operand = _called(call), _operand(call)
        if operand is None:
            return None
        is_method = isinstance(call.func, ast.Attribute) and operand is call.func.value
        if name in _PRODUCTS:
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
        if _keeps(name):
            return self.tree(operand, names, depth + 1)
        return None
