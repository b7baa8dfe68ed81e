"""A run in the terminal: its heads by kind, its strongest links, a map of one head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.text import Text

from regard.run import Run
from regard.run.atlas import shares
from regard.run.links import LEAST_WEIGHT, Link, links_that_stand_out, most_telling
from regard.text import counted
from regard.view.labels import fit, pad
from regard.view.lines import INDENT, LABEL, aligned, fit_name, paragraph, some, title_line
from regard.view.names import label_at, token_labels, token_names

_SHADES = ((0.7, "█"), (0.4, "▓"), (0.2, "▒"), (0.05, "░"))  # from that share of the weight on
_MOST_LINKS, _MOST_EXAMPLES, _MOST_UNKNOWN = 10, 4, 8
_SIDE = 24  # cells of a map, at most
_BAR = 20
_NARROW = 30  # cells beside a name in which nothing is written any more
_LEFT_OUT = "on the first token, on itself, and from or to special tokens"

# The kinds of heads in the order in which they are told, and what their score is.
KINDS = {
    "induction": "on what followed the same token before",
    "previous token": "on the token before",
    "itself": "on the token itself",
    "first token": "on the first token",
    "broad": "entropy, as a share of that of equal weights",
    "mixed": "nothing has a share of 0.40 or more",
}


def render_summary(
    run: Run,
    width: int = 80,
    *,
    name: str = "",
    seconds: float | None = None,
    why: str = "",
    unknown: Sequence[str] = (),
    sign: str = "[UNK]",
) -> list[Text]:
    """What was run, in a few lines: the text, the model, its size, the time of the pass.

    `unknown` are the pieces of the text that the model does not know, and reads `sign` for.

    >>> from regard.run import Run
    >>> print(*render_summary(Run(text="I love"), name="minilm", seconds=0.25), sep="\\n")
    I love
    minilm · 0 tokens · no attention was seen · read in 0.25 s once loaded
    """
    text = run.text if isinstance(run.text, str) else ""
    lines = [Text(fit(" ".join(text.split()), width), "bold")] if text.strip() else []
    layers = list(run.layers.values())
    heads = sorted({layer.shape[1] for layer in layers})
    size = "no attention was seen"
    if heads:
        fewest = "" if len(heads) == 1 else f"{heads[0]} to "
        size = f"{counted(len(layers), 'layer')} × {fewest}{counted(heads[-1], 'head')}"
    parts = [name or run.model, counted(len(token_labels(run)), "token"), size]
    if any(layer.options.causal for layer in layers):
        parts.append("causal")
    if seconds is not None:
        parts.append(f"read in {seconds:.{2 if seconds < 10 else 0}f} s once loaded")
    lines += paragraph(" · ".join(filter(None, parts)), width, indent=0)
    if why:
        lines += paragraph(why, width, indent=0, style="dim")
    if unknown:
        pieces = list(dict.fromkeys(fit(piece, LABEL) for piece in unknown))
        shown = ", ".join(pieces[:_MOST_UNKNOWN]) + (", …" if len(pieces) > _MOST_UNKNOWN else "")
        are, it = ("is", "it") if len(unknown) == 1 else ("are", "each")
        told = f"{counted(len(unknown), 'token')} {are} unknown to {name or 'the model'}, which "
        told += f"reads {sign} for {it}: {shown}."
        lines += paragraph(told, width, indent=0, style="yellow")
    for note in run.unseen:
        lines += paragraph(f"Not seen: {note}", width, indent=0, style="yellow")
    return lines


def render_run(
    run: Run, width: int = 80, *, layer: int | None = None, head: int | None = None
) -> list[Text]:
    """The heads by kind, the strongest links, and a map of the head whose link says most.

    `layer` or `head` leave out all others.

    >>> from regard.run import Run
    >>> print(*render_run(Run()), sep="\\n")
    <BLANKLINE>
    No head was seen.
    """
    rows = [
        row for row in run.heads() if layer in (None, row["layer"]) and head in (None, row["head"])
    ]
    if not rows:
        return [Text(), Text("No head was seen.")]
    lines = [Text(), *render_kinds(rows, width), Text()]
    links, trivial = links_that_stand_out(run, layer, head)
    lines += render_links(run, links, width, trivial=trivial)
    told = most_telling(links)
    place = (told.layer, told.head) if told else (rows[0]["layer"], rows[0]["head"])
    return [*lines, Text(), *render_map(run, *place, width)]


def render_kinds(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    """Heads, as `run.heads()` has them, by their kind."""
    lines = [title_line("Heads by kind", "layer.head, both from 0, with the mean share", width)]
    for kind, meaning in KINDS.items():
        heads = [row for row in rows if row["kind"] == kind]
        if not heads:
            continue
        heads.sort(key=lambda row: -(row["score"] or 0.0))
        line = Text(" " * INDENT).append(f"{kind:<14}", "bold").append(f" {len(heads):>4}   ")
        indent = line.cell_len
        examples = [
            f"{row['layer']}.{row['head']} {row['score']:.2f}"
            for row in heads[:_MOST_EXAMPLES]
            if row["score"] is not None and kind != "mixed"
        ]
        told = " · ".join(examples)
        if len(heads) > len(examples) > 0:
            told += " …"
        if width - indent < _NARROW:
            lines += [line, *paragraph(told or meaning, width, indent=INDENT + 2)]
            continue
        style = "" if told else "dim"
        first, *rest = paragraph(told or meaning, width, indent=indent, style=style)
        lines += [line.append_text(first[indent:]), *rest]
        if told:
            lines += paragraph(meaning, width, indent=indent, style="dim")
    return lines


def render_links(run: Run, links: Sequence[Link], width: int = 80, *, trivial: bool) -> list[Text]:
    """The first ten links; `trivial` says whether trivial ones are among them.

    >>> from regard.run import Run
    >>> print(*render_links(Run(), [Link(3, 1, 7, 1, 0.5)], 60, trivial=False)[:2], sep="\\n")
    Strongest links
        8 → 2  0.50  3.1
    """
    links = links[:_MOST_LINKS]
    lines = [
        title_line(
            "Strongest links", "token → token, weight, head; the strongest of each head", width
        )
    ]
    labels = token_names(run)
    room = min(LABEL, (width - INDENT - 20) // 2)
    names = aligned(
        " → ".join(fit_name(label_at(labels, place), room) for place in (link.query, link.key))
        for link in links
    )
    for link, name in zip(links, names, strict=True):
        line = Text(f"{' ' * INDENT}{name}  {link.weight:.2f}  ")
        bar = _BAR if width >= line.cell_len + _BAR + 28 else 0
        if bar:
            line.append(pad("█" * max(round(link.weight * bar), 1), bar), "cyan").append("  ")
        line.append(f"{link.name:<5}")
        more = f"  and {counted(link.heads - 1, 'more head')}"
        if link.heads > 1 and line.cell_len + len(more) <= width:
            line.append(more, "dim")
        lines.append(line)
    remark = (
        f"Links {_LEFT_OUT} are among these: no other has a weight of {LEAST_WEIGHT} or more."
        if trivial
        else f"Left out: links {_LEFT_OUT}."
    )
    return lines + paragraph(remark, width, style="dim")


# ── a map of one head ─────────────────────────────────────────────────────────────────────────


def render_map(run: Run, index: int, head: int, width: int = 80) -> list[Text]:
    """The weights of one head in block characters: a line a token, or a group of them.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> print(*render_map(run, 0, 0)[1:4], sep="\\n")
        1 │██
        2 │  ██
        3 │    ██
    """
    layer = run.layer(index)
    _, _, n_queries, n_keys = layer.shape
    lines = [title_line(f"Head {index}.{head}", "a row looks at its columns", width)]
    side = min(_SIDE, (width - INDENT - LABEL - 2) // 2)
    shape = min(n_queries, side), min(n_keys, side)
    if layer.has_weights and 0 not in shape:
        array = shares(layer, shape, head, sequence=0)
    elif layer.map is not None and all(np.less_equal(layer.map.shape[2:], shape)):
        array = layer.map[0, head]
    else:
        return [*lines, *paragraph("No map of it was kept.", width, style="dim")]
    rows = array.tolist()
    labels = token_names(run)
    starts = [-(-row * n_queries // len(rows)) + layer.offset for row in range(len(rows))]
    names = [fit_name(label_at(labels, start), LABEL) for start in starts]
    for name, row in zip(aligned(names, right=True), rows, strict=True):
        line = Text(f"{' ' * INDENT}{name} │")
        for share in row:
            line.append(2 * next((block for least, block in _SHADES if share >= least), " "))
        lines.append(line)
    legend = " · ".join(f"{block} {least:.2f}" for least, block in reversed(_SHADES))
    remark = f"{legend} of a row's weight, or more; columns are the tokens in the same order."
    if array.shape != (n_queries, n_keys):
        remark += (
            f" A row is the mean of {some(n_queries, array.shape[0])} queries, "
            f"a column the sum of {some(n_keys, array.shape[1])} keys."
        )
    return lines + paragraph(remark, width, style="dim")
