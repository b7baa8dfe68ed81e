"""The scores of one tile, and the weights that they make: what the torch backend is built of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.drawn import unpack
from regard._attention.options import part
from regard._attention.problem import Problem, Tile

_NEGATIVE = float("-inf")
_VMAP = torch._C.DispatchKeySet(torch._C._parse_dispatch_key("VmapMode"))  # pyright: ignore[reportArgumentType]


@dataclass
class Scores:
    """The scores of a tile, (B, H, n, m): scaled, capped, biased, −inf where forbidden.

    A score is −inf only where the query may not attend to the key: any other infinity is a NaN.
    """

    values: Tensor
    forbidden: list[Tensor]  # True where a query may not attend; each broadcasts to `values`
    queries: Tensor  # (B, Hkv, G·n, D), times the scale
    capped: Tensor | None  # what softcap made, before bias

    def forbid(self, x: Tensor, value: float = 0.0) -> Tensor:
        """Put `value` in place wherever a query may not attend to a key."""
        for forbidden in self.forbidden:
            x.masked_fill_(forbidden, value)
        return x


@dataclass
class Weights:
    """The weights of a tile that holds all keys of its queries."""

    values: Tensor  # (B, H, n, m)
    lse: Tensor  # (B, H, n), −inf for a query without a key
    sink: Tensor | None  # (B, H, n), the sink's weight


def grouped(x: Tensor, kv_heads: int) -> Tensor:
    """(B, H, n, ·) as (B, Hkv, G·n, ·): the query heads that share a key head, in one matrix."""
    batch, heads, rows, columns = x.shape
    return x.reshape(batch, kv_heads, heads // kv_heads * rows, columns)


def all_finite(x: Tensor) -> bool:
    """Is there neither a NaN nor an infinity? May say no when the sum alone overflows."""
    return bool(torch.isfinite(x.sum()))


def score(
    problem: Problem,
    tile: Tile,
    *,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    keep_capped: bool = False,
) -> Scores:
    """The scores of a tile of a promoted problem."""
    batch, heads, _, _ = problem.scores_shape
    options, rows, keys = problem.options, tile.rows, tile.keys
    k = problem.k[:, :, keys]
    queries = grouped(problem.q[:, :, rows] * problem.factor, k.shape[1])
    values = multiply(queries, k.transpose(-1, -2))
    values = values.view(batch, heads, tile.row_end - tile.row, tile.key_end - tile.key)
    if not all_finite(values):
        # What something not finite had a part in, or what became too large, is a NaN. What merely
        # became too small is the smallest number: its weight is 0 beside any other.
        spoilt = ~torch.isfinite(queries).all(-1)[..., None]
        spoilt = spoilt | ~torch.isfinite(k).all(-1)[:, :, None]
        values.masked_fill_(values == _NEGATIVE, torch.finfo(values.dtype).min)
        values.masked_fill_(~torch.isfinite(values), torch.nan)
        values.view(spoilt.shape).masked_fill_(spoilt, torch.nan)
    capped = None
    if options.softcap is not None:
        values.div_(options.softcap).tanh_().mul_(options.softcap)
        capped = values.clone() if keep_capped else None
    bias = part(options.bias, rows, keys)
    if bias is not None:
        bias = bias.to(values.dtype)
        values.add_(bias)
    key = torch.arange(tile.key, tile.key_end, device=values.device)
    mask = part(options.mask, rows, keys)
    forbidden = options.forbidden(rows, key, problem.scores_shape[2:], mask, bias)
    scores = Scores(values, forbidden, queries, capped)
    scores.forbid(values, _NEGATIVE)
    return scores


def soften(scores: Scores, sinks: Tensor | None) -> Weights:
    """Softmax over the keys of the tile, which must be all that its queries have.

    It is done in place of the scores. A query without a key gets weights 0 and lse −inf.
    """
    values = scores.values
    largest = values.amax(-1, keepdim=True)
    has_key = largest != _NEGATIVE
    if sinks is not None:
        largest = torch.maximum(largest, sinks[:, None, None])
    largest = largest.masked_fill(largest == _NEGATIVE, 0.0)
    total = values.sub_(largest).exp_().sum(-1, keepdim=True)
    sink = None
    if sinks is not None:
        sink = torch.exp(sinks[:, None, None] - largest)
        total = total + sink
        sink = (sink / total)[..., 0]
    lse = (largest + total.log()).masked_fill_(~has_key, _NEGATIVE)
    values.div_(total.masked_fill(total == 0, 1.0))
    if not all_finite(total):
        scores.forbid(values)
    return Weights(values, lse[..., 0], sink)


def weigh(scores: Scores, lse: Tensor) -> Tensor:
    """The weights of a tile, in place of the scores, from the lse (B, H, n) of the whole rows."""
    lse = lse.masked_fill(lse == _NEGATIVE, 0.0)[..., None]
    weights = scores.values.sub_(lse).exp_()
    if not all_finite(weights):
        scores.forbid(weights)
    return weights


# ── dropout ───────────────────────────────────────────────────────────────────────────────────

# For each weight (B, H, n, m) of a tile: 0, or 1 / (1 − dropout).
Dropper = Callable[[Tensor, Tile], Tensor]


def dropper(backend: str, problem: Problem, first: int = 0) -> Dropper | None:
    """Which weights dropout leaves, for tile after tile; None without a seed.

    The same for the same seed and tiles: by PyTorch's generator, or by the native backend's hash,
    which drops what that backend drops from sequence `first` on; or what was drawn before.
    """
    dropout, seed = problem.dropout, problem.seed
    if seed is None:
        return None
    growth = 1.0 / (1.0 - dropout)  # in float64, if that is the type
    if problem.is_drawn:

        def known(like: Tensor, tile: Tile) -> Tensor:
            bits = seed[first : first + len(like), :, tile.rows]
            return unpack(bits, tile.keys).to(like.dtype).mul_(growth)

        return known
    if backend == "native":

        def left(like: Tensor, tile: Tile) -> Tensor:
            kept = native.kept(like.shape, tile, dropout, seed, first)
            return (kept != 0).to(like.dtype).mul_(growth)

        return left
    generator = torch.Generator(problem.q.device).manual_seed(int(seed))

    def draw(like: Tensor, _: Tile) -> Tensor:
        # Drawn once more for a gradient, also one of many at once, where vmap allows no new draws.
        with torch._C._ExcludeDispatchKeyGuard(_VMAP):
            chance = torch.rand(
                like.shape, generator=generator, dtype=torch.float32, device=like.device
            )
        return (chance >= dropout).to(like.dtype).div_(1.0 - dropout)

    return draw
