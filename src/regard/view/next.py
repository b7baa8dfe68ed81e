"""What a model predicts at one position, in the terminal: the likeliest tokens, with bars."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.ask import Prediction
from regard.view.labels import visible
from regard.view.lines import INDENT, LABEL, aligned, fit_name, title_line

_BAR = 40  # cells of a probability of 1, at most
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def render_next(found: Sequence[Prediction], title: str, width: int = 80) -> list[Text]:
    """The likeliest tokens, one a line: its text, its probability, and a bar as long as that.

    >>> found = [Prediction(" mat", 0.5, 3), Prediction("\\n", 0.125, 1)]
    >>> print(*render_next(found, "After “the”"), sep="\\n")
    <BLANKLINE>
    After “the”   likeliest first
        “ mat”  0.500  ████████████████████
        “␊”     0.125  █████
    """
    names = aligned(f"“{fit_name(visible(each.token), LABEL)}”" for each in found)
    lines = [Text(), title_line(title, "likeliest first", width)]
    for name, each in zip(names, found, strict=True):
        text = f"{' ' * INDENT}{name}  {each.probability:.3f}"
        room = max(0, min(_BAR, width - len(text) - 2))
        eighths = round(each.probability * room * 8)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(Text.assemble(text, "  ", (bar, "cyan")))
        lines[-1].rstrip()
    return lines
