"""A sheet of paper, measured in inches from its upper left corner, and how it becomes a file."""

from __future__ import annotations

import contextlib
import io
import math
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard._arguments import flag, number, shown
from regard._files import write_bytes
from regard.view.figure.colours import Colours
from regard.view.figure.letters import BOX, font, has_box, size_of, written
from regard.view.figure.library import need

MARGIN = 0.06
LINE = 1.45  # the distance of two lines, in heights of their letters
TALLEST = 9.0  # inches: what fits on a page
_TITLE, _REMARK = 8.0, 6.5  # points
_PIXELS = 900  # of a picture, at least, so that its cells keep sharp edges

Across = Literal["left", "center", "right"]
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {},
}
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


def kind_of_file(path: str | Path) -> str:
    """svg, pdf or png, by the ending of its name.

    >>> kind_of_file("head.PDF")
    'pdf'
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in _METADATA:
        raise ValueError(
            f"figure(): path must end in .svg, .pdf or .png; got {shown(str(path))}. "
            "The ending says what kind of file is written."
        )
    return ending


class Paper:
    """What a figure is drawn on, as it was asked for: its width, dots per inch, light or dark."""

    def __init__(self, width: float = 7.0, dpi: float = 300, dark: bool = False) -> None:
        self.width = number("figure()", "width", width, 2.0, 40.0, "3.3 is a column, 7.0 a page.")
        self.dpi = number("figure()", "dpi", dpi, 30, 2400, "300 is usual in print.")
        self.colours = Colours(flag("figure()", "dark", dark))


class Sheet:
    """A figure that grows downwards; `at` is where it ends by now.

    Everything is placed in inches, x from the left and y from the top. Text is of anybody's making,
    and drawn as it is: no mark in it means anything.
    """

    def __init__(self, paper: Paper, title: str = "", remark: str = "") -> None:
        self.width, self.colours, self._dpi = paper.width, paper.colours, paper.dpi
        self._boxes = False
        # Its own figure and its own axes: pyplot, which keeps a state for all, has no part in it.
        self._figure = need("matplotlib.figure").Figure(dpi=100, facecolor=self.colours.page)
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self.at = MARGIN
        if title:
            self.paragraph(title, _TITLE, bold=True)
        if remark:
            self.paragraph(remark)
        self.at += 0.06 if title or remark else 0.0

    # ── text ──────────────────────────────────────────────────────────────────────────────────

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
        self._boxes |= has_box(text)
        # The middle of a line is that of its letters, not of its ink, so that neighbours align.
        vertical = "center_baseline" if down == "center" else down
        self._axes.text(
            x,
            y,
            drawn,
            fontproperties=font(drawn, size, bold),
            color=colour or self.colours.ink,
            horizontalalignment=across,
            verticalalignment=vertical,
            rotation=90 if turned else 0,
            rotation_mode="anchor",
            parse_math=False,
        )

    def paragraph(self, text: str, size: float = _REMARK, bold: bool = False) -> None:
        """Lines below what is there, broken between words."""
        colour = self.colours.ink if bold else self.colours.faint
        for line in _lines(text, size, bold, self.width - 2 * MARGIN):
            self.at += size / 72 * LINE
            self.text(
                MARGIN, self.at - 0.3 * size / 72, line, size,
                down="baseline", colour=colour, bold=bold,
            )  # fmt: skip

    # ── shapes ────────────────────────────────────────────────────────────────────────────────

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str | tuple[float, ...] | None = None,
        edge: str | None = None,
        line: float = 0.5,
    ) -> None:
        patch = need("matplotlib.patches").Rectangle(
            (x, y), width, height,
            facecolor="none" if fill is None else fill,
            edgecolor="none" if edge is None else edge,
            linewidth=0 if edge is None else line,
            joinstyle="miter",
        )  # fmt: skip
        self._axes.add_patch(patch)

    def lines(
        self,
        points: Sequence[Any],
        colours: Sequence[Any] | str,
        widths: Sequence[float] | float = 0.5,
    ) -> None:
        """Lines through points: (n, points, 2), or one array a line."""
        made = need("matplotlib.collections").LineCollection(
            list(points), colors=colours, linewidths=widths, capstyle="butt"
        )
        self._axes.add_collection(made, autolim=False)

    def picture(
        self, x: float, y: float, width: float, height: float, pixels: NDArray[np.uint8]
    ) -> None:
        """A picture (rows, columns, 3), each pixel a rectangle with sharp edges."""
        rows, columns = pixels.shape[:2]
        # Programs that show a file may smooth its pictures: large pixels stay what they are.
        down, across = (max(1, math.ceil(_PIXELS / n)) for n in (rows, columns))
        most = max(1, int(min(width, height) * 600 / max(rows, columns)))
        down, across = min(down, most), min(across, most)
        self._axes.imshow(
            pixels.repeat(down, axis=0).repeat(across, axis=1),
            extent=(x, x + width, y + height, y),
            interpolation="none",
            aspect="auto",
        )

    # ── the file ──────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        if self._boxes:
            self.paragraph(f"{BOX} stands for a character that no font installed here has.")
        kind = kind_of_file(path)
        height = self.at + MARGIN
        self._figure.set_size_inches(self.width, height)
        self._axes.set_xlim(0, self.width)
        self._axes.set_ylim(height, 0)
        content = io.BytesIO()
        self._figure.savefig(content, format=kind, dpi=self._dpi, metadata=_METADATA[kind])
        write_bytes(Path(path), content.getvalue())


@contextlib.contextmanager
def settings() -> Generator[None]:
    """matplotlib's own settings, whatever the user's are, until the end of the `with`."""
    library = need("matplotlib")
    backend = ("backend", "interactive", "toolbar", "webagg", "tk.")
    usual = {
        name: value
        for name, value in library.rcParamsDefault.items()
        if not name.startswith(backend)
    }
    with _ONE_AT_A_TIME, library.rc_context({**usual, **_SETTINGS}):
        yield


def _lines(text: str, size: float, bold: bool, room: float) -> list[str]:
    """The words of a text in lines that fit; a word that is too long for one is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if size_of(longer, size, bold)[0] <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [_cut(line, size, bold, room) for line in lines if line]


def _cut(line: str, size: float, bold: bool, room: float) -> str:
    if size_of(line, size, bold)[0] <= room:
        return line
    kept = len(line)
    while kept > 1 and size_of(line[:kept] + "…", size, bold)[0] > room:
        kept -= 1
    return line[:kept] + "…"
