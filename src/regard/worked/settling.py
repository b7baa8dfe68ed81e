"""What blocks are once their neighbours are known: joined, put right, given a place in a layer."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import numpy as np

from regard.worked.exercise import Exercise, Matrix, Remark
from regard.worked.parts import ACTIVATIONS, LAYER_KINDS, MOMENTS
from regard.worked.rows import rows_agree, tokens_of
from regard.written.found import Value
from regard.written.layer_names import has_second
from regard.written.names import Name
from regard.written.words import head_in

__all__ = [
    "clean",
    "head_marks",
    "is_title",
    "kind_in_layer",
    "may_join",
    "refine_units",
    "settle_ambiguous",
    "settle_inputs",
    "settle_layer",
]


def is_title(block: Value, called: str) -> bool:
    """A short line right above the numbers, and no sentence."""
    near = [clean(title) for title in block.titles[:2]]
    return called in near and len(called) <= 60 and len(called.split()) <= 8


def settle_ambiguous(name: Name, text: str, block: Value) -> tuple[Name, str]:
    """“Attention score” means the raw scores to some and the weights to others."""
    says_attention = re.search(r"attention|어텐션|অ্যাটেনশন|注意", text, re.IGNORECASE)
    if name.kind == "scores" and says_attention and block.shape[1] > 1:
        values = np.array([[figure.value for figure in row] for row in block.rows])
        slack = min(sum(figure.unit for figure in block.rows[0]) / 2, 0.05)
        between = (values >= 0).all() and (values <= 1).all()
        if between and (np.abs(values.sum(axis=1) - 1) <= slack).all():
            return replace(name, kind="weights"), "every row sums to 1"
    return name, ""


def may_join(before: Matrix, block: Value, exercise: Exercise) -> bool:
    """Whether a block repeats a matrix, or adds rows that are not there yet."""
    if not before.figures or rows_agree(before, block):
        return True
    if block.is_vector:
        query = exercise.get("query", before.head) or exercise.get("input")
        return query is None or before.shape[0] < query.shape[0] or before.kind == "query"
    known = {label.casefold() for label in before.row_labels}
    new = {label.casefold() for label in block.row_labels or ()}
    return bool(known) and bool(new) and not known & new


def refine_units(block: Value) -> None:
    """NumPy drops zeros: `1.` beside `0.45` is 1.00."""
    finest = min((f.unit for row in block.rows for f in row if f.unit > 0), default=1.0)
    for row in block.rows:
        row[:] = [replace(f, unit=finest) if f.text.endswith(".") else f for f in row]


def settle_inputs(exercise: Exercise) -> None:
    """Embeddings without positions are the input; an output of one head is that head's."""
    matrices = exercise.matrices
    if ("embeddings", None) in matrices and ("positions", None) not in matrices:
        embeddings = matrices.pop(("embeddings", None))
        embeddings.kind = "input"
        before = matrices.setdefault(("input", None), embeddings)
        if before is not embeddings and before.shape[1] == embeddings.shape[1]:
            for cell, figures in embeddings.figures.items():
                before.figures.setdefault(cell, []).extend(figures)
            before.shape = (max(before.shape[0], embeddings.shape[0]), before.shape[1])
        elif before is not embeddings:
            remark = f"{embeddings.describe()} is not the input, and was left out."
            exercise.remarks.append(Remark(remark))
    lonely = ("concatenated", None) not in matrices and ("W_O", None) not in matrices
    of_head = ("head_output", exercise.heads[0])
    if ("output", None) in matrices and of_head not in matrices:
        concatenated = matrices.get(("concatenated", None))
        output = matrices[("output", None)]
        if lonely or (
            concatenated is not None
            and concatenated.line > output.line
            and ("W_O", None) not in matrices
        ):
            matrices.pop(("output", None))
            output.kind, output.head = of_head
            matrices[of_head] = output
    exercise.tokens = list(tokens_of(exercise))


def head_marks(lines: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """Where the text speaks of one head, and which: that head's matrices follow."""
    heads = ((start, head_in(text)) for start, text in lines)
    return [(start, head) for start, head in heads if head is not None]


def clean(text: str) -> str:
    """A name as a person would type it: without marks, and without what follows `=`."""
    text = re.sub(r"^\s*(?:[-*+•#>]+|//|\d+[.)])\s+", "", text.strip())
    text = re.split(r"=|≈", text)[0] if not re.search(r"\([^)]*=", text[:300]) else text
    return re.sub(r"[$*`&]|[:→]\s*$|^\\begin\{\w+\*?\}|^\\\\(?!\w)", "", text).strip()[:200]


# ── a layer ───────────────────────────────────────────────────────────────────────────────────

_FEED = ("hidden", "activated", "feed_forward")


def kind_in_layer(kind: str, block: Value, exercise: Exercise) -> str:
    """What stands after the feed-forward layer is of the second norm, and an output is its own.

    Means in a row stand for one of each row.
    """
    fed = [k for k in _FEED if exercise.get(k) is not None]
    if kind.removesuffix("_2") in MOMENTS and block.is_vector and block.shape[1] > 1:
        block.rows = [[figure] for figure in block.rows[0]]
        block.is_vector = False
    if kind == "output" and fed:
        return "block" if "feed_forward" in fed else "feed_forward"
    if not has_second(kind) or kind in ("gamma", "beta") or not fed:
        return kind
    before = exercise.get(kind)
    return kind if before is not None and rows_agree(before, block) else f"{kind}_2"


def settle_layer(exercise: Exercise, text: str) -> None:
    """Hidden values of which none is negative are those after ReLU; what the text speaks of."""
    hidden = exercise.get("hidden")
    matrices = exercise.matrices
    if not any(kind in LAYER_KINDS for kind, _ in matrices):
        return
    if hidden is not None and ("activated", None) not in matrices:
        named = re.search(r"W_?\{?1|before|pre-?act|linear", hidden.called, re.IGNORECASE)
        if not named and not (hidden.values < 0).any():
            hidden.kind = "activated"
            matrices["activated", None] = matrices.pop(("hidden", None))
    for kind in MOMENTS:
        first, second = exercise.get(kind), exercise.get(f"{kind}_2")
        norms = [exercise.get(f"{k}{n}") for n in ("", "_2") for k in ("norm", "normalized")]
        for matrix, norm in ((first, norms[0] or norms[1]), (second, norms[2] or norms[3])):
            # Single means must be as many as there are rows, or it cannot be told whose they are.
            rows = norm.shape[0] if norm is not None else 0
            too_many = second is not None and not any(norms[2:])
            if matrix is not None and (rows != matrix.blocks > 1 or too_many):
                matrices.pop((matrix.kind, None))
    for power in re.findall(r"(?:ε|epsilon|\beps)\W{0,6}(\d\S{0,8})", text):
        with contextlib.suppress(ValueError):
            exercise.epsilon = min(max(exercise.epsilon, float(power.rstrip(".,;)$"))), 0.1)
    spoken = {name.casefold() for name in re.findall(r"(?i)\b(relu|gelu|silu|swish)\b", text)}
    if spoken and "relu" not in spoken:
        first = "GELU" if "gelu" in spoken else "SiLU"
        exercise.activations = sorted(ACTIVATIONS, key=lambda name: name != first)
