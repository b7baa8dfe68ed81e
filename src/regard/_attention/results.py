"""New tensors for what attention returns: their shapes, strides and types."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.problem import Problem
from regard.observation import Observation, See

__all__ = ["new_gradient", "new_observation", "new_output", "observation_of"]

_empty = torch.empty  # looked up once: small calls are measured in microseconds


def new_output(problem: Problem) -> Tensor:
    """(B, H, Nq, Dv), which lies in memory as the problem wants it."""
    q = problem.q
    batch, heads, rows, _ = q.shape
    width = problem.v.shape[3]
    if problem.layout == "query":
        return torch.empty_like(q, requires_grad=False)
    if problem.layout == "contiguous":
        return _empty((batch, heads, rows, width), dtype=q.dtype, device=q.device)
    return torch.empty_strided(
        (batch, heads, rows, width),
        (rows * heads * width, width, heads * width, 1),
        dtype=q.dtype,
        device=q.device,
    )


def new_gradient(x: Tensor, dtype: torch.dtype, wanted: bool) -> Tensor:
    """Room for the gradient of x, which lies in memory as x does; empty if it is not wanted.

    Its last axis is contiguous, which x's may not be.
    """
    if not wanted:
        return torch.empty(0, dtype=dtype, device=x.device)
    gradient = torch.empty_like(x, dtype=dtype)
    steps = gradient.stride()
    return gradient.contiguous() if steps and steps[-1] != 1 else gradient


def new_observation(problem: Problem, see: See) -> Observation:
    """What is asked for in `see`, not yet filled in."""
    return observation_of(
        see,
        problem.scores_shape,
        problem.dtype,
        problem.q.device,
        problem.offset,
        None if problem.sinks is None else problem.sinks.detach().clone(),
    )


def observation_of(
    see: See,
    scores_shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    device: torch.device | str,
    position: int,
    sinks: Tensor | None = None,
) -> Observation:
    """The same for scores of this shape; position and sinks go in as they are."""
    batch, heads, n_queries, n_keys = scores_shape
    row, listed = (batch, heads, n_queries), (batch, heads, n_queries, see.top)
    return Observation(
        lse=_empty(row, dtype=dtype, device=device),
        entropy=_empty(row, dtype=dtype, device=device) if see.entropy else None,
        top_keys=_empty(listed, dtype=torch.int64, device=device) if see.top else None,
        top_weights=_empty(listed, dtype=dtype, device=device) if see.top else None,
        map=_empty((batch, heads, *see.map), dtype=dtype, device=device) if see.map else None,
        received=_empty((batch, heads, n_keys), dtype=dtype, device=device)
        if see.received
        else None,
        distance=_empty(row, dtype=dtype, device=device) if see.distance else None,
        n_keys=n_keys,
        position=position,
        sinks=sinks,
    )
