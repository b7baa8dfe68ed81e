"""The classic slips: each is named where the numbers are its own, and not where they are not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.worked import Report, check_text
from worked.printing import rounded, softmax

choose = np.random.default_rng(17)
X, W_Q, W_K, W_V = (choose.integers(-20, 20, s) / 10 for s in ((3, 5), (5, 3), (5, 3), (5, 2)))
Q, K, V = X @ W_Q, X @ W_K, X @ W_V
S = Q @ K.T
SCALED = S / np.sqrt(3)
A = softmax(SCALED)
Z = A @ V


def document(**changed: np.ndarray) -> str:
    steps = {"Q": Q, "K": K, "V": V, "scores": S, "scaled": SCALED, "weights": A, "Z": Z} | changed
    parts = [(name, rounded(array, 1)) for name, array in (("X", X), ("W_Q", W_Q), ("W_K", W_K))]
    parts += [("W_V", rounded(W_V, 1))]
    parts += [(name, rounded(array, 3)) for name, array in steps.items()]
    return "\n".join(
        f"{name} = [{', '.join('[' + ', '.join(row) + ']' for row in rows)}]"
        for name, rows in parts
    )


def causes(report: Report, kind: str) -> set[str]:
    first = [cell for cell in report.wrong if cell.origin == "first"]
    assert {cell.kind for cell in first} == {kind}
    return {cell.cause.rpartition("; ")[2] for cell in first}  # “impossible: …” may stand before it


def one_row(right: np.ndarray, slip: np.ndarray) -> np.ndarray:
    """Only the second row has the slip."""
    return np.where(np.arange(len(right))[:, None] == 1, slip, right)


def one_cell(right: np.ndarray, slip: np.ndarray) -> np.ndarray:
    moved = right.copy()
    moved[1, 0] = slip[1, 0]
    return moved


def test_the_example_is_right() -> None:
    assert check_text(document()).exit_code == 0


E = np.exp(SCALED)
SUMS = E.sum(axis=1, keepdims=True)
SLIPS = [
    ("scores", Q @ K, "K had not been transposed"),
    ("scores", one_row(S, S - np.outer(Q[:, 1], K[:, 1])), "term 2 had been left out"),
    ("scores", one_row(S, S + np.outer(Q[:, 0], K[:, 0])), "term 1 had been added twice"),
    ("scores", one_row(S, S - 2 * np.outer(Q[:, 2], K[:, 2])), "term 3 had the other sign"),
    ("scores", one_cell(S, -S), "the sign is lost"),
    ("scores", one_row(S, S[:, [0, 2, 1]]), "two cells are swapped"),
    ("scores", S[[1, 0, 2]], "two rows are swapped"),
    ("scores", np.round(Q, 1) @ np.round(K, 1).T, "rounded to 1 decimals first"),
    ("scaled", one_row(SCALED, S), "not divided by √dₖ"),
    ("scaled", one_row(SCALED, S / 3), "divided by dₖ, not by √dₖ"),
    ("scaled", one_row(SCALED, S / np.sqrt(5)), "divided by the root of d_model"),
    ("weights", one_row(A, softmax(S / 3)), "divided by dₖ, not by √dₖ"),
    ("weights", softmax(SCALED.T).T, "over columns, not rows"),
    (
        "weights",
        one_row(A, E / (SUMS - E[:, [2]])),
        "key 3 had been left out",
    ),
    ("weights", one_row(A, E / (SUMS + E[:, [0]])), "key 1 had been counted"),
    ("Z", one_row(Z, Z - np.outer(A[:, 1], V[1])), "key 2 had been left out"),
    ("Z", one_row(Z, Z + np.outer(A[:, 1], V[1])), "key 2 had been added twice"),
    ("Z", Z / Z.sum(axis=1, keepdims=True), "rows of the output had to sum to 1"),
    ("Q", one_row(Q, K), "copied from the row of K"),
]
KINDS = {"Z": "head_output", "Q": "query"}


@pytest.mark.parametrize(("name", "slip", "cause"), SLIPS, ids=[cause for _, _, cause in SLIPS])
def test_a_slip_that_gives_the_printed_numbers_is_named(
    name: str, slip: np.ndarray, cause: str
) -> None:
    report = check_text(document(**{name: slip}))
    (found,) = causes(report, KINDS.get(name, name))
    assert cause in found
    cells = json.loads(report.to_json())["exercises"][0]["cells"]
    assert all(found in cell["cause"] for cell in cells if cell["origin"] == "first")


@pytest.mark.parametrize(("name", "slip", "cause"), SLIPS, ids=[cause for _, _, cause in SLIPS])
def test_no_slip_is_named_where_one_number_is_not_its_own(
    name: str, slip: np.ndarray, cause: str
) -> None:
    """The same, with a step of two last digits more in every wrong cell."""
    right = {"Z": Z, "Q": Q, "scores": S, "scaled": SCALED, "weights": A}[name]
    near = np.where(np.abs(slip - right) > 5e-4, slip + 0.002, slip)
    cells = check_text(document(**{name: near})).wrong
    assert cells
    assert not any(cause in cell.cause for cell in cells)


def test_a_hit_that_may_be_chance_is_not_named() -> None:
    text = "Q = [[1, 2]]\nK = [[3, 4], [1, 1]]\nscores = [[11, {}]]\n"
    assert [c.cause for c in check_text(text.format(5)).wrong] == [""]  # 3 + 1 · 2
    assert [c.cause for c in check_text(text.format(1)).wrong] == [""]  # 3 - 2
