"""What a text says besides its matrices: sizes, shapes, single scores."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from regard.worked.exercise import Exercise, Matrix, Remark
from regard.written.figures import read_figure
from regard.written.found import Claim, Value
from regard.written.names import SYMBOLS, name_of, plain
from regard.written.source import Source

__all__ = ["add_claims"]

_SHAPE = re.compile(
    r"([A-Za-z][A-Za-z_^{}\d\\]*)\s*(?:\\in|∈)\s*\\*(?:mathbb\{R\}|mathbb R|R|ℝ)\s*\^\s*"
    r"(?:\{\s*([^{}×]+?)\s*(?:×|\\times|x)\s*((?:[^{}]|\{[^{}]*\})+?)\s*\}|\(?(\w+)\s*×\s*(\w+)\)?)"
)


_NEAR = 30  # lines
_SIZES_OF = {
    "input": ("n", "d_model"),
    "query": ("n", "d_k"),
    "key": ("n", "d_k"),
    "W_K": ("d_k",),
    "value": ("n", "d_v"),
}


def add_claims(
    source: Source,
    lines: Sequence[tuple[int, str]],
    statements: Sequence[Value],
    exercise: Exercise,
    head_at: Callable[[int], int | None],
) -> None:
    """The statements and claims of shape in an exercise's lines, judged or kept for the steps."""
    several = Counter(
        name
        for name, _ in {
            (_size_name(statement.lead), statement.figure.value) for statement in statements
        }
    )
    for name in exercise.rivals & {"input", "key", "value", "query", "W_K"}:
        several.update(dict.fromkeys(_SIZES_OF[name], 1))
    heads = exercise.heads
    for statement in statements:
        head = head_at(statement.start)
        head = heads[0] if head not in heads else head
        sizes = _sizes(exercise, head)
        name = _size_name(statement.lead)
        line = source.line(statement.start)
        if name == "√":
            _add_root(exercise, statement, line, sizes if several["d_k"] < 2 else {})
        elif name == "d_k" and "d_k" not in sizes:
            exercise.d_k = exercise.d_k or statement.figure
        elif name in sizes and (
            several[name] > 1
            or _is_in_passing(source, statement)
            or not _is_near(exercise, head, name, line)
        ):
            continue
        elif name in sizes:
            exercise.claims.append(
                Claim(
                    name,
                    statement.figure.text,
                    str(sizes[name]),
                    statement.figure.value == sizes[name],
                    line,
                    statement.figure,
                )
            )
            if name == "d_k":
                exercise.d_k = exercise.d_k or statement.figure
        elif name is None:
            _add_score(exercise, statement, line, head)
    for line in lines:
        _add_divisor(exercise, *line)
        if not re.search(r"∈|\\in\b", line[1]) or len(line[1]) > 2000:
            continue
        for match in _SHAPE.finditer(line[1]):
            sizes = _sizes(exercise, exercise.heads[0])
            _add_shape(source.line(line[0]), exercise, match, sizes)


def _is_in_passing(source: Source, statement: Value) -> bool:
    """“The paper has d_model = 512”: in a sentence it may be another's size."""
    text = source.text
    start = text.rfind("\n", 0, statement.start) + 1
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    line = re.sub(r"\\text\b|embedding|size|dimension|model|step", "", line, flags=re.IGNORECASE)
    return len(re.findall(r"[^\W\d_]{2,}", line)) > 2


def _is_near(exercise: Exercise, head: int | None, size: str, line: int) -> bool:
    """Whether a matrix of that size stands so near that it is the one spoken of."""
    matrices = (exercise.get(kind, head) for kind, sizes in _SIZES_OF.items() if size in sizes)
    return any(abs(m.line - line) <= _NEAR for m in matrices if m is not None)


def _sizes(exercise: Exercise, head: int | None) -> dict[str, int]:
    """The sizes that the matrices have, by the names they go by."""
    sizes: dict[str, int] = {}
    for kind, axis, name in (
        ("value", 0, "n"),
        ("query", 0, "n"),
        ("input", 0, "n"),
        ("input", 1, "d_model"),
        ("W_K", 1, "d_k"),
        ("key", 1, "d_k"),
        ("W_V", 1, "d_v"),
        ("value", 1, "d_v"),
    ):
        matrix = exercise.get(kind, head)
        if matrix is not None:
            sizes[name] = matrix.shape[axis]
    return sizes


@lru_cache(maxsize=2048)
def _size_name(lead: str) -> str | None:
    """`d_k`, `d_model`, `d_v`, `n`, or √ for the root of d_k; None for anything else."""
    lead = re.sub(r"(?:\\approx|[=≈:$\\\s])+$", "", lead[-200:])
    left = [plain(part).casefold() for part in re.split(r"=|≈|\\approx", lead)]
    text = left[0]
    if re.fullmatch(r"(?:.*[^\d·*×/.])?(?:√|sqrt)\(?(?:d_?k|\d+(?:\.\d+)?)\)?", left[-1]):
        return "√"
    words = text.replace("-", "_")
    if re.search(r"(?:^|[^a-z])d_?model$|embedding_?(?:size|dim(?:ension)?)$", words):
        return "d_model"
    if re.search(r"(?:^|[^a-z])d_?k$", words):
        return "d_k"
    if re.search(r"(?:^|[^a-z])d_?v$", words):
        return "d_v"
    if words == "n":
        return "n"
    return None


def _add_root(exercise: Exercise, statement: Value, line: int, sizes: dict[str, int]) -> None:
    """√2 ≈ 1.414: the divisor may have been carried on so."""
    under = re.search(r"(?:√|sqrt)\(?(\d+(?:\.\d+)?)", plain(statement.lead))
    figure = statement.figure
    if under is not None:
        right = math.sqrt(float(under[1]))
    else:
        size = sizes.get("d_k") or (exercise.d_k.value if exercise.d_k else 0)
        if size <= 0:
            return
        right = math.sqrt(size)
    is_right = abs(figure.value - right) <= figure.unit / 2 * (1 + 1e-9)
    said = re.split(r"=|≈|\\approx", statement.lead)
    if len(said) > 1 and re.search(r"(?<![√\w{])d_\{?k\}?[\s$]*$", said[0]) and is_right:
        size = round(right * right)
        remark = f"Line {line} calls √{size} ≈ {figure.text} dₖ: that is √dₖ, and dₖ is {size}."
        exercise.remarks.append(Remark(remark))
    if under is None:  # √2 = 1.414 is an equation like any other
        right_text = figure.like(right)
        exercise.claims.append(Claim("√dₖ", figure.text, right_text, is_right, line, figure))
    if is_right:
        exercise.root = exercise.root or figure


def _add_divisor(exercise: Exercise, start: int, line: str) -> None:
    """“divided by 1.41”: a rounded root, if it is one of d_k."""
    match = re.search(r"\bdivid\w* by \$?(\d+\.\d+)", line[:500], re.IGNORECASE)
    size = _sizes(exercise, exercise.heads[0]).get("d_k") if match else None
    if match is None or size is None:
        return
    figure = read_figure(match[1], start + match.start(1))
    if abs(figure.value - math.sqrt(size)) <= figure.unit:
        exercise.root = exercise.root or figure


def _add_score(exercise: Exercise, statement: Value, line: int, head: int | None) -> None:
    """`Q·K₁ᵀ = 6`: one cell of the scores."""
    name = name_of(statement.lead)
    if name is not None and name.column is None and re.fullmatch(r"\d\d", name.row or ""):
        kind = "scores" if name.kind == "embeddings" else name.kind  # e_{12}, or α_{12}
        name = replace(name, kind=kind, row=(name.row or "")[0], column=(name.row or "")[1])
    if name is None or name.kind not in ("scores", "scaled", "weights") or name.column is None:
        return
    key, query = exercise.get("key", head), exercise.get("query", head)
    before = exercise.get(name.kind, head)
    column = row = None
    if key is not None and query is not None:
        column = _place(name.column, key)
        row = 0 if name.row is None and query.shape[0] == 1 else _place(name.row or "", query)
    if (
        key is None
        or query is None
        or column is None
        or row is None
        or (before is not None and before.shape != (query.shape[0], key.shape[0]))
    ):
        called = " ".join(statement.lead.strip(" *$").split())[:60]
        remark = f"{called} = {statement.figure.text} in line {line} was not checked: its row of Q "
        exercise.remarks.append(Remark(remark + "and its row of K are not printed here."))
        return
    matrix = exercise.matrices.setdefault(
        (name.kind, head), Matrix(name.kind, head, called=statement.lead.strip(" *$"), line=line)
    )
    matrix.figures.setdefault((row, column), []).append(statement.figure)
    matrix.shape = (query.shape[0], key.shape[0])


def _place(label: str, matrix: Matrix) -> int | None:
    folded = [other.casefold() for other in matrix.row_labels]
    if label.casefold() in folded:
        return folded.index(label.casefold())
    return int(label) - 1 if label.isdigit() and 1 <= int(label) <= matrix.shape[0] else None


def _add_shape(line: int, exercise: Exercise, match: re.Match[str], sizes: dict[str, int]) -> None:
    """V ∈ R^{n×d}: where both sizes are known, it must be the shape that the matrix has."""
    name = name_of(match[1])
    if name is None:
        return
    matrix = exercise.get(name.kind, exercise.heads[0])
    claimed = [_size(match[2] or match[4], sizes), _size(match[3] or match[5], sizes)]
    if matrix is None or None in claimed or name.kind in exercise.rivals or not matrix.figures:
        return
    if abs(matrix.line - line) > _NEAR:
        return
    shape = f"{matrix.shape[0]}×{matrix.shape[1]}"
    exercise.claims.append(
        Claim(
            f"the shape of {SYMBOLS[name.kind]}",
            match[0].strip(),
            shape,
            tuple(claimed) == matrix.shape,
            line,
        )
    )


def _size(text: str, sizes: dict[str, int]) -> int | None:
    text = plain(text)
    return int(text) if text.isdigit() else sizes.get(text)
