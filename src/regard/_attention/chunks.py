"""The torch backend's forward pass: chunks of queries on any device, in any floating type."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.dropout import Dropper
from regard._attention.observe import Recorder
from regard._attention.problem import Problem
from regard._attention.results import new_output
from regard._attention.scores import all_finite, grouped, score, soften
from regard.observation import Observation, See

__all__ = ["attend"]


def attend(
    problem: Problem, see: See | None = None, dropper: Dropper | None = None
) -> tuple[Tensor, Observation | None]:
    """The output (B, H, Nq, Dv), and what was asked for in `see`."""
    out = new_output(problem).zero_()
    recorder = None if see is None else Recorder(problem, see)
    if problem.has_keys:
        _fill(problem.promoted(), out, recorder, dropper)
    return out, None if recorder is None else recorder.finish()


def _fill(
    problem: Problem, out: Tensor, recorder: Recorder | None, dropper: Dropper | None
) -> None:
    kv_heads = problem.k.shape[1]
    v, spoilt = problem.v, None
    if not all_finite(v):
        # 0 · NaN would reach the queries that may not attend to it: those that may are marked.
        finite = torch.isfinite(v)
        v, spoilt = v.masked_fill(~finite, 0.0), (~finite).to(v.dtype)
    for tile in problem.tiles():
        keys = slice(tile.key, tile.key_end)
        scores = score(problem, tile)
        strongest = None if recorder is None else recorder.strongest(scores)
        weights = soften(scores, problem.sinks)
        if recorder is not None:
            recorder.record(tile, weights, strongest)
        values = weights.values
        if dropper is not None:
            values.mul_(dropper.next(values, tile))
        mixed = grouped(values, kv_heads) @ v[:, :, keys]
        if spoilt is not None:
            allowed = grouped(scores.bar(torch.ones_like(values)), kv_heads)
            mixed.masked_fill_(allowed @ spoilt[:, :, keys] > 0, torch.nan)
        rows = out[:, :, tile.row : tile.row_end]
        rows.copy_(mixed.view(rows.shape))
