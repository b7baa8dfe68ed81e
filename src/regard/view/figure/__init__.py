"""Figures for print: any view of a run or a trace as SVG, PDF or PNG, drawn by matplotlib.

`make.py` says which view is asked for, and the module of its name draws it on a `Sheet`. matplotlib
is imported when a figure is made, and not before.
"""

from regard.view.figure.make import run_figure, trace_figure

__all__ = ["run_figure", "trace_figure"]
