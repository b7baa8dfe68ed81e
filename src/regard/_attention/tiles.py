"""`regard.weights` and `regard.pooled`: any part of the weights, exactly, any time later."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from regard._arguments import NOT_A_NUMBER, WrongValue, shown
from regard._attention import native
from regard._attention.checks import check, check_lse
from regard._attention.dispatch import choose, run
from regard._attention.eager import may_go_direct, without_autocast
from regard._attention.forward import bin_of, new_picture, pour
from regard._attention.options import Options, Window
from regard._attention.problem import Problem, Tile
from regard._attention.scores import score, weigh
from regard.observation import MOST_CELLS, See

Span = slice | range | tuple[int, int]


@torch.no_grad()
def weights(
    q: Tensor,
    k: Tensor,
    *,
    rows: Span = slice(None),
    keys: Span = slice(None),
    lse: Tensor | None = None,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> Tensor:
    """The weights of some queries on some keys, (B, H, rows, keys): exp(score − lse).

    `rows` and `keys` are slices, ranges or (start, stop), of step 1. `lse` (B, H, Nq) is of the
    whole rows, as `regard.attention` reports it; without it, it is computed for these rows. Sinks
    matter only then, as a given lse has them already. All other options are those of
    `regard.attention`, and must be the same. The result carries no gradient, and takes the memory
    of the tile.

    >>> q = k = torch.eye(3)[None, None]
    >>> weights(q, k, rows=(1, 3), keys=slice(0, 2), causal=True).round(decimals=2)
    tensor([[[[0.3600, 0.6400],
              [0.2600, 0.2600]]]])
    """
    numbers = scale, softcap, sinks, position
    options = Options(causal, window, mask, bias, lengths, *numbers, segments, indices)  # pyright: ignore[reportArgumentType] -- lengths and segments are checked
    problem, lse, tile, natively = _prepare("weights()", q, k, options, rows, keys, lse, backend)
    if natively:
        return native.weights(problem, lse, tile)
    out = lse.new_zeros(*lse.shape[:2], *tile.shape)
    for part, values in _parts(problem, lse, tile):
        out[:, :, part.rows, part.key - tile.key : part.key_end - tile.key] = values
    return out


@torch.no_grad()
def pooled(
    q: Tensor,
    k: Tensor,
    *,
    rows: Span = slice(None),
    keys: Span = slice(None),
    shape: tuple[int, int] = (256, 256),
    reduce: Literal["mean", "max"] = "mean",
    lse: Tensor | None = None,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> Tensor:
    """A picture of the weights of some queries on some keys, (B, H, *shape).

    Each pixel is the mean or the maximum of the weights in it. Of n rows, row i falls in row
    ⌊i · shape[0] / n⌋ of the picture, and columns alike; a pixel into which none falls is 0. The
    other arguments are those of `regard.weights`. The whole rectangle is never in memory.

    >>> q = k = torch.eye(4)[None, None]
    >>> pooled(q, k, shape=(2, 2), reduce="max", scale=99.0)[0, 0].round(decimals=3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    call = "pooled()"
    if reduce not in ("mean", "max"):
        raise WrongValue(
            f"{call}: reduce must be 'mean' or 'max'; got {shown(reduce)}. "
            "Each pixel is that of the weights in it."
        )
    try:
        height, width = (operator.index(size) for size in shape)
    except NOT_A_NUMBER:
        height = width = 0
    if height < 1 or width < 1 or height * width > MOST_CELLS:
        raise WrongValue(
            f"{call}: shape must be (rows, columns), whole numbers of 1 or more, with at most "
            f"2**31 pixels; got {shown(shape)}. It is the size of the picture."
        )
    numbers = scale, softcap, sinks, position
    options = Options(causal, window, mask, bias, lengths, *numbers, segments, indices)  # pyright: ignore[reportArgumentType] -- lengths and segments are checked
    problem, lse, tile, natively = _prepare(call, q, k, options, rows, keys, lse, backend)
    if natively:
        return native.pooled(problem, lse, tile, (height, width), reduce == "max")
    picture = new_picture(lse.shape[0], lse.shape[1], (height, width), lse.device)
    for part, values in _parts(problem, lse, tile):
        inside = replace(part, key=part.key - tile.key, key_end=part.key_end - tile.key)
        pour(picture, values, inside, tile.shape, reduce == "max")
    if reduce == "mean":
        in_row, in_column = (
            torch.bincount(bin_of(0, n, n, count, lse.device), minlength=count)
            for n, count in zip(tile.shape, (height, width), strict=True)
        )
        picture /= (in_row[:, None] * in_column).clamp_(min=1)
    return picture.to(lse.dtype)


def _prepare(
    call: str,
    q: Tensor,
    k: Tensor,
    options: Options,
    rows: Span,
    keys: Span,
    lse: Tensor | None,
    backend: str | None,
) -> tuple[Problem, Tensor, Tile, bool]:
    """The problem of these rows alone, their lse, the tile that is asked for; is it native work?"""
    options = check(call, {"q": q, "k": k}, options)
    problem = Problem(q, k, k[..., :0], options)
    _, _, n_queries, n_keys = problem.scores_shape
    row, row_end = _span(call, "rows", rows, n_queries)
    key, key_end = _span(call, "keys", keys, n_keys)
    some = slice(row, row_end)
    if lse is not None:
        lse = check_lse(call, lse, q)[:, :, some].contiguous()
    chosen = choose(call, backend, q, k)
    if chosen == "native" and not may_go_direct(problem.tensors):
        if backend == "native":
            raise WrongValue(
                f"{call}: backend 'native' needs plain tensors that want no gradient, outside of "
                "torch.compile; got others. backend=None takes 'torch' for them."
            )
        chosen = "torch"
    options = problem.options.rows(some, n_queries, n_keys)
    problem = replace(problem, q=q[:, :, some], options=options)
    if 0 in (*problem.scores_shape, q.shape[3], key_end - key):
        chosen = "torch"  # nothing to compute, or nothing to compute it from
    if lse is None:
        _, seen = run(chosen, problem, See())
        assert seen is not None
        lse = seen.lse
    return problem, lse, Tile(0, row_end - row, key, key_end), chosen == "native"


def _span(call: str, name: str, span: object, size: int) -> tuple[int, int]:
    """Start and stop of a slice, a range or a pair."""
    refused = WrongValue(
        f"{call}: {name} must be a slice, a range or (start, stop), of step 1, within 0 … {size}; "
        f"got {shown(span)}. All that are wanted must be next to one another."
    )
    try:
        if isinstance(span, slice):
            start, stop, step = span.indices(size)
            stop = max(start, stop)
        elif isinstance(span, range):
            start, stop, step = span.start, max(span.start, span.stop), span.step
        elif isinstance(span, tuple):
            (start, stop), step = (operator.index(end) for end in span), 1
        else:
            raise refused
    except NOT_A_NUMBER:
        raise refused from None
    if step != 1 or not 0 <= start <= stop <= size:
        raise refused
    return start, stop


def _parts(problem: Problem, lse: Tensor, tile: Tile) -> Iterator[tuple[Tile, Tensor]]:
    """The tile chunk by chunk, with the weights of each; keys of no query are left out."""
    if not problem.has_keys:
        return
    with without_autocast(problem.q.device):
        problem = problem.promoted()
        for part in problem.tiles(tile):
            yield part, weigh(score(problem, part), lse[:, :, part.rows])
