"""What each head does, in the terminal: the highest of each score beside its null distribution."""

from __future__ import annotations

from rich.text import Text

from regard.ask import Heads
from regard.ask._heads import LEAST
from regard.view.lines import INDENT, aligned, paragraph, title_line

_MOST = 10  # heads of a score
_SAID = {
    "retrieval": "on the answer that is asked for, from the tokens that are to predict it",
    "induction": "on what followed the last time that the token stood there",
    "duplicate": "on the same token, where it stood last",
    "previous": "on the token before",
    "first": "on the first token (a sink)",
}


def render_heads(found: Heads, width: int = 80, most: int = _MOST) -> list[Text]:
    """The highest heads of each score, recall, and what ablating has shown.

    >>> from regard.ask import Recall, Scored, ScoredHead
    >>> head = ScoredHead(3, 5, {"retrieval": Scored(0.5, 0.001, 0.004)}, 0.02)
    >>> made = Heads("m", 97, [{}], [head], Recall(1, 1, -0.1))
    >>> print(*render_heads(made)[3:7], sep="\\n")
    Retrieval   1 of 1 heads: at least 0.1 and above every random span
        on the answer that is asked for, from the tokens that are to predict it
        head  weight  random  its most  other needles
        3.5    0.500  0.0010    0.0040         0.0200
    """
    lines = [Text()]
    said = f"{found.model}: {found.tokens:,} tokens, {len(found.needles)} needles in them"
    lines.append(Text(said, "bold"))
    if found.recall is not None:
        recall = found.recall
        told = f"{recall.found} of {recall.needles} were found; an answer's tokens have a mean "
        lines += paragraph(f"{told}log-probability of {recall.log_probability:.2f}.", width)
    for kind, about in _SAID.items():
        best = found.best(kind, most)
        if not best:
            continue
        count = sum(kind in head.kinds for head in found.heads)
        remark = f"{count} of {len(found.heads)} heads: at least {LEAST[kind]} and above every "
        name = kind.capitalize() if kind != "first" else "First token"
        lines += [title_line(name, f"{remark}random span", width), *paragraph(about, width)]
        names = aligned(["head", *(f"{head.layer}.{head.head}" for head in best)])
        is_asked = kind == "retrieval" and len(found.needles) > 0
        top = "  weight  random  its most" + ("  other needles" if is_asked else "")
        lines.append(Text(f"{' ' * INDENT}{names[0]}{top}", "dim"))
        for head, label in zip(best, names[1:], strict=True):
            score = head.scores[kind]
            line = f"{label}   {score.value:.3f}  {score.null:.4f}    {score.most:.4f}"
            if is_asked:
                line += f"  {'–' if head.others is None else f'{head.others:.4f}':>13}"
            style = "" if kind in head.kinds else "dim"
            lines.append(Text(f"{' ' * INDENT}{line}", style))
        lines.append(Text())
    return lines + _ablated(found, width)


def _ablated(found: Heads, width: int) -> list[Text]:
    if found.ablated is None or found.without is None:
        return []
    count = max(map(len, found.without.values()))
    remark = f"{count} heads at once, in another text of needles"
    lines = [title_line("Ablated", remark, width)]
    names = aligned(found.ablated)
    for name, (key, recall) in zip(names, found.ablated.items(), strict=True):
        share = f"{recall.found} of {recall.needles} found"
        line = f"{' ' * INDENT}{name}  {share}, log-probability {recall.log_probability:6.2f}"
        lines.append(Text(line))
        heads = [f"{layer}.{head}" for layer, head in found.without[key]]
        lines += paragraph(", ".join(heads), width, INDENT + 2, "dim")
    return lines
