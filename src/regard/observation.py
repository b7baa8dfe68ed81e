"""See, what to look at; Observation, what was seen; and how the parts of one are put together."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

__all__ = ["Observation", "See", "merge"]


@dataclass(frozen=True)
class See:
    """What attention is to report. The log-sum-exp always comes with it.

    - `entropy`: of each query's weights
    - `top`: how many of the strongest keys of each query
    - `map`: (rows, columns) of a picture of all weights
    - `received`: the weight that each key received from all queries; costs a second pass
    - `distance`: how far from its own position each query looks, on average
    - `queries`: (B, Nq) bool, which queries count in `map` and `received`; the output and all else
      are unaffected. Padding should not count.

    >>> See(entropy=True, top=8, map=(128, 128))
    See(entropy=True, top=8, map=(128, 128), received=False, distance=False, queries=None)
    """

    entropy: bool = False
    top: int = 0
    map: tuple[int, int] | None = None
    received: bool = False
    distance: bool = False
    queries: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("entropy", "received", "distance"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(
                    f"See(): {name} must be True or False; got {getattr(self, name)!r}. "
                    "bool(…) makes it one of them."
                )
        if not _is_count(self.top, least=0):
            raise ValueError(
                f"See(): top must be a whole number, 0 or more; got {self.top!r}. "
                "It is how many of the strongest keys of each query are named."
            )
        shape, queries = cast("object", self.map), cast("object", self.queries)
        if shape is not None and not (
            isinstance(shape, tuple) and len(shape) == 2 and all(_is_count(n, 1) for n in shape)
        ):
            raise ValueError(
                f"See(): map must be (rows, columns), each 1 or more, or None; got {shape!r}. "
                "It is the size of the picture."
            )
        if queries is not None:
            if not isinstance(queries, Tensor) or queries.dtype != torch.bool:
                found = getattr(queries, "dtype", type(queries).__name__)
                raise TypeError(
                    f"See(): queries must be a boolean tensor; got {found}. "
                    "It is True for each query that counts in map and received."
                )
            if queries.dim() != 2:
                raise ValueError(
                    f"See(): queries must be (B, Nq); got {tuple(queries.shape)}. "
                    "A query counts for all heads, or for none."
                )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True, eq=False)
class Observation:
    """What attention looked at; None where it was not asked for. No gradient flows through it.

    All are float32, or float64 for float64 inputs, and of the weights before dropout. A query
    without a key has lse −inf, entropy and distance 0, and top keys −1 with weight 0.

    >>> import regard
    >>> q = k = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, k, k, scale=9.0, see=See(top=2, received=True))
    >>> seen.top_keys[0, 0].tolist(), seen.received[0, 0].round(decimals=3).tolist()
    ([[0, 1], [1, 0], [2, 0]], [1.0, 1.0, 1.0])
    """

    lse: Tensor  # (B, H, Nq) log-sum-exp of the scores, sink included, natural log
    entropy: Tensor | None = None  # (B, H, Nq) −Σ w ln w over the keys, nats
    top_keys: Tensor | None = None  # (B, H, Nq, top) int64, strongest first, −1 where there is none
    top_weights: Tensor | None = None  # (B, H, Nq, top)
    map: Tensor | None = None  # (B, H, R, C) mean over the queries of a row of their weights
    received: Tensor | None = None  # (B, H, Nk) sum over the queries of their weight on each key
    distance: Tensor | None = None  # (B, H, Nq) Σ w |p − j|
    n_keys: int = 0  # Nk
    position: int | None = None  # query i stood at i + position
    sinks: Tensor | None = None  # (H,) the sinks that took their share


Part = tuple[Tensor, Observation]


def merge(
    parts: Sequence[Part],
    *,
    over: Literal["queries", "keys"] = "queries",
    starts: Sequence[int] | None = None,
) -> Part:
    """Put the parts of one attention together: their outputs, and what was seen of each.

    A part is what `regard.attention(…, see=…)` returns for some of the queries, or some of the
    keys, with the same `see`. `starts` says where each part begins, so that they may come in any
    order; without it they follow one another.

    Over **queries** everything merges. Parts may know different numbers of keys, all from key 0 on,
    as the chunks of a prompt do; the keys that a part does not know received nothing from it. Maps
    are stacked, which is the map of the whole if the parts have the same number of queries a row,
    Nq / R, and the same keys; others are refused.

    Over **keys** the weights of part p shrink by αₚ = exp(lseₚ − lse), lse = ln Σₚ exp(lseₚ), so

        output = Σ αₚ outputₚ      distance = Σ αₚ distanceₚ
        entropy = Σ αₚ (entropyₚ − massₚ ln αₚ), massₚ being the sum of the part's weights: 1,
                  or what its sink leaves

    and the strongest keys are among those of the parts. Positions must be those of the whole:
    `attention(q, k[:, :, a:b], …, position=position - a)`. Sinks are to be given to one part only,
    or they are counted twice. Map and received need the lse of the whole row: make them from q and
    k with the merged lse, by `regard.pooled`.

    >>> import regard
    >>> q, k = torch.randn(1, 2, 5, 3), torch.randn(1, 2, 7, 3)
    >>> see = See(entropy=True, top=2)
    >>> parts = [regard.attention(q, x, x, see=see) for x in k.split([4, 3], dim=2)]
    >>> out, seen = merge(parts, over="keys")
    >>> torch.allclose(out, regard.attention(q, k, k), atol=1e-6)
    True
    """
    parts = list(parts)
    if over not in ("queries", "keys"):
        raise ValueError(
            f"merge(): over must be 'queries' or 'keys'; got {over!r}. "
            "It is what the parts have different ones of."
        )
    if not parts:
        raise ValueError(
            "merge(): parts must hold at least one pair (output, Observation); got none. "
            "regard.attention(…, see=…) returns one."
        )
    for name in ("entropy", "top_keys", "map", "received", "distance"):
        if len({getattr(seen, name) is None for _, seen in parts}) > 1:
            raise ValueError(
                f"merge(): {name} must be in all parts or in none; got some. "
                "Make all of them with the same see."
            )
    if len({0 if seen.top_keys is None else seen.top_keys.shape[-1] for _, seen in parts}) > 1:
        raise ValueError(
            "merge(): all parts must have the same number of top keys; got different ones. "
            "Make all of them with the same see."
        )
    lengths = [out.shape[2] if over == "queries" else seen.n_keys for out, seen in parts]
    starts = _starts(starts, lengths, over)
    order = sorted(range(len(parts)), key=lambda part: (starts[part], lengths[part]))
    ordered, firsts = [parts[part] for part in order], [starts[part] for part in order]
    ends = [starts[part] + lengths[part] for part in order]
    for end, first in zip(ends, firsts[1:], strict=False):
        if first < end or (over == "queries" and first > end):
            raise ValueError(
                f"merge(): parts must not overlap{' or leave holes' if over == 'queries' else ''}; "
                f"got one that ends at {end}, and next one that starts at {first}. "
                f"starts=… says which of the {over} is the first of each part."
            )
    if over == "queries":
        return _merge_queries(ordered, firsts)
    return _merge_keys(ordered, firsts, ends[-1])


def _starts(starts: Sequence[int] | None, lengths: list[int], over: str) -> list[int]:
    if starts is None:
        return [sum(lengths[:part]) for part in range(len(lengths))]
    starts = [operator.index(start) for start in starts]
    if len(starts) != len(lengths) or min(starts) < 0:
        raise ValueError(
            f"merge(): starts must be {len(lengths)} numbers of 0 or more; got {starts}. "
            f"Each says which of the {over} is the first of its part."
        )
    return starts


# ── over queries ──────────────────────────────────────────────────────────────────────────────


def _merge_queries(parts: list[Part], starts: list[int]) -> Part:
    seen = [seen for _, seen in parts]
    batch_heads = {tuple(out.shape[:2]) + tuple(out.shape[3:]) for out, _ in parts}
    if len(batch_heads) > 1:
        raise ValueError(
            "merge(): over queries, outputs must be (B, H, ·, Dv) with the same B, H and Dv; "
            f"got {', '.join(str(tuple(out.shape)) for out, _ in parts)}. "
            "They are parts of one attention."
        )
    first = starts[0]
    position = _common_position(seen, [first - start for start in starts])

    def side_by_side(name: str) -> Tensor | None:
        tensors = [getattr(part, name) for part in seen]
        return None if tensors[0] is None else torch.cat(tensors, dim=2)

    lse = side_by_side("lse")
    assert lse is not None
    return torch.cat([out for out, _ in parts], dim=2), Observation(
        lse=lse,
        entropy=side_by_side("entropy"),
        top_keys=side_by_side("top_keys"),
        top_weights=side_by_side("top_weights"),
        map=_stacked_maps(seen),
        received=_added_received(seen),
        distance=side_by_side("distance"),
        n_keys=max(part.n_keys for part in seen),
        position=position,
        sinks=seen[0].sinks,
    )


def _stacked_maps(seen: list[Observation]) -> Tensor | None:
    maps = [part.map for part in seen if part.map is not None]
    if not maps:
        return None
    # Query a + i falls in row ⌊(a + i)·R/Nq⌋, which is ⌊a·R/Nq⌋ + ⌊i·Rₚ/Nₚ⌋ if Rₚ/Nₚ = R/Nq.
    queries, rows = [part.lse.shape[2] for part in seen], [map.shape[2] for map in maps]
    if any(n * rows[0] != queries[0] * r for n, r in zip(queries, rows, strict=True)):
        raise ValueError(
            "merge(): maps can be stacked only if each has the same number of queries a row; got "
            + ", ".join(f"{n} queries in {r} rows" for n, r in zip(queries, rows, strict=True))
            + ". Give each part a map with rows in proportion to its queries, or use regard.pooled."
        )
    if len({(map.shape[3], part.n_keys) for map, part in zip(maps, seen, strict=True)}) > 1:
        raise ValueError(
            "merge(): maps can be stacked only if their columns are the same keys; got "
            + ", ".join(
                f"{part.n_keys} keys in {map.shape[3]} columns"
                for map, part in zip(maps, seen, strict=True)
            )
            + ". Make it from q and k with the merged lse by regard.pooled."
        )
    return torch.cat(maps, dim=2)


def _added_received(seen: list[Observation]) -> Tensor | None:
    parts = [part.received for part in seen if part.received is not None]
    if not parts:
        return None
    total = parts[0].new_zeros(*parts[0].shape[:2], max(part.shape[2] for part in parts))
    for part in parts:
        total[:, :, : part.shape[2]] += part
    return total


def _common_position(seen: list[Observation], shifts: list[int]) -> int | None:
    """Where query 0 of the whole stands, None if the parts differ: then it must not matter."""
    positions = {
        None if part.position is None else part.position + shift
        for part, shift in zip(seen, shifts, strict=True)
    }
    if len(positions) == 1:
        return positions.pop()
    if seen[0].distance is not None:
        raise ValueError(
            "merge(): distances must be from the positions of one whole; got parts that do not fit "
            f"together, at positions {', '.join(str(part.position) for part in seen)}. "
            "Give each part its own position=… in regard.attention."
        )
    return None


# ── over keys ─────────────────────────────────────────────────────────────────────────────────


def _merge_keys(parts: list[Part], starts: list[int], n_keys: int) -> Part:
    seen = [seen for _, seen in parts]
    for name in ("map", "received"):
        if getattr(seen[0], name) is not None:
            raise ValueError(
                f"merge(): over keys, parts must be without {name}, which needs the lse of the "
                f"whole row; got parts with it. Leave it out of see, and make it from q and k with "
                "the merged lse by regard.pooled(q, k, lse=seen.lse, …)."
            )
    if len({tuple(out.shape) for out, _ in parts}) > 1:
        raise ValueError(
            "merge(): over keys, outputs must be (B, H, Nq, Dv) and alike; "
            f"got {', '.join(str(tuple(out.shape)) for out, _ in parts)}. "
            "They are parts of one attention."
        )
    sinks = [part.sinks for part in seen if part.sinks is not None]
    if len(sinks) > 1:
        raise ValueError(
            f"merge(): one part at most may have sinks; got {len(sinks)}. "
            "They would be counted as often: give them to one part only."
        )
    if torch.is_grad_enabled() and any(out.requires_grad for out, _ in parts):
        raise ValueError(
            "merge(): over keys, outputs must want no gradient, as there is none for lse; got some "
            "that do. Detach them, or merge under torch.no_grad()."
        )
    position = _common_position(seen, starts)
    lses = torch.stack([part.lse for part in seen])  # (P, B, H, Nq)
    lse = _merged_lse(lses, seen)
    alpha = torch.exp(lses - lse.masked_fill(lse == -torch.inf, 0.0))
    outputs = torch.stack([out for out, _ in parts]).to(lse.dtype)
    top_keys, top_weights = _strongest(seen, starts, alpha)
    return (alpha[..., None] * outputs).sum(0).to(parts[0][0].dtype), Observation(
        lse=lse,
        entropy=_merged_entropy(seen, alpha),
        top_keys=top_keys,
        top_weights=top_weights,
        distance=_weighted([part.distance for part in seen], alpha),
        n_keys=n_keys,
        position=position,
        sinks=sinks[0] if sinks else None,
    )


def _merged_lse(lses: Tensor, seen: list[Observation]) -> Tensor:
    """ln Σₚ exp(lseₚ), with the sink once, though the part that was given it may have no key."""
    logits = list(lses)
    for part in seen:
        if part.sinks is not None:
            sinks = part.sinks.to(lses.dtype)[:, None].expand_as(part.lse)
            logits.append(sinks.masked_fill(part.lse != -torch.inf, -torch.inf))
    lse = torch.logsumexp(torch.stack(logits), dim=0)
    return lse.masked_fill((lses == -torch.inf).all(0), -torch.inf)


def _weighted(parts: list[Tensor | None], alpha: Tensor) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return (alpha * torch.stack(present)).sum(0) if present else None


def _merged_entropy(seen: list[Observation], alpha: Tensor) -> Tensor | None:
    total = _weighted([part.entropy for part in seen], alpha)
    if total is None:
        return None
    for part, spread in zip(seen, torch.special.entr(alpha), strict=True):  # −α ln α, 0 for α = 0
        if part.sinks is not None:
            sink = part.sinks.to(alpha.dtype)[:, None] - part.lse  # ln of the sink's weight
            mass = -torch.expm1(sink.masked_fill(part.lse == -torch.inf, -torch.inf))
            spread = mass * spread
        total = total + spread
    return total.abs()


def _strongest(
    seen: list[Observation], starts: list[int], alpha: Tensor
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    keys: list[Tensor] = []
    weights: list[Tensor] = []
    for part, start, share in zip(seen, starts, alpha, strict=True):
        if part.top_keys is None or part.top_weights is None:
            return None, None
        real = part.top_keys >= 0
        keys.append(torch.where(real, part.top_keys + start, -1))
        # What is missing is sorted behind a key whose weight has become 0.
        weights.append(torch.where(real, part.top_weights * share[..., None], -1.0))
    count = keys[0].shape[-1]
    all_keys, all_weights = torch.cat(keys, dim=-1), torch.cat(weights, dim=-1)
    strongest, order = all_weights.sort(dim=-1, descending=True, stable=True)
    best = all_keys.gather(-1, order[..., :count])
    return best, torch.where(best >= 0, strongest[..., :count], 0.0)
