"""Dropout as PyTorch draws it for the same weights: what `torch.manual_seed` gives there, it gives
here.

PyTorch draws a number for each weight, in the order of the axes, in a matrix of all of them. Here
it is drawn piece by piece, and a bit a weight is kept.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

_PIECE = 1 << 20  # weights that are drawn at a time


def draw(shape: tuple[int, int, int, int], chance: float) -> Tensor:
    """Which weights (B, H, Nq, Nk) are kept, as bits (B, H, Nq, bytes), from the lowest of a byte.

    What the core reads at once may reach past the last key: there are bytes for that.

    >>> _ = torch.manual_seed(7)
    >>> bits = draw((1, 1, 2, 11), 0.5)
    >>> bits.shape, unpack(bits, slice(3, 6))[0, 0, 1].tolist()
    (torch.Size([1, 1, 2, 10]), [True, False, True])
    >>> _ = torch.manual_seed(7)
    >>> torch.nn.functional.dropout(torch.ones(1, 1, 2, 11), 0.5)[0, 0, 1, 3:6].tolist()
    [2.0, 0.0, 2.0]
    """
    *_, n_keys = shape
    n_rows, used = int(np.prod(shape[:3])), -(-n_keys // 8)
    bits = torch.zeros((n_rows, n_keys // 8 + 9), dtype=torch.uint8)
    rows = max(1, _PIECE // max(1, n_keys)) if _is_a_stream() else max(1, n_rows)
    for first in range(0, n_rows, rows):
        kept = torch.empty((min(rows, n_rows - first), n_keys)).bernoulli_(1.0 - chance)
        packed = np.packbits(kept.numpy().astype(np.bool_), axis=1, bitorder="little")
        bits[first : first + rows, :used] = torch.from_numpy(packed)
    return bits.view(*shape[:3], -1)


def unpack(bits: Tensor, keys: slice) -> Tensor:
    """Of the bits of some rows, those of some keys, as booleans."""
    first, last = keys.start // 8, -(-keys.stop // 8)
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    flags = (bits[..., first:last, None] >> places & 1).flatten(-2)
    return flags[..., keys.start - 8 * first : keys.stop - 8 * first].bool()


@cache
def _is_a_stream() -> bool:
    """Is what is drawn in two pieces what is drawn in one? With Intel's library it is not."""
    one, two = (torch.Generator().manual_seed(5) for _ in range(2))
    whole = torch.empty(192).bernoulli_(0.5, generator=one)
    pieces = [torch.empty(96).bernoulli_(0.5, generator=two) for _ in range(2)]
    return torch.equal(whole, torch.cat(pieces))
