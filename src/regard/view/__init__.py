"""Views of a trace: as lines of text in the terminal, and as a picture of such lines."""

from regard.view.choice import find_cells, find_step
from regard.view.scaling import render_scaling
from regard.view.steps import all_heads
from regard.view.svg import picture
from regard.view.terminal import render, render_cells

__all__ = [
    "all_heads",
    "find_cells",
    "find_step",
    "picture",
    "render",
    "render_cells",
    "render_scaling",
]
