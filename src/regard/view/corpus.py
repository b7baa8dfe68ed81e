"""A corpus in the terminal: what was read, the heads by kind, and what shows a behaviour most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from regard.text import counted
from regard.view.labels import fit, pad
from regard.view.lines import INDENT, paragraph, title_line
from regard.view.run import render_kinds

# What each statistic is, and its unit.
STATISTICS = {
    "entropy": "entropy in nats: over how many tokens it spreads",
    "spread": "entropy, as a share of that of equal weights",
    "distance": "how many tokens away it looks",
    "first": "weight on the first token: the sink",
    "self": "weight on the token itself",
    "previous": "weight on the token before",
    "induction": "weight on what followed the same token before",
}


def render_corpus(document: Mapping[str, Any], width: int = 80) -> list[Text]:
    """The whole, as `regard.corpus.document.told` has it."""
    lines = render_about(document, width)
    if not document["heads"]:
        return [*lines, Text(), Text("No head was seen.")]
    lines += [Text(), *render_kinds(document["heads"], width)]
    lines += [
        Text(),
        title_line("What heads do most", "mean over all tokens; 5 %, median, 95 %", width),
    ]
    for each in document["leading"]:
        lines += _leading(each, width)
    return lines


def render_about(document: Mapping[str, Any], width: int = 80) -> list[Text]:
    """What was read, and what was not.

    >>> about = {"name": "corpus", "model": "minilm", "texts": 7, "read": 5, "tokens": 61}
    >>> about |= {"sources": 1, "reasons": {"empty": 2}, "layers": [{"heads": 12}], "notes": []}
    >>> print(*render_about({**about, "finished": True}), sep="\\n")
    corpus
    7 texts from 1 file · 5 read by minilm · 61 tokens · 1 layer × 12 heads
    2 were not read: 2 empty.
    """
    heads = sorted({each["heads"] for each in document["layers"]})
    size = "no attention was seen"
    if heads:
        fewest = "" if len(heads) == 1 else f"{heads[0]} to "
        layers = counted(len(document["layers"]), "layer")
        size = f"{layers} × {fewest}{counted(heads[-1], 'head')}"
    parts = [
        f"{counted(document['texts'], 'text')} from {counted(document['sources'], 'file')}",
        f"{document['read']:,} read by {document['model']}",
        counted(document["tokens"], "token"),
        size,
    ]
    lines = [Text(fit(document["name"], width), "bold")]
    lines += paragraph(" · ".join(parts), width, indent=0)
    if reasons := document["reasons"]:
        told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        count = sum(reasons.values())
        are = "was" if count == 1 else "were"
        lines += paragraph(f"{count:,} {are} not read: {told}.", width, indent=0, style="yellow")
    if not document["finished"]:
        done = f"{document['done']:,} of {counted(document['units'], 'unit')} so far"
        lines += paragraph(f"Not finished: {done}.", width, indent=0, style="yellow")
    for note in document["notes"]:
        lines += paragraph(f"Not seen: {note}", width, indent=0, style="yellow")
    return lines


def _leading(each: Mapping[str, Any], width: int) -> list[Text]:
    name = each["statistic"]
    lines = [Text(" " * INDENT).append(name, "bold").append(f"   {STATISTICS[name]}", "dim")]
    for row in each["heads"]:
        figures = [_figure(row[key]) for key in ("mean", "q05", "median", "q95")]
        place = pad(f"{row['layer']}.{row['head']}", 6)
        numbers = "".join(f"{figure:>9}" for figure in figures)
        lines.append(Text(f"{' ' * 2 * INDENT}{place}{numbers}"))
    first = each["heads"][0]
    start = f"{first['layer']}.{first['head']} most, {_figure(each['text']['value'])}, in"
    return [*lines, *_text_lines(start, each["text"], width, 2 * INDENT)]


def _text_lines(start: str, row: Mapping[str, Any], width: int, indent: int) -> list[Text]:
    """A text: where it stands, how it begins, and the strongest link of the head in it."""
    where = f"{start} {row['source']}:{row['position']}, {counted(row['tokens'], 'token')}"
    lines = paragraph(where, width, indent, "dim")
    room = width - indent - 2
    lines.append(Text(" " * indent + f"“{fit(row['beginning'], room)}”"))
    if row["weight"] is not None:
        tokens = [fit(str(row[key]), 20) for key in ("query_token", "key_token")]
        link = f"{tokens[0]} → {tokens[1]}  {row['weight']:.2f}"
        lines.append(Text(" " * indent + link))
    return lines


def render_most(
    rows: Sequence[Mapping[str, Any]],
    statistic: str,
    layer: int,
    head: int,
    width: int = 80,
    lowest: bool = False,
) -> list[Text]:
    """The texts in which a head shows a behaviour most, each with its strongest link."""
    way = "least" if lowest else "most"
    title = f"Head {layer}.{head}: {counted(len(rows), 'text')} with the {way} {statistic}"
    lines = [title_line(title, STATISTICS[statistic], width)]
    for row in rows:
        figure = _figure(row["value"])
        lines += _text_lines(f"{figure:>8}  text {row['text']:,},", row, width, INDENT)
    return lines


def _figure(number: float) -> str:
    """
    >>> _figure(0.12345), _figure(61.25), _figure(4321.0)
    ('0.123', '61.2', '4,321')
    """
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.3f}"
