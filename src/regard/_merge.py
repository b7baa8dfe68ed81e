"""`regard.merge`: the parts of one attention, over queries or over keys, put together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from regard._arguments import NOT_A_NUMBER, shown
from regard.observation import Observation

_LAST_START = 2**40

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
    >>> see = regard.See(entropy=True, top=2)
    >>> parts = [regard.attention(q, x, x, see=see) for x in k.split([4, 3], dim=2)]
    >>> out, seen = merge(parts, over="keys")
    >>> torch.allclose(out, regard.attention(q, k, k), atol=1e-6)
    True
    """
    if over not in ("queries", "keys"):
        raise ValueError(
            f"merge(): over must be 'queries' or 'keys'; got {shown(over)}. "
            "It is what the parts have different ones of."
        )
    parts = _check_parts(parts)
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
    try:
        found = [operator.index(start) for start in starts]
    except NOT_A_NUMBER:
        found = []
    if len(found) != len(lengths) or not 0 <= min(found) <= max(found) <= _LAST_START:
        raise ValueError(
            f"merge(): starts must be {len(lengths)} whole numbers from 0 to 2**40; "
            f"got {shown(starts)}. Each says which of the {over} is the first of its part."
        )
    return found


# ── are these parts? ──────────────────────────────────────────────────────────────────────────


def _check_parts(parts: object) -> list[Part]:
    """The parts, each of which is in order, all in the same types and on the same device."""
    if isinstance(parts, Tensor | Observation) or not isinstance(parts, Iterable):
        raise TypeError(
            "merge(): parts must be a list of pairs (output, Observation); got "
            f"{type(parts).__name__}. regard.attention(…, see=…) returns such a pair."
        )
    checked = [_check_part(n, part) for n, part in enumerate(parts)]
    for name in ("output", *_FIELDS):
        tensors = [
            x
            for out, seen in checked
            if (x := out if name == "output" else getattr(seen, name)) is not None
        ]
        kinds = [(x.dtype, x.device) for x in tensors]
        if any(kind != kinds[0] for kind in kinds):
            raise TypeError(
                f"merge(): {name} must have the same type and device in all parts; got "
                f"{', '.join(f'{dtype} on {device}' for dtype, device in kinds)}. "
                "They are parts of one attention: .to(…) converts what is not."
            )
    return checked


# The axes that each field of an Observation shares with the output (B, H, Nq, Dv), and how many
# others follow.
_FIELDS = {
    "lse": (3, 0),
    "entropy": (3, 0),
    "distance": (3, 0),
    "top_keys": (3, 1),
    "top_weights": (3, 1),
    "map": (2, 2),
    "received": (2, 1),
}


def _check_part(n: int, part: object) -> Part:
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise TypeError(
            "merge(): each of parts must be a pair (output, Observation); got "
            f"{type(part).__name__} for part {n}. A single part is merge([part])."
        )
    out, seen = part
    if not isinstance(out, Tensor) or not isinstance(seen, Observation):
        raise TypeError(
            "merge(): each of parts must be a pair (output, Observation); got "
            f"({type(out).__name__}, {type(seen).__name__}) for part {n}. "
            "regard.attention(…, see=…) returns such a pair."
        )
    if out.is_nested or out.layout != torch.strided or out.dim() != 4:
        found = f"{out.dim()} axes, {out.layout}{', nested' if out.is_nested else ''}"
        raise ValueError(
            f"merge(): outputs must be (B, H, Nq, Dv), four axes, dense; got {found} for part {n}. "
            "It is what regard.attention(…, see=…) returns."
        )
    for name, (shared, more) in _FIELDS.items():
        _check_field(n, name, getattr(seen, name), out, shared, more)
    sizes = [None if x is None else tuple(x.shape) for x in (seen.top_keys, seen.top_weights)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"merge(): top_keys and top_weights must have the same shape; got {sizes[0]} and "
            f"{sizes[1]} for part {n}. See(top=…) asks for both."
        )
    if seen.sinks is not None and tuple(seen.sinks.shape) != (out.shape[1],):
        raise ValueError(
            f"merge(): sinks must be (H,) = ({out.shape[1]},); got {tuple(seen.sinks.shape)} for "
            f"part {n}. They are what was given to regard.attention(…, sinks=…)."
        )
    return out, seen


def _check_field(n: int, name: str, x: object, out: Tensor, shared: int, more: int) -> None:
    if x is None and name != "lse":
        return
    expected = (*(str(size) for size in out.shape[:shared]), *("·" for _ in range(more)))
    shown_shape = f"({', '.join(expected)})"
    if not isinstance(x, Tensor):
        raise TypeError(
            f"merge(): {name} must be a torch.Tensor {shown_shape}; got {type(x).__name__} for "
            f"part {n}. It is what regard.attention(…, see=…) reports."
        )
    if x.dim() != shared + more or x.shape[:shared] != out.shape[:shared]:
        raise ValueError(
            f"merge(): {name} must be {shown_shape}, as its output {tuple(out.shape)} is; got "
            f"{tuple(x.shape)} for part {n}. Output and Observation must be of one call."
        )
    if x.device != out.device:
        raise ValueError(
            f"merge(): {name} must be on its output's device {out.device}; got {x.device} for part "
            f"{n}. {name}.to(…) moves it."
        )


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
