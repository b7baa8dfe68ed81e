"""One token of a run in the terminal: where every head looks from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from regard.run.links import Link, links_of_heads, links_that_stand_out, mean_looks
from regard.view.labels import fit, pad
from regard.view.lines import INDENT, fit_name, looks_told, paragraph, title_line
from regard.view.names import label_at, token_labels, token_names
from regard.view.run import render_links

if TYPE_CHECKING:
    from regard.run import Run


def render_token(
    run: Run, token: int, width: int = 80, *, layer: int | None = None, head: int | None = None
) -> list[Text]:
    """Where every head looks from one token: on average, each by itself, and what stands out.

    Needs q and k, unless one `head` is asked for.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> print(*render_token(run, 1)[1:4], sep="\\n")
    Where “2” looks   token 2 of 3
        Mean over heads
        layer 0     2 1.00 · 1 0.00 · 3 0.00
    """
    labels = token_names(run)
    name = fit(label_at(token_labels(run), token), 30)
    lines = [
        Text(),
        title_line(f"Where “{name}” looks", f"token {token + 1} of {len(labels)}", width),
    ]
    if head is None:
        lines += paragraph("Mean over heads", width, style="bold")
        means = mean_looks(run, token)
        rows = [(f"layer {n}", row) for n, row in enumerate(means) if layer in (None, n)]
        if len(rows) > 1:
            rows.insert(0, ("all layers", means.mean(0)))
        for title, row in rows:
            order = np.argsort(-row, kind="stable")[:4]
            start = f"{' ' * INDENT}{title}".ljust(16)
            looks = [(label_at(labels, int(key)), float(row[key])) for key in order]
            lines.append(Text(start + looks_told(looks, width - len(start), most=4)))
    lines += [Text(), *_grid(links_of_heads(run, layer, head, token), labels, width)]
    best, trivial = links_that_stand_out(run, layer, head, query=token)
    return [*lines, Text(), *render_links(run, best, width, trivial=trivial)]


def _grid(links: Sequence[Link], labels: Sequence[str], width: int) -> list[Text]:
    """The strongest key of each head: a line a layer, a column a head."""
    title = "Strongest key of each head: a row a layer, a column a head"
    lines = paragraph(title, width, style="bold")
    heads = sorted({link.head for link in links})
    layers = sorted({link.layer for link in links})
    found = {(link.layer, link.head): link for link in links}
    room = width - INDENT - 4
    column = max(min((room // max(len(heads), 1)) - 1, 10), 5)
    per_line = max(room // (column + 1), 1)
    for start in range(0, len(heads), per_line):
        some = heads[start : start + per_line]
        header = "".join(f" {head!s:<{column}}" for head in some)
        lines.append(Text(f"{' ' * INDENT}    {header}".rstrip(), "dim"))
        for layer in layers:
            line = Text(" " * INDENT).append(f"{layer:<3} ", "dim")
            for head in some:
                link = found.get((layer, head))
                label = "" if link is None else fit_name(label_at(labels, link.key), column)
                style = "bold" if link is not None and link.weight >= 0.5 else ""
                line.append(" ").append(pad(label, column), style)
            lines.append(line)
    return lines
