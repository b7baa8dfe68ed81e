"""The figure of the README: one SVG file that needs no font, no script and no network.

A panel for each number of threads (rows) and for plain, causal and observed attention (columns); N
runs across, and up is how many times as fast as PyTorch's SDPA it is, on a scale on which twice as
fast and half as fast are equally far from 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape

from regard._bench.results import Cell, Results, count

__all__ = ["figure"]

_WIDTH = 940
_LEFT, _TOP, _PANEL, _HIGH, _GAP_X, _GAP_Y = 80, 116, 258, 190, 26, 76
_FOOT = 50
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50)
_FONTS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"
_TITLE = "Speed of Regard's attention as a multiple of PyTorch's SDPA"

# Okabe and Ito's colours, which colour-blind readers can tell apart; each has a shape of its own.
_SERIES = {32: "a", 64: "b", 128: "c"}
_SHAPES = {"a": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "b": "m-4 -4h8v8h-8z", "c": "m0 -5l5 9h-10z"}
_STYLES = f"""
    svg {{ --page: #ffffff; --ink: #1f2328; --faint: #59636e; --edge: #d1d9e0; --band: #e4e8ec;
      --a: #b25000; --b: #0072b2; --c: #007a5a; }}
    @media (prefers-color-scheme: dark) {{
      svg {{ --page: #0d1117; --ink: #e6edf3; --faint: #9198a1; --edge: #3d444d; --band: #2a313a;
        --a: #f0a35e; --b: #56b4e9; --c: #4cc9a0; }}
    }}
    text {{ font: 12px {_FONTS}; fill: #1f2328; fill: var(--ink); }}
    .title {{ font-size: 17px; font-weight: 600; }}
    .head {{ font-size: 13px; font-weight: 600; }}
    .faint {{ fill: #59636e; fill: var(--faint); }}
    .middle {{ text-anchor: middle; }}
    .end {{ text-anchor: end; }}
    .page {{ fill: #ffffff; fill: var(--page); stroke: #d1d9e0; stroke: var(--edge); }}
    .grid {{ stroke: #d1d9e0; stroke: var(--edge); stroke-width: 1; }}
    .one {{ stroke: #1f2328; stroke: var(--ink); stroke-width: 1.5; }}
    .band {{ fill: #e4e8ec; fill: var(--band); }}
    .line {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
    .a {{ stroke: #b25000; stroke: var(--a); }}
    .b {{ stroke: #0072b2; stroke: var(--b); }}
    .c {{ stroke: #007a5a; stroke: var(--c); }}
    .mark {{ fill: #ffffff; fill: var(--page); stroke-width: 2; }}
"""

_COLUMNS = (  # title, section, causal, whose speed
    ("forward, not causal", "forward", False, "regard"),
    ("forward, causal", "forward", True, "regard"),
    ("observed, while SDPA sees nothing", "observed", False, "observed"),
)


def figure(results: Results) -> str:
    """The text of the file."""
    drawn = results.of("forward") + results.of("observed")
    rows = sorted({cell.threads for cell in drawn}) or [1]
    height = _TOP + len(rows) * (_HIGH + _GAP_Y) + _FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}">',
        f"  <title>{escape(_TITLE)}</title>",
        f"  <style>{_STYLES}  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(24, 36, _TITLE, "title"),
        *_legend(sorted({cell.d for cell in drawn})),
    ]
    scale = _Scale(drawn)
    for row, threads in enumerate(rows):
        top = _TOP + row * (_HIGH + _GAP_Y)
        parts.append(
            f'  <text class="middle head" transform="translate(28 {top + _HIGH // 2}) rotate(-90)">'
            f"{count(threads, 'thread')}</text>"
        )
        for column, (title, section, causal, ours) in enumerate(_COLUMNS):
            cells = [c for c in results.of(section) if (c.threads, c.causal) == (threads, causal)]
            parts.append(f'  <g transform="translate({_LEFT + column * (_PANEL + _GAP_X)} {top})">')
            parts.append(_text(0, -12, title, "head"))
            parts += [*_panel(cells, ours, scale, numbered=column == 0), "  </g>"]
    foot = height - _FOOT + 8
    how = "float32, B = 1, H = 8; log scales. Observed: lse, entropy, top 8, map."
    parts += [
        _text(24, foot, how, "faint"),
        _text(24, foot + 20, results.describe_machine(), "faint"),
    ]
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """From N and a ratio to a place in a panel."""

    def __init__(self, cells: list[Cell]) -> None:
        self.lengths = sorted({cell.n for cell in cells}) or [1]
        ratios = [1 / 1.15, 1.6]
        for cell in cells:
            ratios.append(cell.ratio("sdpa", "regard" if cell.section == "forward" else "observed"))
            ratios += cell.noise() or ()
        self.low, self.high = math.log(min(ratios)) - 0.05, math.log(max(ratios)) + 0.08

    def x(self, n: int) -> float:
        """From the left of the panel, the lengths logarithmically apart."""
        first, last = math.log(self.lengths[0]), math.log(self.lengths[-1])
        part = (math.log(n) - first) / (last - first) if last > first else 0.5
        return 18 + part * (_PANEL - 36)

    def y(self, ratio: float) -> float:
        """From the top of the panel."""
        return _HIGH * (self.high - math.log(ratio)) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round ratios inside the panel, 1 first among them, none too near to another."""
        taken: list[float] = [1]
        for tick in sorted(_TICKS, key=lambda tick: abs(math.log(tick))):
            y = self.y(tick)
            if 6 <= y <= _HIGH - 4 and all(abs(y - self.y(other)) >= 17 for other in taken):
                taken.append(tick)
        return taken


def _legend(widths: list[int]) -> Iterator[str]:
    x = 24
    for d in widths:
        yield f'  <path class="line {_SERIES.get(d, "b")}" d="M{x} 61h28"/>'
        yield _mark(x + 14, 61, d)
        yield _text(x + 36, 65, f"d = {d}")
        x += 100
    yield f'  <path class="one" d="M{x} 61h28"/>'
    yield _text(x + 36, 65, "PyTorch's SDPA")
    yield f'  <rect class="band" x="{x + 156}" y="53" width="28" height="16"/>'
    yield _text(x + 192, 65, "A/A: the same call raced against itself")


def _panel(cells: list[Cell], ours: str, scale: _Scale, numbered: bool) -> Iterator[str]:
    if not cells:
        yield _text(_PANEL / 2, _HIGH / 2 - 8, "not measured", "middle faint")
    # Behind everything: how far the peer differed from itself, over the widths of each N.
    noise: dict[int, list[float]] = {}
    for cell in sorted(cells, key=lambda cell: cell.n):
        noise.setdefault(cell.n, [1.0]).extend(cell.noise() or ())
    upper = [(scale.x(n), scale.y(max(ratios))) for n, ratios in noise.items()]
    lower = [(scale.x(n), scale.y(min(ratios))) for n, ratios in noise.items()]
    if noise:
        yield f'  <path class="band" d="{_path([*upper, *reversed(lower)])}Z"/>'
    for tick in scale.ticks():
        y = _number(scale.y(tick))
        yield f'  <path class="{"one" if tick == 1 else "grid"}" d="M0 {y}h{_PANEL}"/>'
        if numbered:
            yield _text(-8, scale.y(tick) + 4, f"{tick:g} ×", "end")
    labelled = -math.inf
    for n in scale.lengths:
        x = scale.x(n)
        yield f'  <path class="grid" d="M{_number(x)} {_HIGH}v5"/>'
        if x - labelled >= 50:  # or labels would run into each other
            label = f"{n:,}" if labelled > 0 else f"N = {n:,}"
            yield _text(x, _HIGH + 20, label, "middle faint")
            labelled = x
    for d in sorted({cell.d for cell in cells}):
        points = [
            (scale.x(cell.n), scale.y(cell.ratio("sdpa", ours)))
            for cell in sorted(cells, key=lambda cell: cell.n)
            if cell.d == d
        ]
        yield f'  <path class="line {_SERIES.get(d, "b")}" d="{_path(points)}"/>'
        yield from (_mark(x, y, d) for x, y in points)


def _mark(x: float, y: float, d: int) -> str:
    """A circle, a square or a triangle: the shape says the width, as the colour does."""
    style = _SERIES.get(d, "b")
    return f'  <path class="mark {style}" d="{_path([(x, y)])}{_SHAPES[style]}"/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    classes = f' class="{style}"' if style else ""
    return f'  <text x="{_number(x)}" y="{_number(y)}"{classes}>{escape(text, quote=False)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
