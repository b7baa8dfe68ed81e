"""The truth: every step of attention in NumPy float64, written to be read.

Everything else in this package is tested against this file. It is short, it is slow, and it
builds the whole N × N matrix of weights: that is what makes it easy to believe.

Shapes are written as in the formulas: `N` queries and keys (`Nq`, `Nk` where they differ), `D` the
width of a query and a key, `Dv` the width of a value, `H` heads, `B` sequences. Leading axes
`...` broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Window = tuple[int | None, int | None]
Segments = ArrayLike | tuple[ArrayLike, ArrayLike]

__all__ = [
    "Attention",
    "MultiHead",
    "allowed_keys",
    "attention",
    "decoder_layer",
    "distance",
    "encoder_layer",
    "entropy",
    "feed_forward",
    "layer_norm",
    "logsumexp",
    "low_rank_value",
    "multi_head",
    "pooled_map",
    "received",
    "sinusoidal",
    "softmax",
    "top",
]


# ── softmax ───────────────────────────────────────────────────────────────────────────────────


def logsumexp(scores: ArrayLike) -> Array:
    """ln Σⱼ exp(scoresⱼ) over the last axis; −inf for a row in which every score is −inf.

    >>> round(float(logsumexp([6.0, 4.0])), 4)
    6.1269
    """
    exponentials, largest = _exponentials(_float64(scores))
    with np.errstate(divide="ignore"):
        return np.log(exponentials.sum(axis=-1)) + largest[..., 0]


def softmax(scores: ArrayLike) -> Array:
    """exp(scoresⱼ) / Σⱼ exp(scoresⱼ) over the last axis. A score of −inf gets weight 0.

    A row in which every score is −inf has nothing to attend to: its weights are all 0.

    >>> softmax([6.0, 4.0]).round(2)
    array([0.88, 0.12])
    """
    exponentials, _ = _exponentials(_float64(scores))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)


def _exponentials(scores: Array) -> tuple[Array, Array]:
    """exp(scoresⱼ − largest), which cannot overflow, and the largest score of each row."""
    largest = scores.max(axis=-1, initial=-np.inf, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(scores - largest), largest


# ── attention ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Attention:
    """One pass of attention with every intermediate.

    `scores` (…, Nq, Nk) is Q Kᵀ; `scaled` has scale, softcap and bias applied, and −inf where
    `allowed` is False; `lse` (…, Nq) is the log-sum-exp of a row of `scaled`, sink included;
    `weights` (…, Nq, Nk) its softmax; `output` (…, Nq, Dv) is weights · V.
    """

    scores: Array
    scaled: Array
    allowed: Mask
    lse: Array
    weights: Array
    output: Array


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
    position: int | None = None,
    segments: Segments | None = None,
    indices: ArrayLike | None = None,
) -> Attention:
    """softmax(scale · Q Kᵀ + bias) · V, over the keys that each query may attend to.

    `q` (…, H, Nq, D), `k` (…, Hkv, Nk, D), `v` (…, Hkv, Nk, Dv), or without the head axis.
    H is a multiple of Hkv: query heads share key heads in consecutive groups.

    `mask` is boolean, True = may attend; `bias` is added to the scaled scores, and a bias of −inf
    is a mask. `lengths` (B,) is the number of real keys of each sequence, from the left.
    `indices` (…, Nq, K) are the keys that a query may attend to; what is no key does nothing.
    `causal`, `window`, `position` and `segments`, whose leading axis is B, are described at
    `allowed_keys`; all of them compose.
    `scale` is 1/√D unless given. `softcap` c turns a score s into c·tanh(s/c) before masking.
    `sinks` (H,) is one more logit a head, which takes weight and gives no value.

    A query without a key gets weights 0, output 0 and lse −inf. A NaN or an infinity that a query
    may attend to makes its row not finite; one that it may not attend to has no effect.

    >>> step = attention([[2.0, 3, 4, 1]], [[1.0, 0, 1, 0], [0, 1, 0, 1]], [[1.0], [0]])
    >>> step.scores, step.scaled, step.weights.round(2)
    (array([[6., 4.]]), array([[3., 2.]]), array([[0.73, 0.27]]))
    """
    q, k, v = _float64(q), _float64(k), _float64(v)
    heads, kv_heads = _check_shapes(q, k, v)
    if kv_heads > 1:
        k, v = (np.repeat(x, heads // kv_heads, axis=-3) for x in (k, v))
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    shape = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), n_queries, n_keys)
    _check_options(shape, mask, bias, lengths, softcap, sinks)
    scale = 1.0 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale

    allowed = allowed_keys(
        n_queries, n_keys, causal=causal, window=window, position=position, segments=segments
    )
    if segments is not None:  # (B, Nq, Nk)
        allowed = allowed.reshape(*allowed.shape[:-2], *[1] * (len(shape) - 3), *shape[-2:])
    if mask is not None:
        allowed = allowed & np.asarray(mask, dtype=bool)
    if lengths is not None:
        real = np.arange(n_keys) < np.asarray(lengths)[:, None]  # (B, Nk)
        allowed = allowed & real.reshape(len(real), *[1] * (len(shape) - 2), n_keys)
    if indices is not None:
        chosen = np.asarray(indices)[..., None, :] == np.arange(n_keys)[:, None]  # (…, Nq, Nk, K)
        allowed = allowed & chosen.any(axis=-1)
    bias = _float64(0.0 if bias is None else bias)
    allowed = np.broadcast_to(allowed & ~np.isneginf(bias), shape)

    with np.errstate(invalid="ignore", over="ignore"):
        scores = q @ np.swapaxes(k, -1, -2)
        scaled = scores * scale
        # An infinity must not vanish in tanh or in exp(−inf): from here on it is a NaN.
        scaled = np.where(np.isfinite(scaled), scaled, np.nan)
        if softcap is not None:
            scaled = softcap * np.tanh(scaled / softcap)
        scaled = np.where(allowed, scaled + bias, -np.inf)

    logits = scaled
    if sinks is not None:
        column = np.broadcast_to(_float64(sinks)[:, None, None], (*shape[:-1], 1))
        logits = np.concatenate([scaled, column], axis=-1)
    lse = np.where(allowed.any(axis=-1), logsumexp(logits), -np.inf)
    weights = np.where(allowed, softmax(logits)[..., :n_keys], 0.0)
    return Attention(scores, scaled, allowed, lse, weights, _weighted_sum(weights, v, allowed))


def allowed_keys(
    n_queries: int,
    n_keys: int,
    *,
    causal: bool = False,
    window: Window | None = None,
    position: int | None = None,
    segments: Segments | None = None,
) -> Mask:
    """(Nq, Nk), True where a query may attend to a key.

    Key j stands at position j and query i at p = i + `position`, which is Nk − Nq unless given: the
    last query beside the last key.
    `causal` allows j ≤ p; `window=(left, right)` allows p − left ≤ j ≤ p + right, None unbounded.

    `segments` are ids (…, N), for queries and keys alike, or (ids of queries, ids of keys). A query
    may attend to keys of its own segment, to none if its id is less than 0, and all positions are
    counted within the segment, as if it were alone. The result is then (…, Nq, Nk).

    >>> allowed_keys(2, 3, causal=True).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    >>> allowed_keys(3, 3, causal=True, segments=[7, 7, 8]).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    ahead = _ahead(n_queries, n_keys, position, segments)
    allowed = np.ones(ahead.shape, dtype=bool)
    if segments is not None:
        of_queries, of_keys = _pair(segments)
        allowed &= _same(of_queries, of_keys) & (of_queries >= 0)[..., None]
    if causal:
        allowed &= ahead <= 0
    if window is not None:
        left, right = window
        if left is not None:
            allowed &= ahead >= -left
        if right is not None:
            allowed &= ahead <= right
    return allowed


def _ahead(
    n_queries: int, n_keys: int, position: int | None, segments: Segments | None
) -> NDArray[np.int64]:
    """j − p, (…, Nq, Nk)."""
    if segments is None:
        first = n_keys - n_queries if position is None else position
        return np.arange(n_keys) - (np.arange(n_queries) + first)[:, None]
    of_queries, of_keys = _pair(segments)
    before = np.tril(_same(of_queries, of_queries), -1).sum(axis=-1)  # of the same segment
    if position is None:
        first = _same(of_queries, of_keys).sum(-1) - _same(of_queries, of_queries).sum(-1)
    else:
        first = np.asarray(position)
    places = np.tril(_same(of_keys, of_keys), -1).sum(axis=-1)
    return places[..., None, :] - (before + first)[..., :, None]


def _same(ids: NDArray[np.int64], others: NDArray[np.int64]) -> Mask:
    return ids[..., :, None] == others[..., None, :]


def _pair(segments: Segments) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    queries, keys = segments if isinstance(segments, tuple) else (segments, segments)
    return np.asarray(queries, dtype=np.int64), np.asarray(keys, dtype=np.int64)


def _weighted_sum(weights: Array, v: Array, allowed: Mask) -> Array:
    """weights · V, in which a key that is not allowed adds nothing: not even 0 · NaN."""
    finite = np.asarray(np.isfinite(v).all(axis=-1))
    output = weights @ np.where(finite[..., None], v, 0.0)
    for j in range(v.shape[-2]):
        if not finite[..., j].all():
            added = np.where(finite[..., j, None], 0.0, v[..., j, :])[..., None, :]
            with np.errstate(invalid="ignore"):
                weighted = weights[..., j, None] * added
                output = output + np.where(allowed[..., j, None], weighted, 0.0)
    return output


def _check_shapes(q: Array, k: Array, v: Array) -> tuple[int, int]:
    """H and Hkv, if the shapes fit together."""
    shapes = f"got q {q.shape}, k {k.shape}, v {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"attention(): q, k and v need two axes or more, (…, N, D); {shapes}.")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention(): the last axis of q and k must be equal; {shapes}.")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"attention(): k and v must have the same number of keys; {shapes}.")
    heads, kv_heads, v_heads = (x.shape[-3] if x.ndim >= 3 else 1 for x in (q, k, v))
    if kv_heads != v_heads:
        raise ValueError(f"attention(): k and v must have the same number of heads; {shapes}.")
    if heads % kv_heads if kv_heads else heads:
        raise ValueError(f"attention(): H must be a multiple of Hkv; {shapes}.")
    try:
        np.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))
    except ValueError:
        raise ValueError(f"attention(): the leading axes do not broadcast; {shapes}.") from None
    return heads, kv_heads


def _check_options(
    shape: tuple[int, ...],
    mask: ArrayLike | None,
    bias: ArrayLike | None,
    lengths: ArrayLike | None,
    softcap: float | None,
    sinks: ArrayLike | None,
) -> None:
    """`shape` is that of the scores."""
    for name, given in (("mask", mask), ("bias", bias)):
        found = np.shape(0.0 if given is None else given)
        try:
            fits = np.broadcast_shapes(found, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"attention(): {name} must broadcast to the scores {shape}; got {found}."
            )
    if mask is not None and np.asarray(mask).dtype != np.bool_:
        raise ValueError(
            f"attention(): mask must be boolean, True = may attend; got {np.asarray(mask).dtype}. "
            "What is to be added to the scores is a bias."
        )
    if lengths is not None and (len(shape) < 3 or np.shape(lengths) != shape[:1]):
        raise ValueError(
            "attention(): lengths must be (B,), B being the first axis of the scores "
            f"{shape}; got {np.shape(lengths)}."
        )
    if sinks is not None and np.shape(sinks) != shape[-3:-2]:
        raise ValueError(
            "attention(): sinks must be (H,), H being the last axis but two of the scores "
            f"{shape}; got {np.shape(sinks)}."
        )
    if softcap is not None and not softcap > 0:
        raise ValueError(f"attention(): softcap must be greater than 0; got {softcap}.")


def _float64(x: ArrayLike) -> Array:
    return np.asarray(x, dtype=np.float64)


# ── what attention did, from the whole matrix of weights ──────────────────────────────────────


def entropy(weights: ArrayLike) -> Array:
    """−Σⱼ wⱼ ln wⱼ of each row, in nats: (…, Nq). 0 for a row on one key, ln Nk for a flat one.

    >>> entropy([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).round(4)
    array([0.6931, 0.    ])
    """
    weights = _float64(weights)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights != 0)
    return np.abs(-(weights * logs).sum(axis=-1))


def top(
    weights: ArrayLike, count: int, allowed: ArrayLike | None = None
) -> tuple[NDArray[np.int64], Array]:
    """The `count` strongest keys of each row and their weights, strongest first: (…, Nq, count).

    Where a row has fewer keys, −1 and 0. `allowed` says which keys count; without it, all do.

    >>> keys, strongest = top([[0.2, 0.7, 0.1]], 2)
    >>> keys.tolist(), strongest.tolist()
    ([[1, 0]], [[0.7, 0.2]])
    """
    weights = _float64(weights)
    ok = np.ones(weights.shape, bool) if allowed is None else np.asarray(allowed, dtype=bool)
    ok = np.broadcast_to(ok, weights.shape)
    strength = np.where(np.isnan(weights), np.inf, weights)  # a NaN comes first, not unseen last
    order = np.argsort(np.where(ok, -strength, np.inf), axis=-1, kind="stable")[..., :count]
    found = np.take_along_axis(ok, order, axis=-1)
    keys = np.where(found, order, -1)
    strongest = np.where(found, np.take_along_axis(weights, order, axis=-1), 0.0)
    missing = [(0, 0)] * (weights.ndim - 1) + [(0, count - order.shape[-1])]
    return np.pad(keys, missing, constant_values=-1), np.pad(strongest, missing)


def max_logit(logits: ArrayLike, allowed: ArrayLike | None = None) -> Array:
    """The largest logit of each row, (…, Nq): −inf for a row without a key.

    `allowed` says which keys count; without it, all do.

    >>> max_logit([[0.2, 0.7], [3.0, 9.0]], [[True, True], [True, False]]).tolist()
    [0.7, 3.0]
    """
    logits = _float64(logits)
    ok = np.ones(logits.shape, bool) if allowed is None else np.asarray(allowed, dtype=bool)
    return np.where(ok, logits, -np.inf).max(axis=-1, initial=-np.inf)


def contribution(
    weights: ArrayLike, norms: ArrayLike, count: int, allowed: ArrayLike | None = None
) -> tuple[NDArray[np.int64], Array]:
    """The `count` keys of each row that move the output most, and their wⱼ ‖vⱼ‖, largest first.

    `norms` are those of the values, (…, Nk). A key whose value is 0 moves nothing, and is not
    named; one whose value is not finite comes first. Otherwise as `top`.

    >>> keys, sizes = contribution([[0.2, 0.7, 0.1]], [4.0, 1.0, 0.0], 3)
    >>> keys.tolist(), sizes.tolist()
    ([[0, 1, -1]], [[0.8, 0.7, 0.0]])
    """
    weights, norms = _float64(weights), _float64(norms)[..., None, :]
    ok = np.ones(weights.shape, bool) if allowed is None else np.asarray(allowed, dtype=bool)
    finite = np.where(np.isfinite(norms), norms, np.nan)
    return top(weights * finite, count, np.broadcast_to(ok, weights.shape) & (norms != 0))


def spans(weights: ArrayLike, labels: ArrayLike, count: int | None = None) -> Array:
    """Σ wⱼ over the keys of each span, (…, Nq, S): key j is in span labelsⱼ, in none if that is −1.

    `labels` is (Nk,), or (B, Nk) for weights (B, H, Nq, Nk); S is `count`, or 1 + the largest.

    >>> spans([[0.5, 0.2, 0.3]], [1, 0, 1]).tolist()
    [[0.2, 0.8]]
    """
    weights, of = _float64(weights), np.asarray(labels, dtype=np.int64)
    count = int(of.max(initial=-1)) + 1 if count is None else count
    of = of[:, None, None] if of.ndim == 2 else of
    inside = (np.where(of == s, weights, 0.0).sum(axis=-1) for s in range(count))
    return np.stack([*inside], axis=-1) if count else np.zeros((*weights.shape[:-1], 0))


def pooled_map(
    weights: ArrayLike,
    shape: tuple[int, int],
    *,
    allowed: ArrayLike | None = None,
    queries: ArrayLike | None = None,
) -> Array:
    """A picture of the weights, (…, R, C): how much the queries of a bin look at each key bin.

    Query i is in row ⌊i·R/Nq⌋, key j in column ⌊j·C/Nk⌋. A row is the mean over its queries that
    have a key (`allowed`) and count (`queries`, (…, Nq) bool), so it sums to 1; without any, 0.

    >>> pooled_map([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0]], (1, 2))
    array([[1., 0.]])
    """
    weights = _float64(weights)
    n_queries, n_keys = weights.shape[-2:]
    rows, columns = shape
    counts = np.ones(weights.shape[:-1], dtype=bool)
    if allowed is not None:
        counts = counts & np.asarray(allowed, dtype=bool).any(axis=-1)
    if queries is not None:
        counts = counts & _of_queries(queries, weights)
    of_row = np.arange(n_queries) * rows // max(n_queries, 1)
    of_column = np.arange(n_keys) * columns // max(n_keys, 1)
    counted = np.where(counts[..., None], weights, 0.0)
    number = np.stack([counts[..., of_row == r].sum(axis=-1) for r in range(rows)], axis=-1)
    bands = np.stack([counted[..., of_row == r, :].sum(axis=-2) for r in range(rows)], axis=-2)
    total = np.stack([bands[..., of_column == c].sum(axis=-1) for c in range(columns)], axis=-1)
    return total / np.maximum(number, 1)[..., None]


def received(weights: ArrayLike, queries: ArrayLike | None = None) -> Array:
    """Σᵢ wᵢⱼ: how much weight each key received from all queries that count, (…, Nk).

    >>> received([[0.5, 0.5], [1.0, 0.0]]).tolist()
    [1.5, 0.5]
    """
    weights = _float64(weights)
    if queries is not None:
        weights = np.where(_of_queries(queries, weights)[..., None], weights, 0.0)
    return weights.sum(axis=-2)


def _of_queries(queries: ArrayLike, weights: Array) -> Mask:
    """Which queries count, (B, Nq) for all heads alike, so that it broadcasts to (B, H, Nq)."""
    counted = np.asarray(queries, dtype=bool)
    return counted[:, None] if counted.ndim == 2 and weights.ndim == 4 else counted


def distance(
    weights: ArrayLike, position: int | None = None, segments: Segments | None = None
) -> Array:
    """Σⱼ wⱼ |p − j|: how far from its own position a query looks, on average, (…, Nq).

    Query i stands at p = i + `position`, which is Nk − Nq unless given, and so in its segment, if
    `segments` are given as `allowed_keys` takes them, for weights (…, H, Nq, Nk).

    >>> distance([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]).tolist()
    [0.0, 1.0, 0.0]
    """
    weights = _float64(weights)
    n_queries, n_keys = weights.shape[-2:]
    away = np.abs(_ahead(n_queries, n_keys, position, segments))
    return (weights * (away if segments is None else away[..., None, :, :])).sum(axis=-1)


# ── several heads ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MultiHead:
    """Attention in several heads: each head's (H, …, N, ·), then side by side, then mixed."""

    query: Array
    key: Array
    value: Array
    heads: Attention
    concatenated: Array
    output: Array


def multi_head(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    *,
    context: ArrayLike | None = None,
    split: Literal["project", "slice"] = "project",
    causal: bool = False,
    mask: ArrayLike | None = None,
    scale: float | None = None,
) -> MultiHead:
    """Concat(head₁ … head_H) W_O, with headₕ = attention(X W_Qₕ, C W_Kₕ, C W_Vₕ).

    `x` (N, d_model). `w_q`, `w_k` (H, d_in, D) and `w_v` (H, d_in, Dv) hold one matrix a head;
    `w_o` is (H·Dv, d_model). The context C is X itself, or in cross-attention another sequence.

    `split` is how a head gets its input. "project": every head sees the whole of X, and
    d_in = d_model. "slice": head h sees only its own d_model/H columns of X, and d_in = d_model/H.

    >>> eye = np.eye(2)[None]
    >>> multi_head([[1.0, 0.0]], eye, eye, eye, np.eye(2)).output
    array([[1., 0.]])
    """
    w_q, w_k, w_v, w_o = (_float64(w) for w in (w_q, w_k, w_v, w_o))
    x = _float64(x)
    n_heads = len(w_q)
    if not n_heads == len(w_k) == len(w_v):
        raise ValueError(
            "multi_head(): w_q, w_k and w_v must have one matrix a head each; "
            f"got {w_q.shape}, {w_k.shape} and {w_v.shape}."
        )
    x_heads = _inputs_of_heads(x, n_heads, split)
    c_heads = x_heads if context is None else _inputs_of_heads(_float64(context), n_heads, split)
    query = np.stack([x_heads[h] @ w_q[h] for h in range(n_heads)])
    key = np.stack([c_heads[h] @ w_k[h] for h in range(n_heads)])
    value = np.stack([c_heads[h] @ w_v[h] for h in range(n_heads)])
    heads = attention(query, key, value, causal=causal, mask=mask, scale=scale)
    concatenated = np.concatenate(list(heads.output), axis=-1)
    return MultiHead(query, key, value, heads, concatenated, concatenated @ w_o)


def _inputs_of_heads(x: Array, n_heads: int, split: str) -> list[Array]:
    if split == "project":
        return [x] * n_heads
    if split != "slice":
        raise ValueError(f"multi_head(): split must be 'project' or 'slice'; got {split!r}.")
    if x.shape[-1] % n_heads:
        raise ValueError(
            f"multi_head(): {n_heads} heads cannot share {x.shape[-1]} columns equally. "
            "With split='slice' the width must be a multiple of the number of heads."
        )
    return np.split(x, n_heads, axis=-1)


def low_rank_value(x: ArrayLike, v_down: ArrayLike, v_up: ArrayLike) -> Array:
    """V = X · V_down · V_up, with V_down (d_model, d_k) and V_up (d_k, d_model).

    That is a value of full width from 2 · d_k · d_model parameters instead of d_model².

    >>> low_rank_value([[1.0, 2.0]], [[1.0], [1.0]], [[1.0, -1.0]])
    array([[ 3., -3.]])
    """
    return _float64(x) @ _float64(v_down) @ _float64(v_up)


# ── what stands around attention ──────────────────────────────────────────────────────────────


def sinusoidal(n: int, width: int, base: float = 10_000.0) -> Array:
    """Positions as waves, (n, width): sin and cos of p / base^(2i/width) in columns 2i, 2i + 1.

    >>> sinusoidal(2, 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]])
    """
    column = np.arange(width)
    angle = np.arange(n)[:, None] / base ** (2 * (column // 2) / max(width, 1))
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def layer_norm(
    x: ArrayLike, gain: ArrayLike = 1.0, shift: ArrayLike = 0.0, epsilon: float = 1e-5
) -> Array:
    """(x − mean) / √(variance + ε) · gain + shift, over the last axis.

    >>> layer_norm([1.0, 3.0], epsilon=0.0)
    array([-1.,  1.])
    """
    x = _float64(x)
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * _float64(gain) + _float64(shift)


def feed_forward(
    x: ArrayLike, w_in: ArrayLike, b_in: ArrayLike, w_out: ArrayLike, b_out: ArrayLike
) -> Array:
    """max(0, X W_in + b_in) W_out + b_out: the same two layers on every token by itself.

    >>> feed_forward([[1.0, -1.0]], np.eye(2), 0.0, np.eye(2), 0.5)
    array([[1.5, 0.5]])
    """
    hidden = np.maximum(0.0, _float64(x) @ _float64(w_in) + _float64(b_in))
    return hidden @ _float64(w_out) + _float64(b_out)


Sublayer = Callable[[Array], Array]
Arrangement = Literal["post", "pre", "notes"]


def encoder_layer(
    x: ArrayLike,
    attend: Sublayer,
    refine: Sublayer,
    *,
    arrangement: Arrangement = "post",
    norms: Sequence[Sublayer] = (layer_norm, layer_norm),
) -> Array:
    """One encoder layer: attention makes the context, the feed-forward layer refines it.

    `attend` and `refine` map (N, d_model) to (N, d_model). Three arrangements:

    - "post" (Vaswani): h = Norm₁(X + Attend(X)); Norm₂(h + Refine(h))
    - "pre": h = X + Attend(Norm₁(X)); h + Refine(Norm₂(h))
    - "notes": a = Attend(X); Norm₁(Refine(a) + a), with no way round attention for X itself

    >>> encoder_layer([[1.0, 3.0]], lambda x: 0 * x, lambda x: 0 * x, arrangement="pre")
    array([[1., 3.]])
    """
    x = _float64(x)
    if arrangement == "post":
        h = norms[0](x + attend(x))
        return norms[1](h + refine(h))
    if arrangement == "pre":
        h = x + attend(norms[0](x))
        return h + refine(norms[1](h))
    if arrangement == "notes":
        a = attend(x)
        return norms[0](refine(a) + a)
    raise ValueError(
        f"encoder_layer(): arrangement must be 'post', 'pre' or 'notes'; got {arrangement!r}."
    )


def decoder_layer(
    x: ArrayLike,
    memory: ArrayLike,
    attend: Sublayer,
    attend_memory: Callable[[Array, Array], Array],
    refine: Sublayer,
    *,
    arrangement: Literal["post", "pre"] = "post",
    norms: Sequence[Sublayer] = (layer_norm, layer_norm, layer_norm),
) -> Array:
    """One decoder layer: (masked) self-attention, attention on the encoder's output, refinement.

    `attend_memory(h, memory)` takes its queries from h and its keys and values from `memory`.
    Each of the three has a residual around it, and a norm after ("post") or before it ("pre").

    >>> still = lambda x, *memory: 0 * x
    >>> decoder_layer([[1.0, 3.0]], [[0.0, 0.0]], still, still, still, arrangement="pre")
    array([[1., 3.]])
    """
    h, memory = _float64(x), _float64(memory)
    sublayers = (attend, lambda h: attend_memory(h, memory), refine)
    for sublayer, norm in zip(sublayers, norms, strict=True):
        if arrangement == "post":
            h = norm(h + sublayer(h))
        elif arrangement == "pre":
            h = h + sublayer(norm(h))
        else:
            raise ValueError(
                f"decoder_layer(): arrangement must be 'post' or 'pre'; got {arrangement!r}."
            )
    return h
