"""One head of a run in the terminal: its numbers, its map, and where each token looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from regard.view.labels import most_cells, visible
from regard.view.lines import (
    INDENT,
    LABEL,
    aligned,
    fit_name,
    kind_told,
    looks_told,
    paragraph,
    title_line,
)
from regard.view.names import label_at, token_names
from regard.view.run import KINDS, render_map

if TYPE_CHECKING:
    from regard.run import Run

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
        lines.append(Text(start + looks_told(looks, width - most_cells(start))))
    if len(shown) < len(keys):
        remark = f"{len(shown)} of {len(keys):,} tokens shown; --token shows any one"
        lines += paragraph(remark, width, style="dim")
    return lines
