"""Worked examples made up for tests: computed, rounded and printed as people print them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

Rows = list[list[str]]
WORDS = ["I", "love", "apple", "phones", "우리는", "আমি", "ভাত", "don't", "sat", "cat", "blue"]
STEPS = ("query", "key", "value", "scores", "scaled", "weights", "head_output")


@dataclass
class Printed:
    """An example as its author has it: what is given, each step in print, and how it was made."""

    tokens: list[str]
    given: dict[str, Rows]
    steps: dict[str, Rows]  # only those that are printed
    digits: dict[str, int]
    carried: dict[str, bool] = field(default_factory=dict)  # True: as rounded, False: in full
    d_k: int = 1

    @property
    def matrices(self) -> dict[str, Rows]:
        return {**self.given, **self.steps}


def rounded(array: np.ndarray, digits: int) -> Rows:
    """Each number to its digits, as Python rounds when it prints."""
    return [[f"{value:.{digits}f}" for value in row] for row in array]


def values(rows: Rows) -> np.ndarray:
    return np.array([[float(text) for text in row] for row in rows])


def softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def compute(
    given: dict[str, np.ndarray], divisor: float, carry: Callable[[str, np.ndarray], np.ndarray]
) -> dict[str, np.ndarray]:
    """Every step before it is printed; `carry` says what the next step takes for it."""
    x = given["X"]
    exact = {name: x @ given[f"W_{letter}"] for name, letter in zip(STEPS, "QKV", strict=False)}
    q, k, v = (carry(name, exact[name]) for name in STEPS[:3])
    exact["scores"] = q @ k.T
    exact["scaled"] = carry("scores", exact["scores"]) / divisor
    exact["weights"] = softmax(carry("scaled", exact["scaled"]))
    exact["head_output"] = carry("weights", exact["weights"]) @ v
    return exact


@st.composite
def examples(draw: st.DrawFn, *, all_steps: bool = False) -> Printed:
    n = draw(st.sampled_from([2, 3, 5]))
    d_model, d_k, d_v = (draw(st.sampled_from(sizes)) for sizes in ([2, 3, 5], [2, 3], [2, 3]))
    tokens = draw(st.permutations(WORDS).map(lambda words: words[:n]))
    number = st.integers(-30, 30).map(lambda i: i / 10)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.array(
            draw(
                st.lists(
                    st.lists(number, min_size=columns, max_size=columns),
                    min_size=rows,
                    max_size=rows,
                )
            )
        )

    given = {
        "X": matrix(n, d_model),
        "W_Q": matrix(d_model, d_k),
        "W_K": matrix(d_model, d_k),
        "W_V": matrix(d_model, d_v),
    }
    digits = {name: draw(st.sampled_from([2, 3, 4])) for name in STEPS}
    carried = {name: draw(st.booleans()) for name in STEPS}
    shown = set(STEPS) if all_steps else set(draw(st.sets(st.sampled_from(STEPS), min_size=1)))

    def carry(name: str, array: np.ndarray) -> np.ndarray:
        # What is not printed cannot have been rounded to the digits printed.
        return values(rounded(array, digits[name])) if carried[name] and name in shown else array

    exact = compute(given, np.sqrt(d_k), carry)
    return Printed(
        list(tokens),
        {name: rounded(array, 1) for name, array in given.items()},
        {name: rounded(exact[name], digits[name]) for name in STEPS if name in shown},
        digits,
        carried,
        d_k,
    )


# ── the formats ───────────────────────────────────────────────────────────────────────────────

TITLES = {
    "X": "Embedding vectors (X)",
    "W_Q": "Query projection (W_Q)",
    "W_K": "Key projection (W_K)",
    "W_V": "Value projection (W_V)",
    "query": "Query (Q)",
    "key": "Key (K)",
    "value": "Value (V)",
    "scores": "Raw scores",
    "scaled": "Scaled scores",
    "weights": "Attention weights",
    "head_output": "Output",
    "residual": "Residual (X + Attention(X))",
    "mean": "Mean",
    "variance": "Variance",
    "normalized": "Normalized values",
    "gamma": "Gamma",
    "beta": "Beta",
    "norm": "Add & Norm",
    "W_1": "First feed-forward map (W_1)",
    "b_1": "First bias (b_1)",
    "hidden": "Hidden layer before ReLU",
    "activated": "Hidden layer after ReLU",
    "W_2": "Second feed-forward map (W_2)",
    "b_2": "Second bias (b_2)",
    "feed_forward": "FFN output",
    "residual_2": "Second residual",
    "norm_2": "Second layer norm",
}
SYMBOLS = {
    "query": "Q",
    "key": "K",
    "value": "V",
    "scores": "Q K^T",
    "scaled": "Q K^T / \\sqrt{d_k}",
    "weights": "A",
    "head_output": "Z",
    "residual": "X + Attention(X)",
    "mean": "\\mu",
    "variance": "\\sigma^2",
    "normalized": "\\hat{x}",
    "gamma": "\\gamma",
    "beta": "\\beta",
    "norm": "\\mathrm{LayerNorm}(X + Attention(X))",
    "hidden": "N W_1 + b_1",
    "activated": "\\max(0, N W_1 + b_1)",
    "feed_forward": "\\mathrm{FFN}(N)",
    "residual_2": "N + \\mathrm{FFN}(N)",
    "norm_2": "LN(N + FFN(N))",
}
SQUARE = ("scores", "scaled", "weights")


def has_tokens(name: str) -> bool:
    return not name.startswith(("W_", "b_", "gamma", "beta"))


def markdown(example: Printed) -> str:
    parts = []
    for name, rows in example.matrices.items():
        labelled = has_tokens(name)
        columns = example.tokens if name in SQUARE else [""] * len(rows[0])
        header = (["Token"] if labelled else []) + columns
        lines = [header, ["---"] * len(header)]
        lines += [([example.tokens[i]] if labelled else []) + row for i, row in enumerate(rows)]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(f"## {TITLES[name]}\n\n{table}\n")
    return "\n".join(parts)


def tabs(example: Printed) -> str:
    parts = []
    for name, rows in example.matrices.items():
        labelled = has_tokens(name)
        lines = ["\t" + "\t".join(example.tokens)] if name in SQUARE else []
        lines += [
            "\t".join(([example.tokens[i]] if labelled else []) + row) for i, row in enumerate(rows)
        ]
        parts.append(f"{TITLES[name]}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def vectors_in_a_table(example: Printed) -> str:
    """One table a matrix, with cells like `[1.2, 0.6]`; what has no tokens is a plain table."""
    parts = []
    for name, rows in example.matrices.items():
        if not has_tokens(name) or name in SQUARE:
            parts.append(tabs(Printed(example.tokens, {name: rows}, {}, {})))
            continue
        lines = [f"Token\t{TITLES[name]}"]
        lines += [
            f"{token}\t[{', '.join(row)}]" for token, row in zip(example.tokens, rows, strict=True)
        ]
        parts.append(f"Step {len(parts) + 1}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def rows_by_symbol(example: Printed) -> str:
    """`q_{love} = \\[1.0 1.1]`, one line a token; matrices without tokens as nested lists."""
    letters = {"X": "x", "query": "q", "key": "k", "value": "v", "head_output": "z"}
    parts = []
    for name, rows in example.matrices.items():
        if name in letters:
            parts += [
                f"* $${letters[name]}_{{{token}}}$$ = \\[{' '.join(row)}]"
                for token, row in zip(example.tokens, rows, strict=True)
            ]
        else:
            symbol = SYMBOLS.get(name, name)
            parts.append(f"${symbol}$ = [{', '.join('[' + ', '.join(row) + ']' for row in rows)}]")
        parts.append("")
    return "\n".join(parts)


def nested_lists(example: Printed) -> str:
    return "\n\n".join(
        f"{SYMBOLS.get(name, name)} =\n["
        + ",\n ".join("[" + " ".join(row) + "]" for row in rows)
        + "]"
        for name, rows in example.matrices.items()
    )


def latex(example: Printed, backslash: str = "\\") -> str:
    parts = []
    for name, rows in example.matrices.items():
        symbol = SYMBOLS.get(name, name).replace("\\", backslash)
        body = f" {backslash}{backslash}\n".join(" & ".join(row) for row in rows)
        parts.append(
            f"$$\n{symbol} =\n{backslash}begin{{bmatrix}}\n{body}\n{backslash}end{{bmatrix}}\n$$\n"
        )
    return "\n".join(parts)


def latex_doubled(example: Printed) -> str:
    """As Markdown that was escaped once too often: two backslashes where one belongs."""
    return latex(example, "\\\\").replace("\\\\\\\\", "\\\\")


def plain_columns(example: Printed) -> str:
    parts = []
    for name, rows in example.matrices.items():
        if 1 in (len(rows), len(rows[0])):  # a table of one row or column is none
            parts.append(f"{TITLES[name]}: [{', '.join(text for row in rows for text in row)}]\n")
            continue
        lines = ["   ".join(text.rjust(9) for text in row) for row in rows]
        parts.append(f"{TITLES[name]}:\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def commas(example: Printed) -> str:
    parts = []
    for name, rows in example.matrices.items():
        if 1 in (len(rows), len(rows[0])):  # a table of one row or column is none
            parts.append(f"{TITLES[name]}: [{', '.join(text for row in rows for text in row)}]\n")
            continue
        labelled = has_tokens(name)
        lines = [
            ",".join(([example.tokens[i]] if labelled else []) + row) for i, row in enumerate(rows)
        ]
        parts.append(f"{TITLES[name]}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def tabular(example: Printed) -> str:
    parts = []
    for name, rows in example.matrices.items():
        labelled = has_tokens(name)
        lines = [
            " & ".join(([example.tokens[i]] if labelled else []) + row) + r" \\"
            for i, row in enumerate(rows)
        ]
        body = "\n".join(["\\hline", *lines, "\\hline"])
        parts.append(
            f"\\caption{{{TITLES[name]}}}\n\\begin{{tabular}}{{l|cc}}\n{body}\n\\end{{tabular}}\n"
        )
    return "\n".join(parts)


def toml(example: Printed) -> str:
    lines = [f"tokens = {json.dumps(example.tokens, ensure_ascii=False)}", f"d_k = {example.d_k}"]
    for name, rows in example.matrices.items():
        body = ",\n  ".join("[" + ", ".join(row) + "]" for row in rows)
        lines.append(f"{name} = [  # {TITLES[name]}\n  {body},\n]")
    return "\n".join(lines) + "\n"


def as_json(example: Printed) -> str:
    parts = [f'"tokens": {json.dumps(example.tokens)}', f'"d_k": {example.d_k}']
    for name, rows in example.matrices.items():
        parts.append(f'"{name}": [{", ".join("[" + ", ".join(row) + "]" for row in rows)}]')
    return "{" + ",\n ".join(parts) + "}"


def html(example: Printed) -> str:
    parts = ["<!DOCTYPE html>", "<html><head><title>1 2</title></head><body>"]
    for name, rows in example.matrices.items():
        labelled = has_tokens(name)
        columns = example.tokens if name in SQUARE else [""] * len(rows[0])
        lines = [["Token", *columns] if labelled else columns] if any(columns) else []
        lines += [([example.tokens[i]] if labelled else []) + row for i, row in enumerate(rows)]
        cells = "\n".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines
        )
        parts.append(f"<h2>{TITLES[name]}</h2>\n<table class='a'>\n{cells}\n</table>")
    return "\n".join([*parts, "</body></html>"])


def notebook(example: Printed) -> str:
    """Matrices in code, steps as what was printed."""
    cells = []
    for name, rows in example.matrices.items():
        title = f"## {TITLES[name]}\n"
        body = "[" + ",\n ".join("[" + ", ".join(row) + "]" for row in rows) + "]"
        if name in example.given:
            code = {"cell_type": "code", "source": [f"{name} = np.array({body})\n"], "outputs": []}
            cells.append(code)
            continue
        text = [line + "\n" for line in f"{TITLES[name]}:\n{body}".splitlines()]
        output = {"output_type": "stream", "text": text}
        cells += [
            {"cell_type": "markdown", "source": [title]},
            {"cell_type": "code", "outputs": [output], "source": ["print(result)"]},
        ]
    return json.dumps({"cells": cells, "nbformat": 4}, indent=1)


def rows_in_brackets(example: Printed) -> str:
    """`cat  [0.71, 0.00]`, a line a token, below the words of the columns."""
    parts = []
    for name, rows in example.matrices.items():
        if not has_tokens(name):
            body = ", ".join("[" + ", ".join(row) + "]" for row in rows)
            parts.append(f"{SYMBOLS.get(name, name)} = [{body}]\n")
            continue
        lines = ["     " + "   ".join(example.tokens)] if name in SQUARE else []
        lines += [
            f"{token}  [{', '.join(row)}]" for token, row in zip(example.tokens, rows, strict=True)
        ]
        parts.append(f"{TITLES[name]}\n\n```\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def equations(example: Printed) -> str:
    """Every step as a chain that ends in its result, in LaTeX."""
    made = {
        "query": "X W_Q",
        "key": "X W_K",
        "value": "X W_V",
        "scores": "Q K^\\top",
        "scaled": "\\frac{Q K^\\top}{\\sqrt{d_k}}",
        "weights": "\\mathrm{softmax}(S)",
        "head_output": "A V",
        "residual": "X + Z",
        "norm": "\\mathrm{LayerNorm}(X + Z)",
        "normalized": "\\frac{R - \\mu}{\\sqrt{\\sigma^2}}",
        "hidden": "N W_1 + b_1",
        "activated": "\\mathrm{ReLU}(N W_1 + b_1)",
        "feed_forward": "H W_2 + b_2",
        "residual_2": "N + \\mathrm{FFN}(N)",
        "norm_2": "\\mathrm{LayerNorm}(N + \\mathrm{FFN}(N))",
    }
    symbols = {"scores": "S", "scaled": "S_{scaled}", "weights": "A", "head_output": "Z"}
    symbols |= {"residual": "R", "norm": "N", "normalized": "U", "hidden": "G", "activated": "H"}
    symbols |= {"feed_forward": "F", "residual_2": "R", "norm_2": "Y"}
    parts = []
    for name, rows in example.matrices.items():
        symbol = symbols.get(name, SYMBOLS.get(name, name))
        body = " \\\\\n".join(" & ".join(row) for row in rows)
        matrix = f"\\begin{{bmatrix}}\n{body}\n\\end{{bmatrix}}"
        left = f"{symbol} = {made[name]}" if name in made else symbol
        parts.append(f"\\[\n{left}\n\\approx\n{matrix}.\n\\]\n")
    return "\n".join(parts)


FORMATS: dict[str, tuple[Callable[[Printed], str], str]] = {
    "markdown": (markdown, "example.md"),
    "tabs": (tabs, "example.txt"),
    "vectors in a table": (vectors_in_a_table, "example.txt"),
    "rows by symbol": (rows_by_symbol, "example.md"),
    "nested lists": (nested_lists, "example.txt"),
    "latex": (latex, "example.tex"),
    "latex doubled": (latex_doubled, "example.md"),
    "plain columns": (plain_columns, "example.txt"),
    "commas": (commas, "example.csv"),
    "tabular": (tabular, "example.tex"),
    "html": (html, "example.html"),
    "notebook": (notebook, "example.ipynb"),
    "rows in brackets": (rows_in_brackets, "example.md"),
    "equations": (equations, "example.tex"),
    "toml": (toml, "example.toml"),
    "json": (as_json, "example.json"),
}
