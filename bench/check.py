"""How long `regard check` takes for documents as large as it reads, and for half of them.

Where the time grows with the length, the ratio is 2; with its square it would be 4.

Usage: python bench/check.py [ROUNDS]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from random import Random

from regard.worked import check_text

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SIZE = 248_000  # characters: a little less than is read
N = 5  # rows and columns


def numbers(choose: Random) -> list[list[str]]:
    return [[f"{choose.gauss(0, 1):.2f}" for _ in range(N)] for _ in range(N)]


def tables(choose: Random) -> str:
    rows = [["Token", *"abcde"], ["---"] * (N + 1)]
    rows += [["abcde"[i], *row] for i, row in enumerate(numbers(choose))]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    title = choose.choice(("Query (Q)", "Key (K)", "Value (V)", "Raw scores", "Attention weights"))
    return f"## {title}\n\n{table}\n\n"


def latex(choose: Random) -> str:
    body = " \\\\\n".join(" & ".join(row) for row in numbers(choose))
    left = choose.choice(("Q", "K", "V", "S = Q K^\\top", "A = \\mathrm{softmax}(S)", "Z"))
    return f"\\[\n{left} =\n\\begin{{bmatrix}}\n{body}\n\\end{{bmatrix}}.\n\\]\n\n"


def html(choose: Random) -> str:
    rows = ("".join(f"<td>{cell}</td>" for cell in row) for row in numbers(choose))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<h2>{choose.choice('QKV')}</h2>\n<table>\n{body}\n</table>\n"


def equations(choose: Random) -> str:
    a, b, c, d = (choose.randint(1, 99) / 10 for _ in range(4))
    return f"{a}·{b} + {c}·{d} = {a * b + c * d:.2f} and softmax([{a}, {b}]) ≈ [0.50, 0.50]\n\n"


def arrays(choose: Random) -> str:
    rows = "\n ".join("[" + " ".join(row) + "]" for row in numbers(choose))
    return f"{choose.choice(('Q', 'K', 'scores', 'weights'))}:\n[{rows}]\n"


def prose(choose: Random) -> str:
    words = [
        "each",
        "word",
        "of",
        "a",
        "sentence",
        "looks",
        "at",
        "the",
        "others",
        "and",
        "takes",
        "a",
        "share",
        "of",
        "their",
        "values",
    ]
    line = " ".join(choose.choice(words) for _ in range(15))
    return (
        f"{line}, which gives {choose.random():.2f} for `cat` in step {choose.randint(1, 9)}.\n\n"
    )


def document(part: Callable[[Random], str], size: int) -> str:
    """Parts of one kind, as many as fit."""
    choose = Random(1)
    text = ""
    while len(text) < size:
        text += part(choose)
    return text[:size]


def notebook(size: int) -> str:
    lines = document(arrays, size).splitlines(keepends=True)
    output = {"output_type": "stream", "text": lines}
    cells = [{"cell_type": "code", "source": ["print(Q, K)"], "outputs": [output]}]
    return json.dumps({"cells": cells, "nbformat": 4})


FORMS: dict[str, tuple[Callable[[int], str], str]] = {
    "prose": (lambda size: document(prose, size), "a.md"),
    "tables": (lambda size: document(tables, size), "a.md"),
    "LaTeX": (lambda size: document(latex, size), "a.tex"),
    "HTML tables": (lambda size: "<html><body>\n" + document(html, size - 14), "a.html"),
    "equations": (lambda size: document(equations, size), "a.md"),
    "printed arrays": (lambda size: document(arrays, size), "a.txt"),
    "a notebook": (notebook, "a.ipynb"),
}


def seconds(text: str, name: str) -> float:
    """The best of some rounds: the least disturbed one."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        check_text(text, name)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Time, and print the table."""
    print(f"{'check ' + str(SIZE // 1000) + ' KB of':<18}  {'time':>7}  {'half':>7}  {'ratio':>5}")
    for form, (write, name) in FORMS.items():
        whole, half = (seconds(write(size), name) for size in (SIZE, SIZE // 2))
        print(f"{form:<18}  {whole:5.2f} s  {half:5.2f} s  {whole / half:5.1f}")


if __name__ == "__main__":
    main()
