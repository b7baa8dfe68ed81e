"""PyTorch's `CausalBias`, a tensor without numbers that stands for a causal mask."""

from __future__ import annotations

import sys

from torch import Tensor

from regard._arguments import WrongValue

__all__ = ["is_causal_bias", "position_of"]


def is_causal_bias(given: object) -> bool:
    """Is it `torch.nn.attention.bias.causal_upper_left(…)`, or `causal_lower_right(…)`?"""
    if given is None or type(given) is Tensor:
        return False
    module = sys.modules.get("torch.nn.attention.bias")  # who has one has imported it
    return module is not None and isinstance(given, module.CausalBias)


def position_of(call: str, name: str, given: object, n_queries: int, n_keys: int) -> int | None:
    """Where it puts query 0, as `position` says it: None beside the end of the keys.

    As in PyTorch, a square one or one of the upper left fits all lengths, and starts at 0.
    """
    from torch.nn.attention.bias import CausalBias, CausalVariant

    assert isinstance(given, CausalBias)
    found = (given.seq_len_q, given.seq_len_kv)
    if found[0] == found[1] or given.variant == CausalVariant.UPPER_LEFT:
        return 0
    if found != (n_queries, n_keys):
        raise WrongValue(
            f"{call}: {name} must be for (Nq, Nk) = ({n_queries}, {n_keys}); got one for {found}. "
            f"causal_lower_right({n_queries}, {n_keys}) is."
        )
    return None
