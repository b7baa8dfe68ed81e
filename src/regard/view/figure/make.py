"""Which figure is asked for, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard._arguments import shown
from regard.view.figure.library import need
from regard.view.figure.sheet import Paper, kind_of_file, settings

if TYPE_CHECKING:
    from regard._trace import Trace
    from regard.run import Run
    from regard.run.choose import Which
    from regard.view.figure.sheet import Sheet

VIEWS = ("model", "head", "text", "links", "entropy")


def run_figure(
    run: Run,
    path: str | Path,
    view: str = "model",
    *,
    layer: Which | None = None,
    head: int | None = None,
    token: int | str | None = None,
    sequence: int = 0,
    min_weight: float = 0.1,
    log: bool = False,
    width: float = 7.0,
    dpi: float = 300,
    dark: bool = False,
) -> None:
    """What `Run.figure` writes."""
    kind_of_file(path)
    if view not in VIEWS:
        raise ValueError(
            f"figure(): view must be one of {', '.join(map(repr, VIEWS))}; got {shown(view)}."
        )
    if not run.layers:
        raise ValueError(
            "figure(): the run must have seen a layer; it has none. "
            "run.unseen and run.notes say why."
        )
    paper = Paper(width, dpi, dark)
    need("matplotlib")
    with settings():
        sheet = _sheet(run, paper, view, layer, head, token, sequence, min_weight, log)
        sheet.save(path)


def _sheet(
    run: Run,
    paper: Paper,
    view: str,
    layer: Which | None,
    head: int | None,
    token: int | str | None,
    sequence: int,
    min_weight: float,
    log: bool,
) -> Sheet:
    from regard.view.figure.places import find_head, find_layer

    if view == "model":
        from regard.view.figure.model import draw_model

        return draw_model(paper, run, layer, sequence, log)
    if view == "entropy":
        from regard.view.figure.entropy import draw_entropy

        return draw_entropy(paper, run, layer, sequence)
    if view == "text":
        from regard.view.figure.text import draw_text

        return draw_text(paper, run, layer, head, token, sequence, log)
    place = find_layer(run, layer, sequence, view)
    if view == "head":
        from regard.view.figure.head import draw_head

        return draw_head(paper, place, find_head(place, head, view), log)
    from regard.view.figure.links import draw_links

    return draw_links(
        paper, place, None if head is None else find_head(place, head, view), min_weight
    )


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
    if view == "all":
        steps = list(trace.steps)
    else:
        try:
            steps = [find_step(view, trace)]
        except (AttributeError, KeyError) as error:
            said = error.args[0] if isinstance(error, KeyError) else f"got {shown(view)}."
            raise ValueError(f"figure(): view must be a step or 'all'; {said}") from None
    paper = Paper(width, dpi, dark)
    need("matplotlib")
    with settings():
        draw_steps(paper, trace, steps).save(path)
