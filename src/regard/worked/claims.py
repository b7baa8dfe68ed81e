"""What a text says besides its matrices: sizes, shapes, single scores."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from regard.worked.exercise import OF_PAIRS, Exercise, Matrix
from regard.written.figures import read_figure
from regard.written.found import Claim, Value
from regard.written.labels import places_of
from regard.written.names import name_of, plain
from regard.written.sayings import shapes_in, size_named
from regard.written.source import Source

__all__ = ["add_claims"]

_NEAR = 30  # lines
# Which matrices have which size, along which axis; of two the later one counts.
_SIZES = (
    ("value", 0, "n"),
    ("query", 0, "n"),
    ("input", 0, "n"),
    ("input", 1, "d_model"),
    ("W_K", 1, "d_k"),
    ("key", 1, "d_k"),
    ("W_V", 1, "d_v"),
    ("value", 1, "d_v"),
)


def add_claims(
    source: Source,
    lines: Sequence[tuple[int, str]],
    statements: Sequence[Value],
    exercise: Exercise,
    head_at: Callable[[int], int | None],
) -> None:
    """The statements and claims of shape in an exercise's lines, judged or kept for the steps."""
    named = {(size_named(statement.lead), statement.figure.value) for statement in statements}
    several = Counter(name for name, _ in named)
    several.update(size for kind, _, size in _SIZES if kind in exercise.rivals)
    heads = exercise.heads
    for statement in statements:
        head = head_at(statement.start)
        head = heads[0] if head not in heads else head
        sizes = _sizes(exercise, head)
        name, figure = size_named(statement.lead), statement.figure
        line = source.line(statement.start)
        if name is None:
            _add_score(exercise, statement, line, head)
        elif name == "√":
            _add_root(exercise, statement, line, sizes if several["d_k"] < 2 else {})
        elif name not in sizes:
            exercise.d_k = exercise.d_k or (figure if name == "d_k" else None)
        elif (
            several[name] == 1
            and _is_near(exercise, head, name, line)
            and not _is_in_passing(source, statement)
        ):
            right, is_right = str(sizes[name]), figure.value == sizes[name]
            exercise.claims.append(Claim(name, figure.text, right, is_right, line, figure))
            exercise.d_k = exercise.d_k or (figure if name == "d_k" else None)
    sizes = _sizes(exercise, heads[0])
    for start, text in lines:
        _add_divisor(exercise, start, text, sizes)
        for said, called, shape in shapes_in(text):
            name, line = name_of(called), source.line(start)
            matrix = exercise.get(name.kind, heads[0]) if name is not None else None
            claimed = [int(size) if size.isdigit() else sizes.get(size) for size in shape]
            if matrix is None or not matrix.figures or matrix.kind in exercise.rivals:
                continue
            if None not in claimed and abs(matrix.line - line) <= _NEAR:
                about, right = f"the shape of {matrix.symbol}", "×".join(map(str, matrix.shape))
                is_right = tuple(claimed) == matrix.shape
                exercise.claims.append(Claim(about, said, right, is_right, line))


def _is_in_passing(source: Source, statement: Value) -> bool:
    """“The paper has d_model = 512”: in a sentence it may be another's size."""
    line = source.line_at(statement.start)
    if statement.is_code and re.search(r"(?i)\bembedding_?(?:size|dim)", line):
        return True  # of a model that has nothing to do with the numbers
    line = re.sub(r"\\text\b|embedding|size|dimension|model|step", "", line, flags=re.IGNORECASE)
    return len(re.findall(r"[^\W\d_]{2,}", line)) > 2


def _is_near(exercise: Exercise, head: int | None, size: str, line: int) -> bool:
    """Whether a matrix of that size stands so near that it is the one spoken of."""
    matrices = (exercise.get(kind, head) for kind, _, own in _SIZES if own == size)
    return any(abs(m.line - line) <= _NEAR for m in matrices if m is not None)


def _sizes(exercise: Exercise, head: int | None) -> dict[str, int]:
    """The sizes that the matrices have, by the names they go by."""
    matrices = ((exercise.get(kind, head), axis, size) for kind, axis, size in _SIZES)
    return {size: matrix.shape[axis] for matrix, axis, size in matrices if matrix is not None}


def _add_root(exercise: Exercise, statement: Value, line: int, sizes: dict[str, int]) -> None:
    """√2 ≈ 1.414: the divisor may have been carried on so."""
    under = re.search(r"(?:√|sqrt)\(?(\d+(?:\.\d+)?)", plain(statement.lead))
    figure = statement.figure
    known = sizes.get("d_k") or (exercise.d_k.value if exercise.d_k else 0)
    size = float(under[1]) if under is not None else known
    if size <= 0:
        return
    right = math.sqrt(size)
    is_right = abs(figure.value - right) <= figure.unit / 2 * (1 + 1e-9)
    said = re.split(r"=|≈|\\approx", statement.lead)
    if len(said) > 1 and re.search(r"(?<![√\w{])d_\{?k\}?[\s$]*$", said[0]) and is_right:
        slip = f"Line {line} calls √{size:g} ≈ {figure.text} dₖ: that is √dₖ, and dₖ is {size:g}."
        exercise.remarks.append(slip)
    if under is None:  # √2 = 1.414 is an equation like any other
        right_text = figure.like(right)
        exercise.claims.append(Claim("√dₖ", figure.text, right_text, is_right, line, figure))
    if is_right:
        exercise.root = exercise.root or figure


def _add_divisor(exercise: Exercise, start: int, line: str, sizes: dict[str, int]) -> None:
    """“divided by 1.41”: a rounded root, if it is one of d_k."""
    if "d_k" not in sizes or " by " not in line.casefold():
        return
    match = re.search(r"\bdivid\w* by \$?(\d+\.\d+)", line[:500], re.IGNORECASE)
    if match is None:
        return
    figure = read_figure(match[1], start + match.start(1))
    if abs(figure.value - math.sqrt(sizes["d_k"])) <= figure.unit:
        exercise.root = exercise.root or figure


def _add_score(exercise: Exercise, statement: Value, line: int, head: int | None) -> None:
    """`Q·K₁ᵀ = 6`: one cell of the scores."""
    name = name_of(statement.lead)
    if name is not None and name.column is None and re.fullmatch(r"\d\d", name.row or ""):
        kind = "scores" if name.kind == "embeddings" else name.kind  # e_{12}, or α_{12}
        name = replace(name, kind=kind, row=(name.row or "")[0], column=(name.row or "")[1])
    if name is None or name.kind not in OF_PAIRS or name.column is None:
        return
    key, query = exercise.get("key", head), exercise.get("query", head)
    called = statement.lead.strip(" *$")
    if key is not None and query is not None:
        shape = query.shape[0], key.shape[0]
        own = Matrix(name.kind, head, shape=shape, called=called, line=line)
        matrix = exercise.get(name.kind, head) or own
        row = 0 if name.row is None and shape[0] == 1 else _place(name.row, query)
        column = _place(name.column, key)
        if row is not None and column is not None and matrix.shape == shape:
            exercise.matrices[matrix.key] = matrix
            matrix.figures.setdefault((row, column), []).append(statement.figure)
            return
    exercise.remarks.append(
        f"{' '.join(called.split())[:60]} = {statement.figure.text} in line {line} was not "
        "checked: its row of Q and its row of K are not printed here."
    )


def _place(label: str | None, matrix: Matrix) -> int | None:
    return places_of([label or ""], matrix.row_labels or [" "] * matrix.shape[0])[0]
