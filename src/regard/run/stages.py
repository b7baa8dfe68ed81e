"""The places that each token's vector goes through in a model, from the embedding to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from regard.run.run import Run


def stages(run: Run) -> dict[str, Tensor]:
    """By name, each (B, N, width): the embedding, then after attention and after the feed-forward
    layer of every block; or after each block, where what is in between is not known of all.

    Empty if hidden states were not kept, or are not of all tokens.

    >>> import torch
    >>> from regard.observation import Observation
    >>> from regard.run import Layer, Run
    >>> x = torch.zeros(1, 3, 5)
    >>> layers = {"blocks.0.attention": Layer("a", Observation(torch.zeros(1, 2, 3), n_keys=3))}
    >>> between = {"embedding": x, "blocks.0": x}
    >>> list(stages(Run(layers, hidden_states={"blocks.0": x}, between=between)))
    ['embedding', '0 attention', '0 feed-forward']
    """
    own = next((layer for layer in run.layers.values() if not layer.cross), None)
    kept = [*run.hidden_states.values(), *run.between.values()]
    if own is None or not run.hidden_states or len({tuple(x.shape) for x in kept}) != 1:
        return {}
    if kept[0].dim() != 3 or kept[0].shape[:2] != (own.shape[0], own.shape[3]):
        return {}
    if run.between.keys() != {"embedding", *run.hidden_states}:
        return dict(run.hidden_states)
    found = {"embedding": run.between["embedding"]}
    for n, (name, after) in enumerate(run.hidden_states.items()):
        found[f"{n} attention"] = run.between[name]
        found[f"{n} feed-forward"] = after
    return found
