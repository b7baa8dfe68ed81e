"""The forms in which people print worked examples."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from worked.printing import CAUSAL, SQUARE, Printed, Rows, values

TITLES = {
    "X": "Embedding vectors (X)",
    "X_dec": "Decoder states (X_dec)",
    "X_enc": "Encoder output (X_enc)",
    "W_Q": "Query projection (W_Q)",
    "W_K": "Key projection (W_K)",
    "W_V": "Value projection (W_V)",
    "W_O": "Output projection (W_O)",
    "query": "Query (Q)",
    "key": "Key (K)",
    "value": "Value (V)",
    "scores": "Raw scores",
    "scaled": "Scaled scores",
    "weights": "Attention weights",
    "head_output": "Output",
    "concatenated": "Concatenated heads",
    "output": "Final output",
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
    "concatenated": "Concat",
    "output": "O",
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
# What a step is called and made of where it is written as a chain.
MADE = {
    "scores": ("S", "Q K^\\top"),
    "scaled": ("S_{scaled}", "\\frac{Q K^\\top}{\\sqrt{d_k}}"),
    "weights": ("A", "\\mathrm{softmax}(S)"),
    "head_output": ("Z", "A V"),
    "residual": ("R", "X + Z"),
    "normalized": ("U", "\\frac{R - \\mu}{\\sqrt{\\sigma^2}}"),
    "norm": ("N", "\\mathrm{LayerNorm}(X + Z)"),
    "hidden": ("G", "N W_1 + b_1"),
    "activated": ("H", "\\mathrm{ReLU}(N W_1 + b_1)"),
    "feed_forward": ("F", "H W_2 + b_2"),
    "residual_2": ("R", "N + \\mathrm{FFN}(N)"),
    "norm_2": ("Y", "\\mathrm{LayerNorm}(N + \\mathrm{FFN}(N))"),
}


def with_labels(example: Printed, name: str) -> Rows:
    """The rows, each with its token in front if it has one."""
    rows, labels = example.matrices[name], example.rows_of(name)
    return [[label, *row] for label, row in zip(labels, rows, strict=True)] if labels else rows


def with_header(example: Printed, name: str, corner: str = "Token") -> Rows:
    """The same below the tokens of the columns, if those are tokens."""
    columns = example.columns_of(name)
    return [[corner, *columns]] * bool(columns) + with_labels(example, name)


def brackets(rows: Rows, between: str = ", ", lines: str = ", ") -> str:
    return "[" + lines.join("[" + between.join(row) + "]" for row in rows) + "]"


def one_line(name: str, rows: Rows) -> str:
    """A single row or column, which is no table."""
    return f"{TITLES[name]}: [{', '.join(text for row in rows for text in row)}]\n"


def each(example: Printed, write: Callable[[str, Rows], str]) -> str:
    """What is to be said first, then every matrix."""
    parts = [f"{CAUSAL}\n"] if example.causal else []
    return "\n".join(parts + [write(name, rows) for name, rows in example.matrices.items()])


# ── tables ────────────────────────────────────────────────────────────────────────────────────


def markdown(example: Printed) -> str:
    def write(name: str, rows: Rows) -> str:
        labelled = bool(example.rows_of(name))
        header = ["Token"] * labelled + (example.columns_of(name) or [""] * len(rows[0]))
        lines = [header, ["---"] * len(header), *with_labels(example, name)]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"## {TITLES[name]}\n\n{table}\n"

    return each(example, write)


def tabs(example: Printed) -> str:
    def write(name: str, _: Rows) -> str:
        lines = map("\t".join, with_header(example, name, corner=""))
        return f"{TITLES[name]}\n\n" + "\n".join(lines) + "\n"

    return each(example, write)


def vectors_in_a_table(example: Printed) -> str:
    """One table a matrix, with cells like `[1.2, 0.6]`; what has no tokens is a plain table."""

    def write(name: str, rows: Rows) -> str:
        if not example.rows_of(name) or name in SQUARE:
            return tabs(example.part(name))
        lines = [f"Token\t{TITLES[name]}"]
        lines += [f"{row[0]}\t[{', '.join(row[1:])}]" for row in with_labels(example, name)]
        return "Next step\n\n" + "\n".join(lines) + "\n"

    return each(example, write)


def plain_columns(example: Printed) -> str:
    def write(name: str, rows: Rows) -> str:
        if 1 in (len(rows), len(rows[0])):
            return one_line(name, rows)
        lines = ("   ".join(text.rjust(9) for text in row) for row in rows)
        return f"{TITLES[name]}:\n\n" + "\n".join(lines) + "\n"

    return each(example, write)


def commas(example: Printed) -> str:
    def write(name: str, rows: Rows) -> str:
        if 1 in (len(rows), len(rows[0])):
            return one_line(name, rows)
        return f"{TITLES[name]}\n\n" + "\n".join(map(",".join, with_labels(example, name))) + "\n"

    return each(example, write)


def tabular(example: Printed) -> str:
    def write(name: str, _: Rows) -> str:
        lines = [" & ".join(row) + r" \\" for row in with_labels(example, name)]
        body = "\n".join(["\\hline", *lines, "\\hline"])
        table = f"\\begin{{tabular}}{{l|cc}}\n{body}\n\\end{{tabular}}"
        return f"\\caption{{{TITLES[name]}}}\n{table}\n"

    return each(example, write)


def html_table(rows: Rows) -> str:
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table class='a'>\n" + "\n".join(lines) + "\n</table>\n"


def html(example: Printed) -> str:
    def write(name: str, _: Rows) -> str:
        return f"<h2>{TITLES[name]}</h2>\n" + html_table(with_header(example, name))

    head = "<!DOCTYPE html>\n<html><head><title>1 2</title></head><body>\n"
    return f"{head}{each(example, write)}</body></html>\n"


def html_in_markdown(example: Printed) -> str:
    def write(name: str, _: Rows) -> str:
        return f"## {TITLES[name]}\n\n" + html_table(with_header(example, name))

    return each(example, write)


# ── brackets ──────────────────────────────────────────────────────────────────────────────────


def rows_by_symbol(example: Printed) -> str:
    """`q_{love} = \\[1.0 1.1]`, one line a token; matrices without tokens as nested lists."""
    letters = {"X": "x", "query": "q", "key": "k", "value": "v", "head_output": "z"}

    def write(name: str, rows: Rows) -> str:
        if name not in letters:
            return f"${SYMBOLS.get(name, name)}$ = {brackets(rows)}\n"
        return "".join(
            f"* $${letters[name]}_{{{row[0]}}}$$ = \\[{' '.join(row[1:])}]\n"
            for row in with_labels(example, name)
        )

    return each(example, write)


def nested_lists(example: Printed) -> str:
    def write(name: str, rows: Rows) -> str:
        return f"{SYMBOLS.get(name, name)} =\n{brackets(rows, ' ', lines=',' + chr(10) + ' ')}\n"

    return each(example, write)


def rows_in_brackets(example: Printed) -> str:
    """`cat  [0.71, 0.00]`, a line a token, below the words of the columns."""

    def write(name: str, rows: Rows) -> str:
        if not example.rows_of(name):
            return f"{name} = {brackets(rows)}\n"
        lines = ["     " + "   ".join(example.columns_of(name))] * (name in SQUARE)
        lines += [f"{row[0]}  [{', '.join(row[1:])}]" for row in with_labels(example, name)]
        return f"{TITLES[name]}\n\n```\n" + "\n".join(lines) + "\n```\n"

    return each(example, write)


def rows_in_prose(example: Printed) -> str:
    """`cat: [0.71, 0.00]`, a line a token, below a title."""

    def write(name: str, rows: Rows) -> str:
        if not example.rows_of(name):
            return f"{name} = {brackets(rows)}\n"
        lines = [f"- {row[0]}: [{', '.join(row[1:])}]" for row in with_labels(example, name)]
        return f"### {TITLES[name]}\n\n" + "\n".join(lines) + "\n"

    return each(example, write)


def numpy_prints(example: Printed) -> str:
    """As NumPy prints arrays: zeros at the end of a number left out, columns aligned."""

    def write(name: str, rows: Rows) -> str:
        digits = len(rows[0][0].partition(".")[2])
        array = np.array2string(values(rows), precision=digits, suppress_small=True)
        return f"{TITLES[name]}:\n{array}\n"

    return each(example, write)


# ── LaTeX ─────────────────────────────────────────────────────────────────────────────────────


def bmatrix(rows: Rows, backslash: str = "\\") -> str:
    body = f" {backslash}{backslash}\n".join(" & ".join(row) for row in rows)
    return f"{backslash}begin{{bmatrix}}\n{body}\n{backslash}end{{bmatrix}}"


def latex(example: Printed, backslash: str = "\\") -> str:
    def write(name: str, rows: Rows) -> str:
        symbol = SYMBOLS.get(name, name).replace("\\", backslash)
        return f"$$\n{symbol} =\n{bmatrix(rows, backslash)}\n$$\n"

    return each(example, write)


def latex_doubled(example: Printed) -> str:
    """As Markdown that was escaped once too often: two backslashes where one belongs."""
    return latex(example, "\\\\").replace("\\\\\\\\", "\\\\")


def align(example: Printed) -> str:
    """All in one environment, an equation a line."""
    lines = [
        f"{SYMBOLS.get(name, name)} &= {bmatrix(rows)}" for name, rows in example.matrices.items()
    ]
    body = " \\\\[2mm]\n".join(lines)
    note = f"{CAUSAL}\n\n" if example.causal else ""
    return f"{note}\\begin{{align*}}\n{body}\n\\end{{align*}}\n"


def array(example: Printed) -> str:
    def write(name: str, rows: Rows) -> str:
        body = " \\\\ ".join(" & ".join(row) for row in rows)
        matrix = f"\\left[\\begin{{array}}{{{'r' * len(rows[0])}}} {body} \\end{{array}}\\right]"
        return f"\\[ {SYMBOLS.get(name, name)} = {matrix} \\]\n"

    return each(example, write)


def equations(example: Printed) -> str:
    """Every step as a chain that ends in its result."""
    x, context = ("X_{dec}", "X_{enc}") if example.source else ("X", "X")
    made = MADE | {
        "query": ("Q", f"{x} W_Q"),
        "key": ("K", f"{context} W_K"),
        "value": ("V", f"{context} W_V"),
    }

    def write(name: str, rows: Rows) -> str:
        left = " = ".join(made[name]) if name in made else SYMBOLS.get(name, name)
        return f"\\[\n{left}\n\\approx\n{bmatrix(rows)}.\n\\]\n"

    return each(example, write)


def chains(example: Printed) -> str:
    """Every step with the matrices that it is made of written out, if they are printed."""
    x, context = ("X_dec", "X_enc") if example.source else ("X", "X")
    parts = {
        "query": (x, "W_Q"),
        "key": (context, "W_K"),
        "value": (context, "W_V"),
        "head_output": ("weights", "value"),
    }

    def write(name: str, rows: Rows) -> str:
        operands = [example.matrices.get(part) for part in parts.get(name, ())]
        middle = "".join(bmatrix(rows) for rows in operands if rows) if all(operands) else ""
        chain = [SYMBOLS.get(name, name), middle, bmatrix(rows)]
        return "$$" + " = ".join(filter(None, chain)) + "$$\n"

    return each(example, write)


# ── files ─────────────────────────────────────────────────────────────────────────────────────


def toml(example: Printed) -> str:
    tokens = json.dumps(example.tokens, ensure_ascii=False)
    lines = [f"tokens = {tokens}"] * (not example.source) + [f"d_k = {example.d_k}"]
    lines += ["causal = true"] * example.causal
    for name, rows in example.matrices.items():
        body = ",\n  ".join("[" + ", ".join(row) + "]" for row in rows)
        lines.append(f"{name} = [  # {TITLES[name]}\n  {body},\n]")
    return "\n".join(lines) + "\n"


def as_json(example: Printed) -> str:
    parts = [f'"tokens": {json.dumps(example.tokens)}'] * (not example.source)
    parts += [f'"d_k": {example.d_k}', *['"causal": true'] * example.causal]
    parts += [
        f'"{name}": {brackets(rows)}'.replace("-inf", "-1e9")
        for name, rows in example.matrices.items()
    ]
    return "{" + ",\n ".join(parts) + "}"


def notebook(example: Printed) -> str:
    """Matrices in code, steps as what was printed."""
    cells = [{"cell_type": "markdown", "source": [CAUSAL]}] * example.causal
    for name, rows in example.matrices.items():
        body = brackets(rows, lines=",\n ")
        if name in example.given:
            code = {"cell_type": "code", "source": [f"{name} = np.array({body})\n"], "outputs": []}
            cells.append(code)
            continue
        text = [line + "\n" for line in f"{TITLES[name]}:\n{body}".splitlines()]
        output = {"output_type": "stream", "text": text}
        cells += [
            {"cell_type": "markdown", "source": [f"## {TITLES[name]}\n"]},
            {"cell_type": "code", "outputs": [output], "source": ["print(result)"]},
        ]
    return json.dumps({"cells": cells, "nbformat": 4}, indent=1)


FORMATS: dict[str, tuple[Callable[[Printed], str], str]] = {
    "markdown": (markdown, "example.md"),
    "tabs": (tabs, "example.txt"),
    "vectors in a table": (vectors_in_a_table, "example.txt"),
    "plain columns": (plain_columns, "example.txt"),
    "commas": (commas, "example.csv"),
    "tabular": (tabular, "example.tex"),
    "html": (html, "example.html"),
    "html in markdown": (html_in_markdown, "example.md"),
    "rows by symbol": (rows_by_symbol, "example.md"),
    "nested lists": (nested_lists, "example.txt"),
    "rows in brackets": (rows_in_brackets, "example.md"),
    "rows in prose": (rows_in_prose, "example.md"),
    "numpy prints": (numpy_prints, "example.txt"),
    "latex": (latex, "example.tex"),
    "latex doubled": (latex_doubled, "example.md"),
    "align": (align, "example.tex"),
    "array": (array, "example.tex"),
    "equations": (equations, "example.tex"),
    "chains": (chains, "example.md"),
    "toml": (toml, "example.toml"),
    "json": (as_json, "example.json"),
    "notebook": (notebook, "example.ipynb"),
}
