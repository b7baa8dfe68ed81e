"""Attention rollout from one token, exact, without a matrix of all weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard._arguments import number, shown
from regard.run.choose import index_of, layer_indices
from regard.run.layer import Layer

if TYPE_CHECKING:
    from regard.run.choose import Which
    from regard.run.run import Run

_CALL = "rollout()"


@torch.no_grad()
def rollout(
    run: Run,
    token: int,
    sequence: int = 0,
    residual: float = 0.5,
    layers: Which | Sequence[Which] | None = None,
) -> Tensor:
    """What `Run.rollout` returns.

    >>> import regard
    >>> from regard.run import Layer, Run
    >>> q = torch.eye(2)[None, None]
    >>> _, seen = regard.attention(q, q, q, see=regard.See())
    >>> rollout(Run({"a": Layer("a", seen, q=q, k=q)}), 0, residual=1.0).tolist()
    [1.0, 0.0]
    """
    chosen = _chosen(run, layers)
    batch, _, length, _ = chosen[0].shape
    b = index_of(_CALL, "sequence", sequence, batch, f"The batch has {batch} sequences.")
    start = index_of(_CALL, "token", token, length, f"The sequence has {length} tokens.")
    keep = number(
        _CALL, "residual", residual, 0, 1, "It is the share that goes past attention; 0.5 is usual."
    )
    real = chosen[-1].queries
    if real is not None and not real[b, start]:
        raise ValueError(
            f"{_CALL}: token must be a real one; got {shown(token)}, which is padding. "
            f"The real ones of sequence {b} are {_ranges(real[b])}."
        )
    share = torch.zeros(length, dtype=torch.float64)
    share[start] = 1.0
    for layer in reversed(chosen):
        share = keep * share + (1 - keep) * _through(layer, b, share)
    return share


def has_rollout(run: Run) -> bool:
    """Whether attention can be rolled out from some token of the first sequence."""
    try:
        chosen = _chosen(run, None)
    except ValueError:
        return False
    batch, _, length, _ = chosen[0].shape
    real = chosen[-1].queries
    has_tokens = batch > 0 and length > 0 and (real is None or bool(real[0].any()))
    return has_tokens and not any(layer.is_written_over for layer in chosen)


def _through(layer: Layer, sequence: int, share: Tensor) -> Tensor:
    """The mean over the heads of share · W; rows without a share are not computed."""
    _, n_heads, _, n_keys = layer.shape
    rows = share.nonzero()[:, 0].numpy()
    total = torch.zeros(n_keys, dtype=torch.float64)
    for head in range(n_heads):
        for some, tile in layer.weights_of_rows(sequence, head, rows):
            total += share[torch.from_numpy(some)] @ tile.cpu().double()
    return total / max(n_heads, 1)


def _chosen(run: Run, layers: Which | Sequence[Which] | None) -> list[Layer]:
    """The self-attention layers, of one length, with q and k."""
    by_number = list(run.layers.items())
    found = [by_number[index] for index in layer_indices(_CALL, run.layers, layers)]
    found = [(name, layer) for name, layer in found if not layer.cross]
    if not found:
        raise ValueError(
            f"{_CALL}: the run must have self-attention layers; it has none of those asked for. "
            "layers=None takes all there are."
        )
    names = [name.partition("#")[0] for name, _ in found]
    again = next((name for name in names if layers is None and names.count(name) > 1), None)
    if again is not None:
        raise ValueError(
            f"{_CALL}: each module must be there once; got {again} several times, as it ran "
            "several times. layers=… chooses those of one pass."
        )
    missing = [name for name, layer in found if not layer.has_weights]
    if missing:
        raise ValueError(
            f"{_CALL}: q and k of all layers must have been kept; those of {_some(missing)} were "
            'not. regard.watch(…, keep=("q", "k")) keeps them.'
        )
    batch, _, length, _ = found[0][1].shape
    for name, layer in found:
        here, _, n_queries, n_keys = layer.shape
        if (here, n_queries, n_keys) != (batch, length, length):
            raise ValueError(
                f"{_CALL}: all layers must have the same {batch} × {length} queries and keys; "
                f"got {here} × {n_queries} queries and {n_keys} keys in {name}. "
                "layers=… chooses those that belong together."
            )
        if layer.offset:
            raise ValueError(
                f"{_CALL}: query i must stand where key i does; in {name} it stands "
                f"{layer.offset} away. layers=… chooses others."
            )
    return [layer for _, layer in found]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _ranges(real: Tensor) -> str:
    places = real.nonzero()[:, 0].tolist()
    return f"from {places[0]} to {places[-1]}" if places else "none"
