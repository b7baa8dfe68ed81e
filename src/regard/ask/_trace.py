"""`trace_of`: one head of a run, step by step, from the model's own Q, K and V."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from regard._trace import Trace
from regard._trace.check import rounding, within
from regard.ask._see import see
from regard.run.choose import index_of, layer_index

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Layer, Run

_KEPT = ("q", "k", "v", "output")
_SAME = 1e-4  # how far the log-sum-exp of two passes of one model on one text may be apart


def trace_of(
    run: Run, layer: int | str = 0, head: int = 0, *, model: Loaded | None = None
) -> Trace:
    """The steps of attention in one head of a run, on the first of its texts.

    Q, K and V are the model's own numbers, and all that follows from them is worked out in float64
    and checked: weights · V must be what the model computed, as near as rounding lets it be. Where
    the run did not keep them, the model reads the text once more. A run of `see` knows its model;
    one from a disk needs `model`.

    Raises ValueError for a layer that does more than the ten steps show, such as a window; and
    ArithmeticError if weights · V is something else.

    >>> import torch, regard
    >>> q = torch.eye(2)[None, None]
    >>> out, seen = regard.attention(q, q, q, see=regard.See())
    >>> run = regard.Run({"a": regard.Layer("a", seen, q=q, k=q, v=q, output=out)}, model="mine")
    >>> trace_of(run, "a", 0).note[:26]
    'Head 0 of layer 0 of mine '
    """
    number = layer_index("trace()", run.layers, layer)
    seen = list(run.layers.values())[number]
    heads = seen.shape[1]
    head = index_of("trace()", "head", head, heads, f"{seen.name} has {heads} heads.")
    _refuse_more_than_a_mask(seen, number)
    name = run.model
    if run.again is not None:
        name = run.again.args[0].name
    if model is not None or any(getattr(seen, part) is None for part in _KEPT):
        seen, name = _once_more(run, number, model)
    q, k, v, output = (getattr(seen, part)[0].float() for part in _KEPT)
    shared = head // (len(q) // len(k))  # key heads may serve several
    q, k, v, output = q[head, None], k[shared, None], v[shared, None], output[head, None]
    tokens = [token.label for token in run.tokens[0]] if run.tokens else []
    trace = Trace.build(
        tokens=tokens or [str(place + 1) for place in range(q.shape[1])],
        query=q[0].numpy(),
        key=k[0].numpy(),
        value=v[0].numpy(),
        causal=seen.options.causal,
        scale=True if seen.options.scale is None else seen.options.scale,
        title=run.text if isinstance(run.text, str) else "",
    )
    scaled, truth = (trace.steps[step].array for step in ("scaled", "head_output"))
    off = rounding(q, k, v, output, scaled, truth, trace.divisor or 1.0)
    if not off.is_enough:
        raise ArithmeticError(
            f"trace(): head {number}.{head} of {name}: weights · V differs from what the model "
            f"computed by {off}."
        )
    return replace(
        trace,
        note=f"Head {head} of layer {number} of {name} ({seen.name}), both from 0. Q, K and V are "
        "the model's own numbers; the weights follow from them. Checked: weights · V is what the "
        f"model computed, within {within(off.difference)}. Steps 1, 9 and 10 are left out: X, W_Q, "
        "W_K, W_V and W_O stay in the model.",
    )


def _once_more(run: Run, number: int, model: Loaded | None) -> tuple[Layer, str]:
    """The layer in another pass of the same text, with all that was not kept; and whose it is."""
    seen, again = run.layer(number), run.again
    if model is not None and isinstance(run.text, str):
        again = partial(see, model, run.text)
    if again is None:
        missing = [part for part in _KEPT if getattr(seen, part) is None]
        raise ValueError(
            f"trace(): the run must have kept {', '.join(_KEPT)} of {seen.name}, or know its model "
            f"and one text; got a run without {', '.join(missing) or 'a text'}. Give it the model: "
            "run.trace(…, model=regard.models.load(name)), or see the text with "
            f"keep={_KEPT}."
        )
    name = again.args[0].name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were told of the run itself
        new = next(iter(again(keep=_KEPT, layers=number).layers.values()), None)
    if (
        new is None
        or new.shape != seen.shape
        or not torch.allclose(new.lse, seen.lse.to(new.lse.dtype), _SAME, _SAME, equal_nan=True)
    ):
        raise ValueError(
            f"trace(): model must be the one of the run, and all of its heads at work; got {name}, "
            f"which computes something else in {seen.name}. See the text with it once more."
        )
    return new, name


def _refuse_more_than_a_mask(layer: Layer, number: int) -> None:
    """Raise ValueError where a layer does more than attention as the ten steps have it."""
    options = layer.options
    last = layer.shape[3] - 1
    left, right = options.window or (None, None)
    is_narrow = (left is not None and left < last) or (
        right is not None and right < last and not options.causal
    )
    more = {
        "attends to another sequence": layer.cross,
        "sees a window of the text only": is_narrow,
        "has a mask of its own": options.mask is not None,
        "adds a bias to the scores": options.bias is not None,
        "computes its scores in its own way": layer.scores is not None,
        "caps its scores": options.softcap is not None,
        "has sinks": options.sinks is not None,
    }
    for what, is_so in more.items():
        if is_so:
            raise ValueError(
                f"trace(): layer {number} {what}, which is not among the steps that a trace of one "
                "head shows; its weights can be seen: run.weights(…), regard see."
            )
