"""The flow of the first example in a page: where things are in its picture, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.browser_page import Opened

from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]


def apple(open_page: OpenPage, address: str = "", **options: Any) -> Opened:
    return open_page(trace_page(example("apple").trace()), address=address, **options)


def box(opened: Opened, stage: str, kind: str = "matrix") -> dict[str, Any]:
    """A box of the picture, in pixels of the window."""
    found = opened.ask(
        """{
            const canvas = element.root.querySelector("canvas").getBoundingClientRect();
            const own = ({ stage, kind }) => stage === values[0] && kind === values[1];
            const box = element.boxes.find(own);
            return { ...box, x: box.x + canvas.x + 1, y: box.y + canvas.y + 1 };
        }""",
        stage,
        kind,
    )
    return dict(found)


def at(
    opened: Opened, stage: str, row: float, column: float, rows: int = 4, columns: int = 4
) -> Any:
    """The middle of a cell, in pixels of the window."""
    found = box(opened, stage)
    x = found["x"] + (column + 0.5) * found["width"] / columns
    return x, found["y"] + (row + 0.5) * found["height"] / rows


def line(opened: Opened) -> str:
    return str(opened.page.locator("regard-flow .line").text_content())


def keys(opened: Opened, *names: str) -> None:
    for name in names:
        opened.page.keyboard.press(name)
        opened.settle()


def changed(opened: Opened, *changes: dict[str, Any]) -> Callable[[str], Any]:
    """The steps after changes, as the page computes them."""
    made = opened.ask("(await element.source.changed(values[0])).trace.steps", list(changes))

    def array(name: str) -> Any:
        words = {None: -np.inf}
        return np.vectorize(lambda x: words.get(x, x), otypes=[float])(
            np.array(made[name]["array"], dtype=object)
        )

    return array
