"""Figures for print: any view of a run or a trace as SVG, PDF or PNG, drawn by matplotlib.

Here stands which view is asked for; the module of its name draws it on a `Sheet`. matplotlib is
imported when a figure is made, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from regard import _extras
from regard._arguments import shown
from regard.view.figure.sheet import Paper, Sheet, settings

if TYPE_CHECKING:
    from pathlib import Path

    from regard._flow import Flow
    from regard._trace import Trace
    from regard.run import Run


def run_figure(
    run: Run, path: str | Path, view: str, width: float, dpi: float, dark: bool, **what: Any
) -> None:
    """What `Run.figure` writes; `what` are the other fields of `Asked`."""
    from regard.view.figure import entropy, head, links, model, places, text

    paper = Paper(path, width, dpi, dark)
    views = {
        "model": model.draw,
        "head": head.draw,
        "text": text.draw,
        "links": links.draw,
        "entropy": entropy.draw,
    }
    if view not in views:
        raise ValueError(
            f"figure(): view must be one of {', '.join(map(repr, views))}; got {shown(view)}."
        )
    if not run.layers:
        raise ValueError(
            "figure(): the run must have seen a layer; it has none. "
            "run.unseen and run.notes say why."
        )
    _write(lambda: views[view](paper, places.Asked(run, view, **what)))


def trace_figure(
    trace: Trace, path: str | Path, view: str, width: float, dpi: float, dark: bool
) -> None:
    """What `Trace.figure` writes."""
    from regard.view.choice import find_step
    from regard.view.figure.steps import draw_steps

    paper = Paper(path, width, dpi, dark)
    try:
        steps = list(trace.steps) if view == "all" else [find_step(view, trace)]
    except (AttributeError, KeyError) as error:
        said = error.args[0] if isinstance(error, KeyError) else f"got {shown(view)}."
        raise ValueError(f"figure(): view must be a step or 'all'; {said}") from None
    _write(lambda: draw_steps(paper, trace, steps))


def flow_figure(flow: Flow, path: str | Path, width: float, dpi: float, dark: bool) -> None:
    """What `Flow.figure` writes."""
    from regard.view.figure.flow import draw

    paper = Paper(path, width, dpi, dark)
    _write(lambda: draw(paper, flow))


def lab_figure(
    document: Mapping[str, Any], path: str | Path, width: float, dpi: float, dark: bool
) -> None:
    """What a result of the lab writes: its charts."""
    from regard.view.figure.lab import draw

    paper = Paper(path, width, dpi, dark)
    _write(lambda: draw(paper, document))


def training_figure(
    document: Mapping[str, Any], path: str | Path, width: float, dpi: float, dark: bool
) -> None:
    """What `History.figure` writes."""
    from regard.view.figure.training import draw

    paper = Paper(path, width, dpi, dark)
    _write(lambda: draw(paper, document))


def evict_figure(
    document: Mapping[str, Any], path: str | Path, width: float, dpi: float, dark: bool
) -> None:
    """What `Comparison.figure` writes."""
    from regard.view.figure.evict import draw

    paper = Paper(path, width, dpi, dark)
    _write(lambda: draw(paper, document))


def _write(draw: Callable[[], Sheet]) -> None:
    _extras.need("figure()", "matplotlib", "figures")
    with settings():
        draw().save()
