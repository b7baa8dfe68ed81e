"""A sheet of paper, measured in inches from its upper left corner, and how it becomes a file."""

from __future__ import annotations

import contextlib
import io
import math
import threading
from collections.abc import Generator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal

from regard._arguments import flag, number, shown
from regard._files import write_bytes
from regard.view.colours import DARK, LIGHT, Bytes
from regard.view.figure.letters import BOX, font, width_of, written

MARGIN = 0.06
LINE = 1.45  # the distance of two lines, in heights of their letters
TALLEST = 9.0  # inches: what fits on a page
_TITLE, _REMARK = 8.0, 6.5  # points
_PIXELS = 900  # of a picture, at least, so that its cells keep sharp edges

Across = Literal["left", "center", "right"]
Box = tuple[float, float, float, float]  # x, y, width, height
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {},
}
# Under which names a file keeps what the figure is called, and what is seen in it.
_TOLD = {"svg": "Description", "pdf": "Subject", "png": "Description"}
_SETTINGS = {
    "text.parse_math": False,  # a token may have a $ in it
    "text.usetex": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "regard",
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "image.composite_image": False,
    "image.resample": False,
    "savefig.bbox": None,
    "savefig.transparent": False,
}
# matplotlib's settings are shared by all threads.
_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def settings() -> Generator[None]:
    """matplotlib's own settings, whatever the user's are, until the end of the `with`."""
    from matplotlib import rc_context, rcParamsDefault

    backend = ("backend", "interactive", "toolbar", "webagg", "tk.")
    usual: Any = {name: x for name, x in rcParamsDefault.items() if not name.startswith(backend)}
    with _ONE_AT_A_TIME, rc_context(usual | _SETTINGS):
        yield


class Paper:
    """What a figure is drawn on, as it was asked for: its width, dots per inch, light or dark; and
    the file that it becomes.
    """

    def __init__(self, path: str | Path, width: float, dpi: float, dark: bool) -> None:
        self.path = Path(path)
        self.kind = self.path.suffix.lower().removeprefix(".")
        if self.kind not in _METADATA:
            raise ValueError(
                f"figure(): path must end in .svg, .pdf or .png; got {shown(str(path))}. "
                "The ending says what kind of file is written."
            )
        self.width = number("figure()", "width", width, 2.0, 40.0, "3.3 is a column, 7.0 a page.")
        self.dpi = number("figure()", "dpi", dpi, 30, 2400, "300 is usual in print.")
        self.colours = DARK if flag("figure()", "dark", dark) else LIGHT


class Sheet:
    """A figure that grows downwards; `at` is where it ends by now.

    Everything is placed in inches, x from the left and y from the top. Text is of anybody's making,
    and drawn as it is: no mark in it means anything.
    """

    def __init__(self, paper: Paper, title: str, remark: str) -> None:
        from matplotlib.figure import Figure

        self.width, self.colours, self._paper = paper.width, paper.colours, paper
        self._boxes = False
        self._title, self.told = title, remark
        # Its own figure and its own axes: pyplot, which keeps a state for all, has no part in it.
        self._figure = Figure(dpi=100, facecolor=self.colours.page)
        self._axes: Any = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self.at = MARGIN
        self.paragraph(title, _TITLE, bold=True)
        self.paragraph(remark)
        self.at += 0.06

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = _REMARK,
        *,
        across: Across = "left",
        down: Literal["top", "center", "baseline", "bottom"] = "center",
        colour: str | None = None,
        bold: bool = False,
        turned: bool = False,
    ) -> None:
        """A line of text. `turned` is read upwards, and `across` is then where along it y is."""
        drawn = written(text)
        self._boxes |= drawn.count(BOX) > text.count(BOX)
        self._axes.text(
            x,
            y,
            drawn,
            fontproperties=font(drawn, size, bold),
            color=colour or self.colours.ink,
            horizontalalignment=across,
            # The middle of a line is that of its letters, not of its ink: neighbours align.
            verticalalignment="center_baseline" if down == "center" else down,
            rotation=90 if turned else 0,
            rotation_mode="anchor",
            parse_math=False,
        )

    def paragraph(self, text: str, size: float = _REMARK, bold: bool = False) -> None:
        """Lines below what is there, broken between words; a word that is too long is cut."""
        room = 0.97 * (self.width - 2 * MARGIN)  # of few dots an inch, letters are wider
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if width_of(longer, size, bold) <= room or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(word)
        for line in filter(None, lines):
            kept = line
            while len(kept) > 2 and width_of(kept, size, bold) > room:
                kept = kept.removesuffix("…")[:-1] + "…"
            self.at += size / 72 * LINE
            down = self.at - 0.3 * size / 72
            colour = self.colours.ink if bold else self.colours.faint
            self.text(MARGIN, down, kept, size, down="baseline", colour=colour, bold=bold)

    def box(self, box: Box, fill: str = "none", edge: str = "none", line: float = 0.5) -> None:
        from matplotlib.patches import Rectangle

        drawn = Rectangle(box[:2], *box[2:], facecolor=fill, edgecolor=edge, joinstyle="miter")
        drawn.set_linewidth(0 if edge == "none" else line)
        self._axes.add_patch(drawn)

    def lines(
        self,
        points: Sequence[Any],
        colours: Sequence[Any] | str,
        widths: Sequence[float] | float = 0.5,
    ) -> None:
        """Lines through points: (n, points, 2), or one array a line."""
        from matplotlib.collections import LineCollection

        made = LineCollection(list(points), colors=colours, linewidths=widths, capstyle="butt")
        self._axes.add_collection(made, autolim=False)

    def picture(self, box: Box, pixels: Bytes) -> None:
        """A picture (rows, columns, 3), each pixel a rectangle with sharp edges."""
        (x, y, width, height), (rows, columns) = box, pixels.shape[:2]
        # Programs that show a file may smooth its pictures: large pixels stay what they are.
        most = max(1, int(min(width, height) * 600 / max(rows, columns)))
        down, across = (min(most, max(1, math.ceil(_PIXELS / n))) for n in (rows, columns))
        self._axes.imshow(
            pixels.repeat(down, axis=0).repeat(across, axis=1),
            extent=(x, x + width, y + height, y),
            interpolation="none",
            aspect="auto",
        )

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self._boxes:
            self.paragraph(f"{BOX} stands for a character that no font installed here has.")
        paper, height = self._paper, self.at + MARGIN
        self._figure.set_size_inches(self.width, height)
        self._axes.set_xlim(0, self.width)
        self._axes.set_ylim(height, 0)
        content = io.BytesIO()
        kept = _METADATA[paper.kind] | {"Title": self._title, _TOLD[paper.kind]: self.told}
        options: dict[str, Any] = {"format": paper.kind, "metadata": kept}
        self._figure.savefig(content, dpi=paper.dpi, **options)
        drawn = content.getvalue()
        if paper.kind == "svg":  # a reader of the screen says a <desc>, and no metadata
            told = f" <desc>{escape(self.told, quote=False)}</desc>\n"
            drawn = drawn.replace(b" <metadata>", told.encode() + b" <metadata>", 1)
        write_bytes(paper.path, drawn)
