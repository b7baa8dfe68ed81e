"""Where a logit comes from, in the terminal: its parts with bars, and what ablating has shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.ask import Part, Why
from regard.text import counted
from regard.view.labels import most_cells, pad, visible
from regard.view.lines import INDENT, aligned, paragraph, title_line

_MOST = 12  # parts that are told one by one
_BAR = 30
_SAID = {
    "holds": "about its share",
    "less": "less: others make up for it",
    "more": "more: others build on it",
    "opposite": "the opposite of its share",
}


def render_why(why: Why, place: str, width: int = 80) -> list[Text]:
    """What is explained, its largest parts, what they add up to, and the strongest heads ablated.

    `place` is the name of the token after which it is.

    >>> from regard.ask._why import Token
    >>> token = Token(" Mary", 3, 1.5, 0.9)
    >>> made = Why("m", 0, token, None, 1.5, [[1.25]], [0.25], {"embedding": 0.0}, {})
    >>> print(*render_why(made, "to")[1:5], sep="\\n")
    Why “ Mary” after “to”
        “ Mary” has a probability of 0.900 and a logit of 1.50.
    <BLANKLINE>
    Where the logit comes from   its largest parts
    """
    token, against = why.token, why.against
    name = f"“{visible(token.text)}”"
    what = "logit"
    lines = [Text()]
    if against is None:
        lines.append(Text(f"Why {name} after “{place}”", "bold"))
        told = f"{name} has a probability of {token.probability:.3f} and a logit of "
        told += f"{token.logit:.2f}."
    else:
        other, what = f"“{visible(against.text)}”", "difference"
        lines.append(Text(f"Why {name} rather than {other} after “{place}”", "bold"))
        told = f"{name} has a probability of {token.probability:.3f} and a logit of "
        told += f"{token.logit:.2f}, {other} {against.probability:.3f} and {against.logit:.2f}: a "
        told += f"difference of {_signed(why.total)}."
    if why.softcap is not None:
        told += f" The model caps its logits at {why.softcap:g}; these are from before that."
    lines += [*paragraph(told, width), Text()]
    lines.append(title_line(f"Where the {what} comes from", "its largest parts", width))
    parts = why.parts
    lines += _bars(parts[:_MOST], width)
    lines += paragraph(f"All {len(parts)} parts: {_sums(why)}.", width, style="dim")
    if why.ablated:
        lines += [Text(), *_ablated(why, width)]
    return [*lines, Text(), *paragraph(_about(why), width, style="dim")]


def part_name(part: Part) -> str:
    """A part by name: `head 3.5`, `feed-forward 3`, `embedding of positions`."""
    if part.kind == "head":
        return f"head {part.name}"
    if part.kind == "bias":
        return f"bias of {part.name}"
    if part.kind == "embedding" and part.name != "embedding":
        return f"embedding of {part.name}"
    return part.name


def _bars(parts: Sequence[Part], width: int) -> list[Text]:
    lines: list[Text] = []
    names = aligned(part_name(part) for part in parts)
    largest = max((abs(part.share) for part in parts), default=0.0) or 1.0
    for name, part in zip(names, parts, strict=True):
        text = f"{' ' * INDENT}{name}  {_signed(part.share):>7}"
        room = max(0, min(_BAR, width - most_cells(text) - 2))
        bar = "█" * max(round(abs(part.share) / largest * room), 1 if room else 0)
        lines.append(Text.assemble(text, "  ", (bar, "cyan" if part.share > 0 else "red")))
        lines[-1].rstrip()
    return lines


def _sums(why: Why) -> str:
    """What the parts of each kind add up to."""
    heads = [share for shares in why.heads for share in shares]
    sums = {
        counted(len(heads), "head"): sum(heads),
        counted(len(why.feed_forward), "feed-forward layer"): sum(why.feed_forward),
        "embeddings" if len(why.embeddings) > 1 else "embedding": sum(why.embeddings.values()),
    }
    if why.biases:
        sums["biases"] = sum(why.biases.values())
    told = " · ".join(f"{name} {_signed(share)}" for name, share in sums.items())
    return f"{told} = {_signed(why.total)}"


def _ablated(why: Why, width: int) -> list[Text]:
    """A line a head: its share, what was lost without it, and what that says."""
    lines = [title_line("Ablated, one by one", "what is really lost without each head", width)]
    names = aligned(["head", *(f"{each.layer}.{each.head}" for each in why.ablated)])
    rows = [
        ("share", "lost", ""),
        *((_signed(a.share), _signed(a.lost), a.verdict) for a in why.ablated),
    ]
    for name, (share, lost, verdict) in zip(names, rows, strict=True):
        line = Text(f"{' ' * INDENT}{pad(name, 6)} {share:>7}  {lost:>7}")
        if not verdict:
            line.stylize("dim")
        elif width >= line.cell_len + 3 + len(_SAID["less"]):
            line.append(f"   {_SAID[verdict]}", "" if verdict == "holds" else "yellow")
        lines.append(line)
    return lines + paragraph(verdict_of(why), width)


def verdict_of(why: Why) -> str:
    """What ablating says of the shares, in words."""
    by = {kind: [a for a in why.ablated if a.verdict == kind] for kind in _SAID}
    total = len(why.ablated)
    if len(by["holds"]) == total:
        return "Each loses about its share: for these heads the shares are the cause."
    told = f"For {len(by['holds'])} of {total} heads the loss is about the share. "
    more = {
        "less": "Without {heads} less is lost: later parts make up for them (self-repair).",
        "more": "Without {heads} more is lost: later parts build on what they give.",
        "opposite": "Without {heads} the change is the opposite of the share.",
    }
    for kind, sentence in more.items():
        if by[kind]:
            heads = [f"{each.layer}.{each.head}" for each in by[kind]]
            told += sentence.format(heads=_listed(heads)) + " "
    return told + "There the share alone does not tell the cause."


def _about(why: Why) -> str:
    what = "logit" if why.against is None else "difference"
    return (
        f"A share is what a part adds straight to the {what}, the scale of the last norm held; "
        "what it does by way of later parts is in theirs. Layers and heads count from 0."
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _signed(x: float) -> str:
    """With its sign and two decimals.

    >>> _signed(-0.126), _signed(2.0)
    ('−0.13', '+2.00')
    """
    return f"{x:+.2f}".replace("-", "−")
