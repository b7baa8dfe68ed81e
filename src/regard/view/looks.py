"""Where one head looks, or one token in every head, in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.text import Text

from regard.run import Run
from regard.run.links import Link, links_of_heads, links_that_stand_out, mean_looks
from regard.view.labels import fit, most_cells, pad, visible
from regard.view.lines import INDENT, LABEL, aligned, fit_name, kind_told, paragraph, title_line
from regard.view.names import label_at, token_labels, token_names
from regard.view.run import KINDS, render_links, render_map

_MOST_TOKENS = 40  # that are listed each


def render_head(run: Run, layer: int, head: int, width: int = 80) -> list[Text]:
    """One head: its numbers, its map, and where each token looks.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> print(*render_head(run, 0, 0)[-3:], sep="\\n")
        1 → 1 1.00 · 2 0.00 · 3 0.00
        2 → 2 1.00 · 1 0.00 · 3 0.00
        3 → 3 1.00 · 1 0.00 · 2 0.00
    """
    one = run.layer(layer)
    numbers = one.heads[head]
    title = f"Head {layer}.{head}: {kind_told(numbers)}"
    lines = [Text(), title_line(title, visible(one.name), width)]
    lines += paragraph(KINDS.get(numbers.kind, ""), width, style="dim")
    figures = [
        ("entropy", numbers.entropy, " nats"),
        ("of equal weights", numbers.spread, ""),
        ("distance", numbers.distance, " tokens"),
        ("first", numbers.first, ""),
        ("itself", numbers.self_, ""),
        ("previous", numbers.previous, ""),
        ("induction", numbers.induction, ""),
    ]
    told = [f"{name} {value:.2f}{unit}" for name, value, unit in figures if value is not None]
    lines += [*paragraph(" · ".join(told), width), Text(), *render_map(run, layer, head, width)]
    lines += [Text(), title_line("Where each token looks", "its strongest keys", width)]
    if one.top_keys is None or one.top_weights is None:
        return [*lines, *paragraph("They were not kept.", width, style="dim")]
    labels = token_names(run)
    keys, weights = one.top_keys[0, head].tolist(), one.top_weights[0, head].tolist()
    shown = range(len(keys))[:_MOST_TOKENS]
    names = [fit_name(label_at(labels, i + one.offset), LABEL) for i in shown]
    for i, name in zip(shown, aligned(names, right=True), strict=True):
        start = f"{' ' * INDENT}{name} → "
        looks = [
            (label_at(labels, key), weight)
            for key, weight in zip(keys[i], weights[i], strict=True)
            if key >= 0
        ]
        lines.append(Text(start + _looks_told(looks, width - most_cells(start))))
    if len(shown) < len(keys):
        remark = f"{len(shown)} of {len(keys):,} tokens shown; --token shows any one"
        lines += paragraph(remark, width, style="dim")
    return lines


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
            lines.append(Text(start + _looks_told(looks, width - len(start), most=4)))
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


def _looks_told(looks: Iterable[tuple[str, float]], room: int, most: int = 3) -> str:
    """Tokens with their weights: the first of them, as many as there is room for.

    >>> _looks_told([("it", 0.75), ("animal", 0.25)], 80), _looks_told([("it", 0.75)], 6)
    ('it 0.75 · animal 0.25', 'nothing')
    """
    told = ""
    for label, weight in list(looks)[:most]:
        piece = f"{' · ' if told else ''}{fit_name(label, LABEL)} {weight:.2f}"
        if most_cells(told + piece) > room:
            break
        told += piece
    return told or "nothing"
