"""In a notebook the names in its cells say what is shown: right as it is, and with a cell moved."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.soak import times
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.worked import Report, check_text
from regard.written.notebooks import read_notebook
from regard.written.programs import equalities
from regard.written.read import read_document
from regard.written.source import Source

X = np.array([[0.31, 0.52, 0.17], [0.83, 0.11, 0.44], [0.29, 0.71, 0.65]])
S = X @ X.T
E = np.exp(S / np.sqrt(3))
A = E / E.sum(axis=1, keepdims=True)
O = A @ X  # noqa: E741


def tensor(array: np.ndarray, digits: int = 4) -> str:
    rows = ("[" + ", ".join(f"{cell:.{digits}f}" for cell in row) + "]" for row in array)
    return "tensor([" + ",\n        ".join(rows) + "])"


def frame(array: np.ndarray) -> str:
    """As pandas prints it."""
    rows = (f"{'abc'[i]}  " + "  ".join(f"{cell:.4f}" for cell in r) for i, r in enumerate(array))
    return "     a       b       c\n" + "\n".join(rows)


def notebook(*cells: tuple[str, str, str]) -> str:
    """Cells of source, what it prints, and what its last line shows."""
    made = []
    for source, printed, shown in cells:
        outputs: list[dict[str, object]] = []
        if printed:
            outputs.append({"output_type": "stream", "text": printed.splitlines(keepends=True)})
        if shown:
            data = {"text/plain": shown.splitlines(keepends=True)}
            outputs.append({"output_type": "execute_result", "data": data})
        lines = source.splitlines(keepends=True)
        made.append({"cell_type": "code", "source": lines, "outputs": outputs})
    return json.dumps({"cells": made, "nbformat": 4}, indent=1)


GIVEN = f"u = np.array({X.tolist()})"
FORMS = {
    "the last line": (
        (GIVEN, "", ""),
        ("r = u @ u.T\nr", "", tensor(S)),
        ("p = torch.softmax(r / u.shape[1] ** 0.5, dim=-1)\np", "", tensor(A)),
        ("y = p @ u\ny", "", tensor(O)),
    ),
    "prints": (
        (f"{GIVEN}\nr = np.dot(u, u.T)\nprint('r:', r)", f"r: {tensor(S)}\n", ""),
        ("d = u.shape[-1]\np = my_softmax(r / np.sqrt(d))", "", ""),
        ("y = np.matmul(p, u)\nprint(p)\nprint(y)", f"{tensor(A)}\n{tensor(O)}\n", ""),
    ),
    "labels": (
        (f"{GIVEN}\nr = u.dot(u.T)\nprint('r')\nprint('r is', r)", f"r\nr is {tensor(S)}\n", ""),
        ("p = F.softmax(r / math.sqrt(3), dim=1)", "", ""),
        ("print(f'p is {p}')\nfor k in p:\n    print(k.sum())", f"p is {tensor(A)}\n1\n1\n1\n", ""),
        ("p @ u", "", tensor(O)),
    ),
    "frames": (
        (f"{GIVEN}\nr = u @ u.T / np.sqrt(3)\npd.DataFrame(r).round(4)", "", frame(S / 3**0.5)),
        ("p = softmax(r)\npd.DataFrame(p, columns=list('abc'))", "", frame(A)),
        ("y = p @ u\npd.DataFrame(y)", "", frame(O)),
    ),
}


def judged(text: str) -> Report:
    return check_text(text, "a.ipynb")


@pytest.mark.parametrize("form", FORMS)
def test_what_cells_say_of_their_outputs_is_checked(form: str) -> None:
    report = judged(notebook(*FORMS[form]))
    assert not report.wrong
    made = [equation for equation in report.equations if equation.by_program]
    assert len(made) == 3
    assert all(equation.checked == 9 and not equation.wrong for equation in made)


@pytest.mark.parametrize("cell", [f"{S[1, 1]:.4f}", f"{A[0, 2]:.4f}", f"{O[2, 0]:.4f}"])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "frames"])
def test_a_moved_cell_of_an_output_is_found(form: str, cell: str) -> None:
    text = notebook(*FORMS[form])
    assert text.count(cell) == 1
    moved = f"{float(cell) + 0.0171:.4f}"
    report = judged(text.replace(cell, moved))
    assert moved in {wrong.figure.text for wrong in report.wrong}


def test_names_that_are_set_anew_accuse_nothing() -> None:
    """In a loop, in part, by an unknown function, in a cell that is no Python."""
    for change in (
        "for k in range(3):\n    r = r + k",
        "r[0] = 7",
        "r = shuffled(r)",
        "r, q = u, u",
        "r = = 3",
        "with open(r) as r:\n    pass",
    ):
        cells = (
            (f"{GIVEN}\nr = u @ u.T\nr", "", tensor(S)),
            (change, "", ""),
            ("p = softmax(r / 3 ** 0.5)\np", "", tensor(A[::-1])),
        )
        assert not judged(notebook(*cells)).wrong, change


def test_an_output_that_is_something_else_is_left_alone() -> None:
    cells = ((f"{GIVEN}\nr = u @ u.T\nr", "", tensor(S[::-1] * 1.7)),)
    report = judged(notebook(*cells))
    assert not report.wrong
    assert not report.checked


def test_what_is_shown_is_made_of_what_was_shown_before() -> None:
    source = Source.of("a.ipynb", notebook(*FORMS["the last line"]))
    texts = [e.text for e in read_document(source).equations if e.by_program]
    assert texts == [
        "r = u @ u.T",
        "p = torch.softmax(r / u.shape[1] ** 0.5, dim=-1)",
        "y = p @ u",
    ]
    _, cells = read_notebook(source)
    assert equalities(cells) == []  # their values are not read yet


def test_an_embedding_that_two_examples_share_is_renamed_in_each() -> None:
    """With and without scaling there are two examples, and both have the same embeddings."""
    text = """\
Embeddings:
[[1.0, 0.0], [0.0, 1.0]]

Scores:
[[2.0, 1.0], [0.0, 3.0]]

Attention weights without scaling:
[[0.73, 0.27], [0.05, 0.95]]

Attention weights with scaling, d_k = 4:
[[0.62, 0.38], [0.18, 0.82]]
"""
    report = check_text(text, "a.md")
    assert [cell.figure.text for cell in report.wrong] == []
    kinds = [{kind for kind, _ in each.exercise.matrices} for each in report.exercises]
    assert kinds == [{"input", "scores", "weights"}] * 2


MASKED = np.where(np.tril(np.ones((3, 3))) > 0, S / np.sqrt(3), -np.inf)
C = np.exp(MASKED) / np.exp(MASKED).sum(axis=1, keepdims=True)
M, D = X.mean(axis=1, keepdims=True), X.var(axis=1, keepdims=True)
FUNCTION = """\
def attend(q, k, v, mask=None):
    "One head."
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    weights = softmax(scores)
    return weights @ v, weights
"""
MADE = {
    "a loop that fills": (
        "r = torch.empty(3)\nfor i, row in enumerate(u):\n    r[i] = torch.dot(row, u[0])\n"
        "print(r)",
        S[:, :1].T,
    ),
    "a loop that adds up": (
        "q = np.array([0.2, 0.5, 0.3])\ny = torch.zeros(3)\nfor i, row in enumerate(u):\n"
        "    y += q[i] * row\nprint(y)",
        np.array([[0.2, 0.5, 0.3]]) @ X,
    ),
    "a function": (f"{FUNCTION}y, p = attend(u, u, u)\nprint(p)", A),
    "a function with a mask": (
        f"{FUNCTION}mask = np.triu(np.ones((3, 3)), k=1)\nmask[mask == 1] = -np.inf\n"
        "y, p = attend(u, u, u, mask=mask)\nprint(y)",
        C @ X,
    ),
    "masked_fill": (
        "n, d = 3, 3\nhidden = torch.triu(torch.ones(n, n), diagonal=1).bool()\n"
        "s = (u @ u.T / d ** 0.5).masked_fill(hidden, float('-inf'))\n"
        "p = torch.softmax(s, dim=-1)\nprint(p)",
        C,
    ),
    "where": (
        "seen = np.tril(np.ones((3, 3)))\n"
        "p = softmax(np.where(seen == 0, -1e9, u @ u.T / np.sqrt(3)))\nprint(p)",
        C,
    ),
    "without the diagonal": (
        "p = softmax(~np.eye(3, dtype=bool) * (u @ u.T))\nprint(p)",
        (lambda s: np.exp(s) / np.exp(s).sum(axis=1, keepdims=True))(S * (1 - np.eye(3))),
    ),
    "a layer norm": (
        "m = u.mean(axis=-1, keepdims=True)\nd = u.var(axis=-1, keepdims=True)\n"
        "y = (u - m) / np.sqrt(d)\nprint(y)",
        (X - M) / np.sqrt(D),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_program_is_followed_through_loops_functions_and_masks(name: str) -> None:
    source, array = MADE[name]
    text = notebook((f"{GIVEN}\n{source}", tensor(array), ""))
    report = judged(text)
    assert not report.wrong
    assert [e.checked for e in report.equations if e.by_program] == [array.size]
    right = f"{array.ravel()[-1]:.4f}"
    moved = f"{array.ravel()[-1] + 0.0313:.4f}"
    report = judged(text.replace(right, moved))
    found = {cell.figure.text for cell in report.wrong}
    assert moved in found if array.size > 3 else found <= {moved}


def test_what_is_made_of_a_wrong_output_is_not_accused_with_it() -> None:
    cells = (
        (f"{GIVEN}\np = softmax(u @ u.T / np.sqrt(3))\nprint(p)", tensor(A), ""),
        ("y = p @ u\nprint(y)", tensor(O), ""),
    )
    moved = f"{A[0, 2] + 0.04:.4f}"
    report = judged(notebook(*cells).replace(f"{A[0, 2]:.4f}", moved))
    assert [cell.figure.text for cell in report.wrong] == [moved]


@pytest.mark.parametrize(
    "source",
    [
        "y = torch.rand(3)\nfor i, row in enumerate(u):\n    y += u[0][i] * row\nprint(y)",
        "y = torch.zeros(3)\nfor i, row in enumerate(u):\n    y[i] = torch.dot(row, row)\nprint(y)",
        "def f(a, b):\n    return f(b, f(a, b))\ny = f(u, u)\nprint(y)",
        "def f(a, *b):\n    return a @ a.T\ny = f(u, u)\nprint(y)",
        "def f(a, b):\n    if b > 2:\n        a = a.T\n    return a @ a.T\ny = f(u, 3)\nprint(y)",
        "y = np.ones((3, 10 ** 9)) @ u\nprint(y)",
    ],
)
def test_other_loops_and_functions_are_not_followed(source: str) -> None:
    report = judged(notebook((f"{GIVEN}\n{source}", tensor(S * 1.01), "")))
    assert not report.wrong


def masked_heads(seed: int) -> tuple[str, list[str]]:
    """Two heads with causal masks as a notebook, and the numbers in it that are computed."""
    choose = np.random.default_rng(seed)
    n, d, width = (int(choose.choice(sizes)) for sizes in ([3, 5], [3, 5], [2, 3]))
    x = choose.normal(size=(n, d)).round(2)
    cells, outputs = (
        [(f"x = np.array({x.tolist()})\nmask = np.tril(np.ones(({n}, {n})))", "", "")],
        [],
    )
    shown: list[np.ndarray] = []
    for k in (1, 2):
        q, key, v = (choose.normal(size=(d, width)).round(2) for _ in "qkv")
        maps = "\n".join(
            f"{name}{k} = np.array({w.tolist()})"
            for name, w in zip("abc", (q, key, v), strict=True)
        )
        cells.append((maps, "", ""))
        scores = (x @ q) @ (x @ key).T
        scores[np.triu_indices(n, 1)] = -np.inf
        powers = np.exp(
            scores / np.sqrt(width) - scores.max(axis=1, keepdims=True) / np.sqrt(width)
        )
        weights = powers / powers.sum(axis=1, keepdims=True)
        outputs.append(weights @ (x @ v))
        made = f"np.where(mask, (x @ a{k}) @ (x @ b{k}).T, -np.inf)"
        cells.append((f"s{k} = {made}\ns{k}", "", tensor(scores)))
        cells.append(
            (f"w{k} = softmax(s{k} / np.sqrt({width}))\nprint(w{k})", tensor(weights) + "\n", "")
        )
        cells.append((f"o{k} = w{k} @ (x @ c{k})\no{k}", "", tensor(outputs[-1])))
        shown += [weights, outputs[-1]]
    cells.append(("o = np.hstack([o1, o2])\no", "", tensor(np.hstack(outputs))))
    return notebook(*cells), [f"{cell:.4f}" for array in shown for cell in array.ravel()]


@settings(max_examples=times(20), deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_masked_heads_are_right_as_their_cells_say_and_a_moved_cell_is_found(
    seed: int, data: st.DataObject
) -> None:
    text, numbers = masked_heads(seed)
    assert not judged(text).wrong
    alone = [number for number in numbers if text.count(number) == 1]
    if alone:
        cell = data.draw(st.sampled_from(alone))
        moved = f"{float(cell) + data.draw(st.sampled_from([-0.0309, 0.0207, 0.1103])):.4f}"
        report = judged(text.replace(cell, moved))
        assert moved in {wrong.figure.text for wrong in report.wrong}


@pytest.mark.parametrize(
    "source",
    [
        "u = np.array([[1, 2], [3, 4]])\n" + "u = np.hstack([u, u])\n" * 37 + "u",
        "u = np.array([[1, 2], [3, 4]])\n" + "u = u @ u\n" * 37 + "u",
        f"u = np.array([[{10**400}, 2], [3, 4]])\nv = u @ u\nv",
        f"u = {10**400} * np.array([[1, 2], [3, 4]])\nu",
        "u = np.array([[1, 2], [3, 4]])\nv = u" + " + u" * 3_001 + "\nv",
        "v = " + "(" * 151 + "u" + ")" * 151 + "\nv",
        "lambda: (yield)\nv = [[1, 2], [3]]\nv = v[True] @ v[9]\nprint(*v)\nv[0][1]",
    ],
)
def test_a_hostile_cell_is_passed_over(source: str) -> None:
    shown = tensor(np.array([[1.5, 2.5], [3.5, 4.5]]))
    report = judged(notebook((source, "", shown), ("w = v @ v\nw", "", shown)))
    assert not report.wrong


@pytest.mark.parametrize("name", ["scaled", "attention"])
def test_what_a_program_and_the_numbers_before_it_both_show_is_told(name: str) -> None:
    shown = {"scaled": S / np.sqrt(3), "attention": A}
    text = notebook(
        ("q = np.random.rand(3, 3)\nk = q\nd_k = 3", "", ""),
        ('print("Q\\n", q)\nprint("K\\n", k)', f"Q\n {tensor(X, 8)}\nK\n {tensor(X, 8)}\n", ""),
        ("scaled = np.matmul(q, k.T) / math.sqrt(d_k)\nscaled", "", tensor(shown["scaled"], 8)),
        ("attention = softmax(scaled)\nattention", "", tensor(A, 8)),
    )
    assert check_text(text, "a.ipynb").exit_code == 0
    cell = f"{shown[name][1, 2]:.8f}"
    moved = f"{shown[name][1, 2] + 0.03:.8f}"
    assert text.count(cell) >= 1
    at = text.rindex(cell)
    report = check_text(text[:at] + moved + text[at + len(cell) :], "a.ipynb")
    assert [each.figure.text for each in report.wrong] == [moved]
