"""Figures for print: any view of a run or a trace as SVG, PDF or PNG, drawn by matplotlib.

- `sheet.py`: paper that is measured in inches, and how it becomes a file
- `letters.py`, `colours.py`: fonts for every script, and the scales of the views on the screen
- `matrix.py`, `legend.py`, `places.py`: what several views have in common
- `model.py`, `head.py`, `text.py`, `links.py`, `entropy.py`: the views of a run
- `steps.py`: the views of a trace
- `make.py`: which of them is asked for

matplotlib is imported when a figure is made, and not before.
"""

from regard.view.figure.make import run_figure, trace_figure

__all__ = ["run_figure", "trace_figure"]
