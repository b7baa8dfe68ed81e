"""Which keys each query may attend to, written out: for those who look at it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Window", "allowed_keys"]

Window = tuple[int | None, int | None]


def allowed_keys(
    n_queries: int,
    n_keys: int,
    causal: bool,
    window: Window | None,
    mask: Tensor | None,
    lengths: Tensor | None,
    device: torch.device,
) -> Tensor:
    """True where a query may attend to a key, (1 or B, 1 or H, Nq, Nk), all conditions together.

    >>> allowed_keys(2, 3, True, None, None, None, torch.device("cpu"))[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    key = torch.arange(n_keys, device=device)
    query = torch.arange(n_keys - n_queries, n_keys, device=device)[:, None]
    allowed = torch.ones(1, 1, n_queries, n_keys, dtype=torch.bool, device=device)
    if causal:
        allowed = allowed & (key <= query)
    left, right = window or (None, None)
    if left is not None:
        allowed = allowed & (key >= query - left)
    if right is not None:
        allowed = allowed & (key <= query + right)
    if mask is not None:
        allowed = allowed & mask
    if lengths is not None:
        allowed = allowed & (key < lengths.to(device)[:, None, None, None])
    return allowed
