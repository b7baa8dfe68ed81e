"""What attention does not record, as no kernel makes it: scores, weights, and how it was placed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from regard._rules.attention import Bucket, Scaled, Scored, Sloped, Turned
from regard._rules.rule import Rule
from regard._trace.build import LATER, attended, division
from regard._trace.check import rounding
from regard._trace.recording import Recording, numbers
from regard.nn._hooks import HookPoints, Recorded
from regard.nn._places import AlibiBiases, RelativeBiases
from regard.nn.attention import MultiHeadAttention
from regard.reference import Array


def take_attention(recording: Recording, recorded: Recorded) -> float:
    """One step of an attention; before the head output come scores and weights.

    Returns how far weights · V is from what the model computed.
    """
    path, name = recorded.path, recorded.name
    difference = 0.0
    if name == "head_output":
        difference = _add_weights(recording, path, recorded)
    begin = recording.take(recorded)
    step = recording.steps.get(begin + name)
    if step is not None and isinstance(step.rule, Turned):
        rule = _paired(recording, step.rule, step.array)
        recording.steps[begin + name] = replace(step, rule=rule)
    elif step is not None and name == "bias" and not _is_set(recorded):
        rule = _biased(recording, path, step.array) or step.rule
        formula = step.formula if rule is step.rule else step.symbol
        recording.steps[begin + name] = replace(step, rule=rule, formula=formula)
    return difference


def _is_set(recorded: Recorded) -> bool:
    """Are scores set by hand, by what is added to them?"""
    module = recorded.module
    change = module.change if isinstance(module, MultiHeadAttention) else None
    return change is not None and bool(change.scores)


def _paired(recording: Recording, rule: Turned, array: Array) -> Turned:
    """Which numbers were turned together is seen from what became of them."""
    cosine, sine = (recording.matrices[name] for name in (rule.cosine, rule.sine))
    x = recording.steps[rule.of].array[..., : cosine.shape[-1]]
    halves = np.roll(x, x.shape[-1] // 2, axis=-1)
    neighbours = x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)
    away = [
        np.abs(x * cosine + partner * sine - array[..., : x.shape[-1]]).max()
        for partner in (halves, neighbours)
    ]
    return replace(rule, halves=bool(away[0] <= away[1]))


def _biased(recording: Recording, path: str, array: Array) -> Rule | None:
    """What is added to the scores, by the module that sees to positions around this one."""
    while True:
        places = getattr(recording.modules[path], "positions", None)
        name = f"{path}.positions" if path else "positions"
        if isinstance(places, AlibiBiases):
            recording.matrices[f"{name}.slopes"] = np.array(places.slopes)
            return Sloped(f"{name}.slopes")
        if isinstance(places, RelativeBiases):
            recording.matrices[f"{name}.buckets"] = _buckets(places, array)
            return Bucket(recording.parameter(places.weight), f"{name}.buckets")
        if not path:
            return None
        path = path.rpartition(".")[0]


def _buckets(places: RelativeBiases, array: Array) -> Array:
    """The bucket of every distance, with buckets for later keys or without, as the bias shows."""
    n_queries, n_keys = array.shape[-2:]
    queries = torch.arange(n_keys - n_queries, n_keys)[:, None]
    table = numbers(places.weight)
    both = [
        places.buckets(queries - torch.arange(n_keys), causal).numpy() for causal in (False, True)
    ]
    away = [np.abs(table[buckets].transpose(2, 0, 1) - array).max() for buckets in both]
    return both[int(away[1] < away[0])].astype(np.float64)


def _add_weights(recording: Recording, path: str, recorded: Recorded) -> float:
    """Scores, scaled scores and weights in float64; they must give what the model computed."""
    module, begin, tensors = recorded.module, recording.begin(path), recording.tensors
    assert isinstance(module, MultiHeadAttention)
    points: HookPoints = module.hook_points()
    scored = recording.resolve(points["scores"].rule, path)
    assert isinstance(scored, Scored)
    q, k, v = (tensors[name][0] for name in (scored.query, scored.key, begin + "value"))
    divisor, formula = division(module.scale, module.head_width)
    allowed, causal = np.ones((q.shape[1], k.shape[1]), dtype=bool), False
    if (mask := tensors.get(begin + "mask")) is not None:
        allowed = mask[0].cpu().numpy()
        later = np.triu(np.ones(allowed.shape[-2:], dtype=bool), k=1)
        own = q.shape[1] == k.shape[1] and begin + "context" not in recording.steps
        causal = bool(own and later.any() and not (allowed & later).any())
    bias = recording.steps[begin + "bias"].array if begin + "bias" in recording.steps else None
    # What a change has added to scores is no bias of the model's.
    every = [tensors[begin + name][0] for name in ("bias", "shift") if begin + name in tensors]
    added = sum(every[1:], every[0]) if every else None
    total = None if added is None else numbers(added)
    step = attended(numbers(q), numbers(k), numbers(v), divisor, total, mask=allowed)
    scores = step.scores
    if module.change is not None:
        scores = scores.copy()
        for head, row, column, value in module.change.products:
            scores[head, row, column] = value
    output = recorded.tensor[0]
    if module.change is not None and (out := sorted(module.change.left_out)):
        output = output.clone()
        output[out] = torch.from_numpy(step.output[out]).to(output)  # of which nothing is left
    off = rounding(q, k, v, output, step.scaled, step.output, divisor, added)
    if not off.is_enough:
        raise ValueError(
            f"trace(): {path or type(module).__name__}: weights · V must be what the model "
            f"computed; it differs by {off}."
        )
    formula += "" if bias is None else " + B"
    if not allowed.all():
        formula += LATER if causal else ", −∞ where masked"
    plain = divisor == 1.0 and module.head_width > 1
    rule = Scaled("scores", divisor, None if bias is None else "bias", causal, plain)
    recording.add(path, "scores", points["scores"], scores)
    kind = replace(points["scaled"], formula=formula, rule=rule)
    recording.add(path, "scaled", kind, step.scaled)
    recording.add(path, "weights", points["weights"], step.weights)
    return off.difference
