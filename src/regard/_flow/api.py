"""`flow`, and the flow of a run: which model, its counterpart or what was watched of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard._flow.flow import Flow

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor, nn

    from regard._trace import Projections
    from regard.models import Loaded
    from regard.run import Run


def flow(
    text_or_x: str | ArrayLike | Tensor,
    *,
    model: str | Loaded | Projections | nn.Module | None = None,
    layer: int = 0,
    **options: Any,
) -> Flow:
    """A whole pass in one picture: `.html(path)`, `.figure(path)`, `.cells(…)`, `.changed(…)`.

    `model` is a model of `regard.nn`, which is given what `regard.trace` takes; a model of
    `regard.models.load`, or its name; or matrices. Without one a text is read by a model that is on
    this machine already (`regard.models.model_for`), or else has random numbers.
    `layer` is the attention, from 0, whose band a page holds whole. A layer may have 8,000,000
    weights; there is no limit to the number of layers.

    >>> flow([[1.0, 0.5], [0.0, 1.0]], tokens=["a", "b"])
    <Flow of attention: 1 band, 14 stages>
    """
    from regard._trace import Projections, trace

    if model is None and isinstance(text_or_x, str) and not options:
        from regard.models import model_for

        chosen = model_for(text_or_x)
        if chosen.model:
            found = flow(text_or_x, model=chosen.model, layer=layer)
            found.note = f"{chosen.why} {found.note}"
            return found
    if model is None or isinstance(model, Projections):
        return trace(text_or_x, model=model, **options).flow()
    if isinstance(model, str):
        from regard.models import load

        model = load(model)
    from torch import nn

    if not isinstance(model, nn.Module):
        if not isinstance(text_or_x, str):
            kind = type(text_or_x).__name__
            raise TypeError(f"flow(): {model.name} reads a text; got {kind}.")
        keep = ("q", "k", "hidden_states")
        return flow_of_run(model.see(text_or_x, keep=keep, **options), layer)
    from regard._flow.model import ModelFlow, Subject
    from regard._trace.model import prepared

    asked = prepared(text_or_x, model, **options)
    kind = type(model).__name__
    note = [asked.note, f"The numbers of every step are those of the {kind} itself."]
    return ModelFlow(Subject(asked, note=" ".join(filter(None, note)), layer=layer))


def flow_of_run(run: Run, layer: int | str = 0, *, model: Loaded | None = None) -> Flow:
    """The flow of a run: of the counterpart of its model in `regard.nn`, where there is one that
    computes the same; or else of the attentions that were watched.
    """
    from regard.run.choose import layer_index

    number = layer_index("flow()", run.layers, layer)
    loaded = model
    if loaded is None and run.again is not None:
        loaded = run.again.args[0]
    from regard._flow.watched import WatchedFlow

    if loaded is None:
        return WatchedFlow(run, number, "The run does not know its model any more.")
    from regard._flow.counterpart import NoCounterpart, flow_through_counterpart

    try:
        return flow_through_counterpart(run, loaded, number)
    except NoCounterpart as error:
        return WatchedFlow(run, number, str(error))
