"""What a model would predict after each of its layers, in the terminal: a grid, or one position."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.ask import Prediction
from regard.view.labels import fit, most_cells, pad, visible
from regard.view.lines import INDENT, LABEL, aligned, fit_name, paragraph, title_line

_MOST = 32  # positions that are told
_CELL = 9  # cells of a token in the grid
_BAR = 20
_FROM = 5  # cells of what stands last
_STYLES = ((0.5, "bold"), (0.1, ""), (0.0, "dim"))  # from that probability on

OfLayer = Sequence[Sequence[Prediction]]


def render_lens(found: Sequence[OfLayer], names: Sequence[str], width: int = 80) -> list[Text]:
    """What is likeliest after some of the layers, a line a position, and from which layer on it is
    what the model predicts in the end.

    >>> mat, dog = [Prediction(" mat", 0.5, 3)], [Prediction(" dog", 0.25, 4)]
    >>> print(*render_lens([[dog], [mat]], ["the"], 60)[1:4], sep="\\n")
    After each layer   likeliest token and its probability
         0           1           from
    the  “ dog” .25  “ mat” .50  1
    """
    room = min(LABEL, max(map(most_cells, names), default=0))
    count = max(1, (width - room - 2 - _FROM) // (_CELL + 8))
    layers = _chosen(len(found), count)
    lines = [Text(), title_line("After each layer", "likeliest token and its probability", width)]
    first = max(0, len(names) - _MOST)
    rows: list[tuple[str, list[tuple[str, float]], str]] = []
    for place in range(first, len(names)):
        cells = [_cell(found[layer][place][0]) for layer in layers]
        rows.append((names[place], cells, str(decided(found, place))))
    wide = [max(most_cells(row[1][n][0]) for row in rows) for n in range(len(layers))]
    head = Text(pad("", room) + "  ", "dim")
    for layer, cells in zip(layers, wide, strict=True):
        head.append(pad(str(layer), cells + 6))
    lines.append(head.append("from"))
    for name, cells, since in rows:
        line = Text(pad(fit_name(name, room), room) + "  ")
        for (cell, probability), size in zip(cells, wide, strict=True):
            style = next(style for least, style in _STYLES if probability >= least)
            line.append(pad(cell, size) + f" {_short(probability)}", style).append("  ")
        lines.append(line.append(since))
    remark = f"The columns are layers, of {len(found)}, from 0: the last norm and the head applied "
    remark += "to the hidden state after each. “from”: the layer from which on the likeliest is "
    remark += "what the model predicts in the end."
    if first:
        remark += f" The first {first} tokens are left out; --token shows one."
    return lines + paragraph(remark, width, indent=0, style="dim")


def render_lens_at(found: Sequence[OfLayer], place: int, title: str, width: int = 80) -> list[Text]:
    """One position: a line a layer, the likeliest token with a bar, and the next two.

    >>> mat = [Prediction(" mat", 0.5, 3), Prediction(" dog", 0.25, 4)]
    >>> print(*render_lens_at([[mat]], 0, "After “the”", 60)[2:3], sep="\\n")
        0  “ mat”  0.500  ██████████            “ dog” .25
    """
    lines = [Text(), title_line(title, "what is likeliest after each layer", width)]
    names = aligned(f"“{fit(each[place][0].token, LABEL)}”" for each in found)
    digits = len(str(len(found) - 1))
    for layer, (name, of) in enumerate(zip(names, found, strict=True)):
        best, *others = of[place]
        line = Text(f"{' ' * INDENT}{layer:>{digits}}  {name}  {best.probability:.3f}  ")
        bar = "█" * round(best.probability * _BAR)
        line.append(pad(bar, _BAR), "cyan").append("  ")
        for other in others[:2]:
            more = f"“{fit(other.token, _CELL)}” {_short(other.probability)}  "
            if line.cell_len + most_cells(more) <= width + 2:
                line.append(more, "dim")
        line.rstrip()
        lines.append(line)
    since = decided(found, place)
    told = f"From layer {since} on the likeliest token is the one that the model predicts."
    return lines + paragraph(told, width, style="dim")


def render_lens_of(of: OfLayer, layer: int, names: Sequence[str], width: int = 80) -> list[Text]:
    """One layer: a line a position, and its likeliest tokens side by side."""
    room = min(LABEL, max(map(most_cells, names), default=0))
    count = max(1, (width - room - 2) // (_CELL + 8))
    lines = [Text(), title_line(f"After layer {layer}", "likeliest tokens first", width)]
    first = max(0, len(names) - _MOST)
    for place in range(first, len(names)):
        line = Text(pad(fit_name(names[place], room), room) + "  ")
        for each in of[place][:count]:
            cell, probability = _cell(each)
            style = next(style for least, style in _STYLES if probability >= least)
            line.append(pad(cell, _CELL + 2) + f" {_short(probability)}", style).append("  ")
        line.rstrip()
        lines.append(line)
    told = "The last norm and the head, applied to the hidden state after that layer."
    if first:
        told += f" The first {first} tokens are left out; --token shows one."
    return lines + paragraph(told, width, indent=0, style="dim")


def decided(found: Sequence[OfLayer], place: int) -> int:
    """The layer from which on the likeliest token of a position is the one of the last layer."""
    last = found[-1][place][0].id
    others = [layer for layer, of in enumerate(found) if of[place][0].id != last]
    return others[-1] + 1 if others else 0


def _chosen(layers: int, count: int) -> list[int]:
    """Some of so many layers, evenly, the last among them.

    >>> _chosen(30, 4), _chosen(2, 4)
    ([7, 14, 22, 29], [0, 1])
    """
    count = min(count, layers)
    return [-(-(n + 1) * layers // count) - 1 for n in range(count)]


def _cell(best: Prediction) -> tuple[str, float]:
    return f"“{fit(visible(best.token), _CELL)}”", best.probability


def _short(probability: float) -> str:
    """A probability in three cells."""
    return "1.0" if probability >= 0.995 else f"{probability:.2f}"[1:]
