"""Which figure is asked for, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import _extras
from regard._arguments import shown
from regard.view.figure.sheet import Paper, kind_of_file, settings

if TYPE_CHECKING:
    from regard._trace import Trace
    from regard.run import Run


def run_figure(
    run: Run,
    path: str | Path,
    view: str = "model",
    *,
    width: float = 7.0,
    dpi: float = 300,
    dark: bool = False,
    **what: Any,
) -> None:
    """What `Run.figure` writes; `what` are the other fields of `Asked`."""
    from regard.view.figure import entropy, head, links, model, places, text

    kind_of_file(path)
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
    paper = Paper(width, dpi, dark)
    _extras.need("figure()", "matplotlib", "figures")
    with settings():
        views[view](paper, places.Asked(run, view, **what)).save(path)


def trace_figure(
    trace: Trace,
    path: str | Path,
    view: str = "weights",
    *,
    width: float = 7.0,
    dpi: float = 300,
    dark: bool = False,
) -> None:
    """What `Trace.figure` writes."""
    from regard.view.choice import find_step
    from regard.view.figure.steps import draw_steps

    kind_of_file(path)
    try:
        steps = list(trace.steps) if view == "all" else [find_step(view, trace)]
    except (AttributeError, KeyError) as error:
        said = error.args[0] if isinstance(error, KeyError) else f"got {shown(view)}."
        raise ValueError(f"figure(): view must be a step or 'all'; {said}") from None
    paper = Paper(width, dpi, dark)
    _extras.need("figure()", "matplotlib", "figures")
    with settings():
        draw_steps(paper, trace, steps).save(path)
