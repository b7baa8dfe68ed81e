"""New tensors for what attention returns: their shapes, strides and types."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.problem import Problem
from regard.observation import Observation, See

__all__ = ["new_observation", "new_output"]


def new_output(q: Tensor, v: Tensor) -> Tensor:
    """(B, H, Nq, Dv), which lies in memory as (B, Nq, H, Dv): joining the heads copies nothing."""
    batch, heads, rows, _ = q.shape
    width = v.shape[3]
    return torch.empty_strided(
        (batch, heads, rows, width),
        (rows * heads * width, width, heads * width, 1),
        dtype=q.dtype,
        device=q.device,
    )


def new_observation(problem: Problem, see: See) -> Observation:
    """What is asked for in `see`, not yet filled in."""
    batch, heads, n_queries, n_keys = problem.scores_shape
    device, dtype = problem.q.device, problem.dtype

    def new(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.empty((batch, heads, *shape), dtype=dtype, device=device)

    return Observation(
        lse=new(n_queries),
        entropy=new(n_queries) if see.entropy else None,
        top_keys=new(n_queries, see.top, dtype=torch.int64) if see.top else None,
        top_weights=new(n_queries, see.top) if see.top else None,
        map=None if see.map is None else new(*see.map),
        received=new(n_keys) if see.received else None,
        distance=new(n_queries) if see.distance else None,
        n_keys=n_keys,
        position=problem.offset,
        sinks=None if problem.sinks is None else problem.sinks.detach().clone(),
    )
