"""Products and sums of matrices that are called by letters: each as an equation.

`B C = [[…]]` below `B = [[…]]` and `C = [[…]]`. What has a part in attention is left to its chain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from regard.written.found import Equality, Value
from regard.written.names import name_of
from regard.written.trees import equality_of
from regard.written.versions import Version

__all__ = ["by_symbols"]

_FONTS = re.compile(
    r"\\(?:boldsymbol|mathbf|mathrm|mathit|bm|bf|vec|left|right)\b\s*|[{}$&`]|\\[,;!]"
)
_LETTER = r"[A-Za-z](?:_\w{1,3}|['′₀-₉])?"
_TURNED = r"\^\s*(?:T|\\top|⊤)|ᵀ"
_ALONE = re.compile(rf"(?:^|[\s,;:(])({_LETTER})\s*$")
_TWO = re.compile(
    rf"(?:^|[\s,;:(])({_LETTER})({_TURNED})?\s*(\\cdot|\\times|\\odot|[·×@⊙∘+−-])?\s*"
    rf"({_LETTER})({_TURNED})?\s*$"
)
_SIGNS: dict[str, ast.operator] = {
    **dict.fromkeys(("\\odot", "⊙", "∘"), ast.Mult()),
    "+": ast.Add(),
    **dict.fromkeys("−-", ast.Sub()),
}


def by_symbols(values: list[Value]) -> Iterator[Equality]:
    """An equation for each matrix left of which two letters stand that were set before."""
    known: dict[str, Version] = {}
    for value in values:
        parts = _FONTS.sub(" ", value.lead[-200:]).split("=")
        if value.is_number or value.is_code or len(parts) < 2 or parts[-1].strip():
            continue
        if two := _TWO.search(parts[-2]):
            left, left_turned, sign, right, right_turned = two.groups()
            if left in known and right in known and name_of(value.lead) is None:
                made = ast.BinOp(
                    _operand("left", left_turned),
                    _SIGNS.get(sign or "", ast.MatMult()),
                    _operand("right", right_turned),
                )
                names = {"left": known[left], "right": known[right]}
                equality = equality_of(Version("", made, names, value))
                if equality is not None:
                    equality.text = " ".join(value.lead.split())[-60:]
                    yield equality
        for part in parts[:-1]:
            if alone := _ALONE.search(part):
                known[alone[1]] = Version(alone[1], value=value)


def _operand(name: str, turned: str | None) -> ast.expr:
    operand = ast.Name(name, ast.Load())
    return ast.Attribute(operand, "T", ast.Load()) if turned else operand
