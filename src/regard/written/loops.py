"""Loops over the rows of an array that fill another one, as one expression."""

from __future__ import annotations

import ast

from regard.written.trees import PRODUCTS, called

__all__ = ["filled_by"]


def filled_by(loop: ast.For) -> tuple[str, ast.expr] | None:
    """What a loop sets, and to what; None if it is not such a loop.

    `for i, row in enumerate(x): s[i] = dot(row, q)` fills s with x @ q, and
    `for i, row in enumerate(x): y += w[i] * row` adds up w @ x.

    >>> loop = ast.parse("for i, row in enumerate(x): s[i] = row @ q").body[0]
    >>> name, made = filled_by(loop)
    >>> name, ast.unparse(made)
    ('s', 'x @ q')
    """
    match loop.target, loop.iter:
        case (
            ast.Tuple(elts=[ast.Name(id=index), ast.Name(id=row)]),
            ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name() as array]),
        ) if not loop.orelse:
            steps = [statement for statement in loop.body if not _is_printed(statement)]
        case _:
            return None
    match steps:
        case [ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=at)], value=made)]:
            factors = _factors(made, (ast.MatMult,))
            others = [factor for factor in factors if not _is(factor, row)]
            if _is(at, index) and len(factors) == 2 and len(others) == 1 and _free(others[0], loop):
                return name, _product(array, others[0])
        case [ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=made)]:
            factors = _factors(made, (ast.Mult,))
            others = [factor for factor in factors if not _is(factor, row)]
            match others:
                case [ast.Subscript(value=ast.Name() as weights, slice=at)] if len(factors) == 2:
                    return (name, _product(weights, array)) if _is(at, index) else None
                case _:
                    pass
        case _:
            pass
    return None


def _factors(made: ast.expr, signs: tuple[type[ast.operator], ...]) -> list[ast.expr]:
    """The two sides of a product, by its sign or by a function."""
    match made:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, signs):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner)), args=args) if (
            called(made) in PRODUCTS and ast.MatMult in signs
        ):
            return args if len(args) == 2 else [ast.Name(owner, ast.Load()), *args]
        case _:
            return []


def _is(tree: ast.expr, name: str) -> bool:
    return isinstance(tree, ast.Name) and tree.id == name


def _free(tree: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is the same in every round."""
    own = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return not any(isinstance(node, ast.Name) and node.id in own for node in ast.walk(tree))


def _is_printed(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr)


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.BinOp(left, ast.MatMult(), right)
