"""What the outputs of a program are, by the names in its cells: each as an equation.

`weights = softmax(Q @ K.T / np.sqrt(2))` and a cell that shows `weights` say together how what is
shown was made. Only what plain assignments say is followed, and loops over the rows of an array
that fill another; a name that is set in another loop, by an unknown function or in a cell that
cannot be parsed is not known from then on.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.written.found import Equality, Value
from regard.written.loops import filled_by
from regard.written.trees import called, equality_of, keeps, operand_of, written
from regard.written.versions import Version

__all__ = ["Shown", "equalities"]

_Seen = tuple[str, ast.expr | Version | None]  # what is printed, and the label before it


@dataclass
class Shown:
    """A cell: its source, and for each of its outputs the values in it."""

    source: str
    printed: list[Value] = field(default_factory=list)  # by print, in order
    displayed: list[Value] = field(default_factory=list)  # the value of its last line
    beside: list[tuple[int, Value]] = field(default_factory=list)  # in comments, with their lines


def equalities(cells: Sequence[Shown]) -> list[Equality]:
    """For each value that is shown and whose making is known: the two as an equation."""
    names: dict[str, Version] = {}
    versions: list[Version] = []
    for cell in cells:
        tree = _parsed(cell.source)
        if tree is None:
            names = {}
            continue
        seen: list[_Seen] = []
        starts = [*(statement.lineno for statement in tree.body[1:]), math.inf]
        for statement, last in zip(tree.body, starts, strict=False):
            new = list(_run(statement, names, versions))
            beside = [value for line, value in cell.beside if statement.lineno <= line < last]
            if len(beside) == 1 and (made := _spoken_of(statement, new, names)) is not None:
                _show(made, beside[0], names, versions)
            seen += new
        for made, value in _matched(tree, seen, cell, names):
            _show(made, value, names, versions)
    found = map(equality_of, versions)
    return [equality for equality in found if equality is not None]


def _show(
    made: ast.expr | Version | None,
    value: Value,
    names: dict[str, Version],
    versions: list[Version],
) -> None:
    """Let what is shown be the value of a name, or of an expression."""
    version = made if isinstance(made, Version) else Version("", made, dict(names))
    if made and version.value is None:
        version.value = value
        if version is not made:
            versions.append(version)


def _spoken_of(
    statement: ast.stmt, printed: list[_Seen], names: dict[str, Version]
) -> ast.expr | Version | None:
    """What a comment beside a statement shows: what it sets, prints or evaluates."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return names.get(name)
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return printed[0][1] if len(printed) == 1 else None
        case ast.Expr(value=made):
            return _version_of(made, names)
        case _:
            return None


def _parsed(source: str) -> ast.Module | None:
    lines = (line for line in source.splitlines() if not re.match(r"\s*[%!]", line))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _run(
    statement: ast.stmt, names: dict[str, Version], versions: list[Version]
) -> Iterator[_Seen]:
    """Follow a statement; what is printed, each under its label, as it is at that time."""
    match statement:
        case ast.Assign(targets=targets, value=made):
            for target in targets:
                _assign(target, made, names, versions)
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
        case ast.FunctionDef():
            uses = frozenset(_names_in(statement))
            names[statement.name] = Version(statement.name, function=statement, uses=uses)
        case ast.ClassDef():
            names.pop(statement.name, None)
        case ast.For() if (filled := filled_by(statement)) is not None:
            before = names.get(filled[0])
            _forget(statement, names)
            if before is not None and _is_empty(before.made):
                _set(*filled, names, versions)
        case _:
            _forget(statement, names)


def _assign(
    target: ast.expr, made: ast.expr, names: dict[str, Version], versions: list[Version]
) -> None:
    match target, made:
        case ast.Name(id=name), _:
            _set(name, made, names, versions)
        case ast.Tuple(elts=several), ast.Tuple(elts=parts) if len(several) == len(parts):
            for each, part in zip(several, parts, strict=True):
                _assign(each, part, names, versions)
        case ast.Tuple(elts=several), ast.Call():
            for k, each in enumerate(several):
                _assign(each, ast.Subscript(made, ast.Constant(k), ast.Load()), names, versions)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Compare() as where), _:
            old = ast.Name(name, ast.Load())
            call = ast.Call(ast.Name("where", ast.Load()), [where, made, old], [])
            _set(name, call, names, versions)
        case _:
            _forget(target, names)


def _set(name: str, made: ast.expr, names: dict[str, Version], versions: list[Version]) -> None:
    used = _names_in(made)
    used = used.union(*(names[n].uses for n in used if n in names))
    known = {n: names[n] for n in used if n in names}
    names[name] = Version(name, made, known)
    versions.append(names[name])


def _is_empty(made: ast.expr | None) -> bool:
    """Whether an array has nothing in it yet."""
    return isinstance(made, ast.Call) and bool(re.match("zeros|empty", called(made)))


def _in_string(string: ast.JoinedStr, names: dict[str, Version]) -> Iterator[_Seen]:
    label = ""
    for part in string.values:
        if isinstance(part, ast.FormattedValue):
            yield label, _version_of(part.value, names)
        elif isinstance(part, ast.Constant):
            label = str(part.value)


def _forget(tree: ast.AST, names: dict[str, Version]) -> None:
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


def _version_of(made: ast.expr, names: dict[str, Version]) -> ast.expr | Version | None:
    """The version that a printed name stands for; another expression is printed for itself."""
    while isinstance(made, ast.Call):
        inner = operand_of(made)
        if inner is None or (not keeps(called(made))):
            break
        made = inner
    if isinstance(made, ast.Name):
        return names.get(made.id)
    return None if isinstance(made, ast.Constant) else made


def _matched(
    tree: ast.Module,
    printed: list[_Seen],
    cell: Shown,
    names: dict[str, Version],
) -> Iterator[tuple[ast.expr | Version | None, Value]]:
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


def _is_number(made: ast.expr | Version | None) -> bool:
    """Whether it is a size or a sum, which is no array."""
    tree = made.made if isinstance(made, Version) else made
    text = written(tree) if tree is not None else ""
    return bool(
        re.search(
            r"\.(?:shape|dtype|ndim)(?:\[.{1,9}\])?$|\.(?:size|item|sum|mean|max|var|std)\(\)$|\.size\(.{1,9}\)$|^len\(|^[\d.]+$",
            text,
        )
    )
