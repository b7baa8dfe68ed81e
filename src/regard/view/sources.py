"""Where an answer came from, in the terminal: its sentences, their sources, what blocking says."""

from __future__ import annotations

from rich.text import Text

from regard.ask import Blocked, Sentence, Sources
from regard.text import counted
from regard.view.labels import fit, most_cells
from regard.view.lines import INDENT, aligned, paragraph

_MOST = 8  # sources that are told one by one
_BAR = 24
_NAME = 30  # cells of a source's name, at most


def render_sources(found: Sources, width: int = 80) -> list[Text]:
    """The sources and, sentence by sentence, their shares, the strongest heads, and the check.

    >>> from regard.ask import Source
    >>> one = Sentence("Ruth did.", 9, 18, 3, -1.5, [0.75, 0.25], 0.5, ())
    >>> made = Sources("m", "", (9, 18), [Source("a", 0, 3, 5), Source("b", 4, 8, 5)], [one])
    >>> print(*render_sources(made, 80)[:7], sep="\\n")
    m · 1 sentence · 2 sources of 10 tokens
    <BLANKLINE>
    1   “Ruth did.”
        3 tokens, log-probability −1.50
        a   75 %  ████████████████████████   of 50 % of the tokens
        b   25 %  ████████                   of 50 % of the tokens
    <BLANKLINE>
    """
    total = sum(each.tokens for each in found.sources)
    heading = (
        f"{found.model} · {counted(len(found.sentences), 'sentence')} · "
        f"{counted(len(found.sources), 'source')} of {counted(total, 'token')}"
    )
    lines = [Text(fit(heading, width), "dim")]
    for number, sentence in enumerate(found.sentences, 1):
        lines += [Text(), *_sentence(found, sentence, number, width)]
    if found.unseen:
        told = (
            f"Not seen, and not blocked: {', '.join(found.unseen)}. What goes through them stays."
        )
        lines += [Text(), *paragraph(told, width, style="yellow")]
    return [*lines, Text(), *paragraph(about(found), width, style="dim")]


def verdict_of(found: Sources, blocked: Blocked) -> str:
    """What blocking a source says, in words."""
    name = f"“{found.sources[blocked.source].name}”"
    told = f"Without {name} {_changed(blocked.lost)}. "
    if blocked.verdict == "alone":
        return told + "There is nothing else to block, so what that says cannot be told."
    size = f"{blocked.draws} × {counted(blocked.tokens, 'token')}"
    if blocked.tokens < found.sources[blocked.source].tokens:
        told += f"{size} of it cost {_nats(blocked.inside)} on average, as many elsewhere "
    else:
        told += f"{size} elsewhere cost "
    told += f"{_nats(blocked.outside)}: a difference of {_nats(blocked.low)} to "
    told += f"{_nats(blocked.high)} (95 %). "
    said = {
        "cause": f"{name} is a cause.",
        "elsewhere": f"That is not told apart from any other text: {name} is looked at, and not "
        "shown to be a cause.",
        "little": f"That is next to nothing: {name} is looked at, and no cause.",
    }
    return told + said[blocked.verdict]


def about(found: Sources) -> str:
    """How shares are counted."""
    what = "the weight" if found.by == "weights" else "the weight times the length of the value"
    return (
        f"A share is {what} that goes to a source, of all that goes to sources, over all heads and "
        "layers, from where each token of the sentence is predicted; question, answer and the "
        "first token are no sources. Log-probabilities are in nats; heads count from 0."
    )


def _sentence(found: Sources, sentence: Sentence, number: int, width: int) -> list[Text]:
    title = paragraph(f"“{sentence.text}”", width, INDENT)
    lines = [Text(f"{number:<{INDENT}}{title[0].plain[INDENT:]}", "bold"), *title[1:]]
    size = counted(sentence.tokens, "token")
    told = f"{size}, log-probability {_nats(sentence.log_probability, '')}"
    lines += paragraph(told, width, style="dim")
    lines += _bars(found, sentence, width)
    if sentence.heads:
        heads = ", ".join(f"{h.layer}.{h.head} ({h.weight:.2f})" for h in sentence.heads)
        winner = found.sources[sentence.winner].name
        lines += paragraph(f"Heads that look most at “{winner}”: {heads}.", width)
    for blocked in sentence.blocked:
        style = "green" if blocked.verdict == "cause" else "yellow"
        lines += paragraph(verdict_of(found, blocked), width, style=style)
    return lines


def _bars(found: Sources, sentence: Sentence, width: int) -> list[Text]:
    """A line a source, the largest share first; beside it how much of the tokens are its."""
    order = sorted(range(len(found.sources)), key=lambda n: -sentence.shares[n])[:_MOST]
    total = sum(each.tokens for each in found.sources)
    most = max(sentence.shares) or 1.0
    names = aligned(fit(found.sources[n].name, min(_NAME, width // 3)) for n in order)
    lines: list[Text] = []
    for name, n in zip(names, order, strict=True):
        remark = f"   of {found.sources[n].tokens / total:.0%} of the tokens".replace("%", " %")
        text = f"{' ' * INDENT}{name}  {100 * sentence.shares[n]:3.0f} %  "
        room = min(_BAR, width - most_cells(text))
        bar = "█" * max(1, round(sentence.shares[n] / most * room)) if room > 0 else ""
        line = Text.assemble(text, (bar, "cyan"))
        if most_cells(text) + _BAR + len(remark) <= width:
            line.append(" " * (_BAR - len(bar)) + remark, "dim")
        line.rstrip()
        lines.append(line)
    left = len(found.sources) - len(order)
    return lines + (paragraph(f"and {left} more", width, style="dim") if left else [])


def _changed(lost: float) -> str:
    what = "loses" if lost >= 0 else "gains"
    return f"it {what} {abs(lost):.2f} of its log-probability"


def _nats(x: float, sign: str = "+") -> str:
    """
    >>> _nats(-0.126), _nats(2.0)
    ('−0.13', '+2.00')
    """
    return f"{x:{sign}.2f}".replace("-", "−")
