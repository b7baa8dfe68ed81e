"""Attention rollout from one token, exact, without a matrix of all weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard._arguments import number, shown
from regard.run.choose import index_of, layer_indices
from regard.run.layer import Layer

if TYPE_CHECKING:
    from regard.run.choose import Some
    from regard.run.run import Run

_CALL = "rollout()"


@torch.no_grad()
def rollout(
    run: Run,
    token: int,
    sequence: int = 0,
    residual: float = 0.5,
    layers: Some = None,
) -> Tensor:
    """How much each token of the input counts for one token of the last layer, (N,) float64.

    Attention rollout: from the last layer to the first, r ← residual · r + (1 − residual) ·
    mean over the heads of r · W, r being 1 at `token` and 0 elsewhere. Exact, from q and k of
    all self-attention layers; W is never in memory. It sums to 1 if the rows of W do.

    >>> import regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=0.0, causal=True, see=regard.See())
    >>> options = regard.run.Options(scale=0.0, causal=True)
    >>> run = regard.Run({"a": Layer("a", seen, options, q=q, k=q)})
    >>> run.rollout(1).tolist()
    [0.25, 0.75, 0.0]
    """
    chosen = _chosen(run, layers)
    batch, _, length, _ = chosen[0].shape
    b = index_of(_CALL, "sequence", sequence, batch, f"The batch has {batch} sequences.")
    start = index_of(_CALL, "token", token, length, f"The sequence has {length} tokens.")
    remedy = "It is the share that goes past attention; 0.5 is usual."
    keep = number(_CALL, "residual", residual, 0, 1, remedy)
    real = chosen[-1].queries
    if real is not None and not real[b, start]:
        places = real[b].nonzero()[:, 0].tolist()
        tokens = f"from {places[0]} to {places[-1]}" if places else "none"
        raise ValueError(
            f"{_CALL}: token must be a real one; got {shown(token)}, which is padding. "
            f"The real ones of sequence {b} are {tokens}."
        )
    share = torch.zeros(length, dtype=torch.float64)
    share[start] = 1.0
    for layer in reversed(chosen):
        rows = share.nonzero()[:, 0].numpy()  # the others are not computed
        n_heads, passed = layer.shape[1], torch.zeros(length, dtype=torch.float64)
        for head in range(n_heads):
            for some, tile in layer.weights_of_rows(b, head, rows):
                passed += share[torch.from_numpy(some)] @ tile.cpu().double()
        share = keep * share + (1 - keep) * (passed / max(n_heads, 1))
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


def _chosen(run: Run, layers: Some) -> list[Layer]:
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
        some = ", ".join(missing[:3])
        some += f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(
            f"{_CALL}: q and k of all layers must have been kept; those of {some} were "
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
