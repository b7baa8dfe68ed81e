"""What the names of a program stand for, and what its own functions return."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from regard.written.found import Value

__all__ = ["Version", "applied"]


@dataclass(eq=False)
class Version:
    """What a name stands for, from one assignment to the next."""

    name: str
    made: ast.expr | None = None
    names: dict[str, Version] = field(default_factory=dict)  # as they were when it was made
    value: Value | None = None  # as it was shown
    function: ast.FunctionDef | None = None  # which it is
    uses: frozenset[str] = frozenset()  # the names in that function


def applied(
    function: ast.FunctionDef, call: ast.Call, names: dict[str, Version]
) -> tuple[ast.expr, dict[str, Version]] | None:
    """What a call returns, and what the names in that stand for; None where it cannot be told.

    >>> function, call = ast.parse("def f(x, y=None):\\n  z = x @ x.T\\n  return z\\nf(u)").body
    >>> returned, names = applied(function, call.value, {})
    >>> ast.unparse(returned), ast.unparse(names["z"].made)
    ('z', 'x @ x.T')
    """
    given = _arguments(function, call)
    if given is None:
        return None
    local = names | {name: Version(name, made, names) for name, made in given.items()}
    return _returned(function.body, local)


def _arguments(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    parts = function.args
    names = [argument.arg for argument in (*parts.posonlyargs, *parts.args)]
    first = len(names) - len(parts.defaults)
    given = dict(zip(names[first:], parts.defaults, strict=True))
    given |= dict(zip(names, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    plain = not (parts.vararg or parts.kwarg or parts.kwonlyargs)
    return given if plain and set(given) == set(names) else None


def _returned(
    body: list[ast.stmt], local: dict[str, Version]
) -> tuple[ast.expr, dict[str, Version]] | None:
    """Follow statements up to the one that returns."""
    for k, statement in enumerate(body):
        match statement:
            case ast.Return(value=ast.expr() as value):
                return value, local
            case ast.Assign(targets=[ast.Name(id=name)], value=made):
                local = local | {name: Version(name, made, local)}
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=made):
                total = ast.BinOp(ast.Name(target.id, ast.Load()), op, made)
                local = local | {name: Version(name, total, local)}
            case ast.If(test=test, body=then, orelse=otherwise):
                holds = _holds(test, local)
                if holds is None:
                    return None
                return _returned([*(then if holds else otherwise), *body[k + 1 :]], local)
            case ast.Expr():
                pass
            case _:
                return None
    return None


def _holds(test: ast.expr, local: dict[str, Version]) -> bool | None:
    """Whether `x is not None`, `x is None` or `x` holds; None if that is not known."""
    match test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as sign], comparators=[right]
        ) if isinstance(right, ast.Constant) and right.value is None:
            wanted = isinstance(sign, ast.Is)
        case ast.Name(id=name):
            wanted = False
        case _:
            return None
    made = local[name].made if name in local else None
    while isinstance(made, ast.Name) and made.id in local and made.id != name:
        made = local[made.id].made
    if made is None or (isinstance(made, ast.Constant) and made.value is not None):
        return None
    return (isinstance(made, ast.Constant)) == wanted
