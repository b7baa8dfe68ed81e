"""What a text says of sizes, shapes and sums, in words and symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from regard.written.found import Claim
from regard.written.names import plain
from regard.written.source import Source

__all__ = ["sayings", "shapes_in", "size_named"]

_SIZE = r"(?:[^{}×,\n]|\{[^{}\n]*\}){1,40}?"
_SHAPE = re.compile(
    r"(?P<name>[A-Za-z](?:_(?:\{[^{}\n]{1,20}\}|\w{1,8}))?)(?![A-Za-z_{])"
    r"[^$\n∈]{0,200}?(?:\\in|∈)\s*(?:\\mathbb\{?\s?R\}?|R|ℝ)\s*\^\s*\{\s*"
    rf"(?P<rows>{_SIZE})\s*(?:\\times|×)\s*(?P<columns>{_SIZE})\s*\}}"
)
_PRODUCT = re.compile(r"(?P<name>[A-Z])\s*=\s*(?P<factors>[A-Z][A-Za-z_{}^\s]{1,60})")
_FACTOR = re.compile(r"[A-Z](?:_(?:\{[^{}]{1,20}\}|[A-Za-z]{1,8}(?![a-z])))?")
# “the rows of the output sum to 1”, in some languages; not where it is about weights.
_SUMS = re.compile(
    r"(?:outputs?|context vectors?)\b[^.\n]{0,60}\bsums? (?:up )?to (?:1|one)\b"
    r"|(?:value|값|V)\S{0,3} ?의? ?(?:행렬)?곱[^.\n]{0,40}합은[^.\n]{0,12}1"
    r"|输出[^。\n]{0,20}(?:之和|的和|和)(?:都|均)?(?:为|是|等于) ?1",
    re.IGNORECASE,
)
_OF_WEIGHTS = re.compile(
    r"softmax|weight|probab|가중치|확률|权重|概率|\bnot\b|n't|아니", re.IGNORECASE
)

_DECOMPOSED = re.compile(r"\\Sigma|Σ|\bSVD\b")  # whose V is another

_SIZES = {
    "d_model": re.compile(r"(?:^|[^a-z])d_?model$|embedding_?(?:size|dim(?:ension)?)$"),
    "d_k": re.compile(r"(?:^|[^a-z])d_?k$"),
    "d_v": re.compile(r"(?:^|[^a-z])d_?v$"),
    "n": re.compile(r"^n$"),
}
_SHAPE_OF = re.compile(
    r"([A-Za-z][A-Za-z_^{}\d\\]*)\s*(?:\\in|∈)\s*\\*(?:mathbb\{R\}|mathbb R|R|ℝ)\s*\^\s*"
    r"(?:\{\s*([^{}×]+?)\s*(?:×|\\times|x)\s*((?:[^{}]|\{[^{}]*\})+?)\s*\}|\(?(\w+)\s*×\s*(\w+)\)?)"
)


@lru_cache(maxsize=2048)
def size_named(lead: str) -> str | None:
    """The size that stands left of a number: d_k, d_model, d_v, n; √ for the root of d_k, or None.

    >>> size_named("(d_k ="), size_named(r"\\sqrt{d_k} \\approx"), size_named("Q =")
    ('d_k', '√', None)
    """
    lead = re.sub(r"(?:\\approx|[=≈:$\\\s])+$", "", lead[-200:])
    left = [plain(part).casefold() for part in re.split(r"=|≈|\\approx", lead)]
    if re.fullmatch(r"(?:.*[^\d·*×/.])?(?:√|sqrt)\(?(?:d_?k|\d+(?:\.\d+)?)\)?", left[-1]):
        return "√"
    words = left[0].replace("-", "_")
    return next((size for size, name in _SIZES.items() if name.search(words)), None)


def _has_shapes(line: str) -> bool:
    is_in = "∈" in line or ("\\in" in line and re.search(r"\\in\b", line))
    return bool(is_in) and len(line) <= 2000


def shapes_in(line: str) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """What a line says of shapes, V ∈ R^{n×d}: all of it, the name, and both sizes."""
    if _has_shapes(line):
        for match in _SHAPE_OF.finditer(line):
            sizes = plain(match[2] or match[4]), plain(match[3] or match[5])
            yield match[0].strip(), match[1], sizes


def sayings(source: Source, lines: list[tuple[int, str]], sums_to_one: bool) -> list[Claim]:
    """The claims of a text that are wrong whatever its numbers are.

    `sums_to_one` says that the rows of a printed output do sum to 1.
    """
    claims: list[Claim] = []
    for start, line in lines:
        if not any(word in line.casefold() for word in ("sum", "합은", "和")):
            continue
        match = _SUMS.search(line[:2000])
        if match and not sums_to_one and not _OF_WEIGHTS.search(line[:2000]):
            about, right = "the sum of a row of the output", "any number (only weights sum to 1)"
            claims.append(Claim(about, "1", right, False, source.line(start)))
    return claims + _shapes(source, lines)


def _shapes(source: Source, lines: list[tuple[int, str]]) -> list[Claim]:
    """Shapes in symbols: X ∈ R^{n×d}, V = X V_down V_up, V_down ∈ R^{n×k} do not meet."""
    shapes: dict[str, tuple[str, str, int]] = {}
    products: list[tuple[str, list[str]]] = []
    for start, line in lines:
        if not _has_shapes(line):
            continue
        for match in () if _DECOMPOSED.search(line) else _SHAPE.finditer(line):
            rows, columns = plain(match["rows"]), plain(match["columns"])
            shapes.setdefault(plain(match["name"]), (rows, columns, source.line(start)))
        for match in _PRODUCT.finditer(line):
            factors = [plain(factor) for factor in _FACTOR.findall(match["factors"])]
            products.append((match["name"], factors))
    claims: dict[str, Claim] = {}
    if "X" not in shapes or shapes["X"][0] == shapes["X"][1]:
        return []
    tokens, width, _ = shapes["X"]

    def tell(name: str, right: str) -> None:
        rows, columns, line = shapes[name]
        printed = f"{rows}×{columns}"
        claims.setdefault(name, Claim(f"the shape of {name}", printed, right, False, line))

    for name in ("Q", "K", "V"):
        if name in shapes and shapes[name][:2] == (tokens, tokens):
            tell(name, f"{tokens}×d_{'v' if name == 'V' else 'k'}")
    for _, factors in products:
        if factors[:1] != ["X"] or len(factors) < 2:
            continue
        first, last = factors[1], factors[-1]
        if first in shapes and shapes[first][0] == tokens:
            tell(first, f"{width}×{shapes[first][1]}")
        if last != first and last in shapes and shapes[last][1] == tokens:
            tell(last, f"{shapes[last][0]}×{width}")
    return list(claims.values())
