"""What attention is given besides its input: the matrices, and whether positions are added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.reference import Array

Positions = Literal["none", "sinusoidal"]


@dataclass(frozen=True, eq=False)
class Projections:
    """The matrices of attention: `w_q`, `w_k` (H, d_model, d_k), `w_v` (H, d_model, d_v), `w_o`.

    Two-dimensional ones are one head. `w_o` (H·d_v, d_out) may be left out: the heads are then
    handed on side by side, unmixed. `given_heads` (G, N, d_v) are the outputs of further heads that
    are known only by their result.
    """

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array | None = None
    given_heads: Array | None = None

    def __post_init__(self) -> None:
        for name in ("w_q", "w_k", "w_v", "w_o", "given_heads"):
            if getattr(self, name) is None:
                continue
            array = np.array(getattr(self, name), dtype=np.float64)
            if name != "w_o":
                array = array[None] if array.ndim == 2 else array
                if array.ndim != 3 or 0 in array.shape:
                    raise ValueError(
                        f"Projections(): {name} must have 2 axes, or 3 with the heads first, and "
                        f"none of them empty; got shape {array.shape}."
                    )
            if not np.isfinite(array).all():
                raise ValueError(f"Projections(): {name} must be finite; it has a NaN or an ∞.")
            object.__setattr__(self, name, array)
        q, k, v = self.w_q.shape, self.w_k.shape, self.w_v.shape
        if q != k or q[:2] != v[:2]:
            raise ValueError(
                "Projections(): w_q and w_k must be (H, d_model, d_k) and w_v (H, d_model, d_v); "
                f"got {q}, {k} and {v}."
            )
