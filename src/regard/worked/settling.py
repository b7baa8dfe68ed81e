"""What blocks are once their neighbours are known: joined, put right, given a place in a layer."""

from __future__ import annotations

import re

from regard.worked.exercise import Exercise, Matrix
from regard.worked.parts import ACTIVATIONS, LAYER_KINDS, MOMENTS
from regard.worked.rows import rows_agree, tokens_of
from regard.written.found import Value
from regard.written.layer_names import has_second
from regard.written.sentences import activation_in, epsilon_in

__all__ = ["kind_in_layer", "may_join", "settle_inputs", "settle_layer"]


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


def settle_inputs(exercise: Exercise) -> None:
    """Embeddings without positions are the input; an output of one head is that head's."""
    embeddings, x = exercise.get("embeddings"), exercise.get("input")
    if embeddings is not None and x is None and exercise.get("positions") is None:
        exercise.rename(embeddings, "input")
    elif embeddings is not None and x is not None and exercise.get("positions") is None:
        del exercise.matrices[embeddings.key]
        if x.shape[1] == embeddings.shape[1]:
            for cell, figures in embeddings.figures.items():
                x.figures.setdefault(cell, []).extend(figures)
            x.shape = (max(x.shape[0], embeddings.shape[0]), x.shape[1])
        else:
            remark = f"{embeddings.describe()} is not the input, and was left out."
            exercise.remarks.append(remark)
    output, concatenated = exercise.get("output"), exercise.get("concatenated")
    is_last = concatenated is None or (output is not None and concatenated.line > output.line)
    of_head = ("head_output", exercise.heads[0])
    if output is not None and is_last and not {of_head, ("W_O", None)} & exercise.matrices.keys():
        exercise.rename(output, *of_head)
    exercise.tokens = list(tokens_of(exercise))


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
            exercise.rename(hidden, "activated")
    norms = {n: exercise.get(f"norm{n}") or exercise.get(f"normalized{n}") for n in ("", "_2")}
    for kind in MOMENTS:
        too_many = exercise.get(f"{kind}_2") is not None and norms["_2"] is None
        for n, norm in norms.items():
            # Single means must be as many as there are rows, or it cannot be told whose they are.
            matrix, rows = exercise.get(kind + n), norm.shape[0] if norm is not None else 0
            if matrix is not None and (rows != matrix.blocks > 1 or too_many):
                del matrices[matrix.key]
    exercise.epsilon = max(exercise.epsilon, epsilon_in(text))
    if named := activation_in(text):
        exercise.activations = sorted(ACTIVATIONS, key=lambda activation: activation != named)
