"""`regard.merge`: the parts of one attention, over queries or over keys, put together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

from regard._arguments import NOT_A_NUMBER, shown
from regard.observation import FIELDS, Observation

_LAST_START = 2**40

Part = tuple[Tensor, Observation]

_LISTS = (("top_keys", "top_weights"), ("contribution_keys", "contribution"))


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

        output = Σ αₚ outputₚ      distance = Σ αₚ distanceₚ      spans = Σ αₚ spansₚ
        entropy = Σ αₚ (entropyₚ − massₚ ln αₚ), massₚ being the sum of the part's weights: 1,
                  or what its sink leaves

    and the strongest keys are among those of the parts, as are those that contribute most; the
    largest logit is the largest of the parts'. Spans of a part that has fewer are the first ones.
    Positions must be those of the whole:
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
    given = cast("object", parts)
    if isinstance(given, Tensor | Observation) or not isinstance(given, Iterable):
        raise TypeError(
            "merge(): parts must be a list of pairs (output, Observation); got "
            f"{type(parts).__name__}. regard.attention(…, see=…) returns such a pair."
        )
    parts = [_check_part(n, part) for n, part in enumerate(given)]
    if not parts:
        raise ValueError(
            "merge(): parts must hold at least one pair (output, Observation); got none. "
            "regard.attention(…, see=…) returns one."
        )
    _check_alike(parts)
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


# ── are these parts? ──────────────────────────────────────────────────────────────────────────


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


def _check_part(n: int, part: object) -> Part:
    """Part n, whose observation fits its output."""
    match part:
        case (Tensor() as out, Observation() as seen):
            pass
        case _:
            found = type(part).__name__
            if isinstance(part, tuple | list) and len(part) == 2:
                found = f"({', '.join(type(each).__name__ for each in part)})"
            raise TypeError(
                "merge(): each of parts must be a pair (output, Observation); got "
                f"{found} for part {n}. regard.attention(…, see=…) returns such a pair, and a "
                "single part is merge([part])."
            )
    if out.is_nested or out.layout != torch.strided or out.dim() != 4:
        found = f"{out.dim()} axes, {out.layout}{', nested' if out.is_nested else ''}"
        raise ValueError(
            f"merge(): outputs must be (B, H, Nq, Dv), four axes, dense; got {found} for part {n}. "
            "It is what regard.attention(…, see=…) returns."
        )
    sizes: dict[str, int] = dict(zip(("B", "H", "Nq"), out.shape, strict=False))
    needed = {"lse"}
    for pair in _LISTS:  # See(top=…) asks for both
        if any(getattr(seen, name) is not None for name in pair):
            needed |= set(pair)
    fields = {name: axes for name, (axes, _) in FIELDS.items()} | {"sinks": ("H",)}
    for name, axes in fields.items():
        x: object = getattr(seen, name)
        if x is None and name not in needed:
            continue
        expected = ", ".join(str(sizes.get(axis, "·")) for axis in axes)
        expected = f"({expected},)" if len(axes) == 1 else f"({expected})"
        if not isinstance(x, Tensor):
            raise TypeError(
                f"merge(): {name} must be a torch.Tensor {expected}; got {type(x).__name__} for "
                f"part {n}. It is what regard.attention(…, see=…) reports."
            )
        if x.dim() != len(axes) or any(
            sizes.get(axis, size) != size for axis, size in zip(axes, x.shape, strict=True)
        ):
            raise ValueError(
                f"merge(): {name} must be {expected}, beside an output {tuple(out.shape)}; got "
                f"{tuple(x.shape)} for part {n}. Output and Observation must be of one call."
            )
        if x.device != out.device:
            raise ValueError(
                f"merge(): {name} must be on its output's device {out.device}; got {x.device} for "
                f"part {n}. {name}.to(…) moves it."
            )
        sizes |= dict(zip(axes, x.shape, strict=True))
    return out, seen


def _check_alike(parts: list[Part]) -> None:
    """Do all parts have the same tensors, in the same types and on the same device?"""
    outputs = {"output": [out for out, _ in parts]}
    for name, tensors in (outputs | {name: _all(parts, name) for name in FIELDS}).items():
        if 0 < len(tensors) < len(parts):
            raise ValueError(
                f"merge(): {name} must be in all parts or in none; got some. "
                "Make all of them with the same see."
            )
        kinds = [(x.dtype, x.device) for x in tensors]
        if any(kind != kinds[0] for kind in kinds):
            raise TypeError(
                f"merge(): {name} must have the same type and device in all parts; got "
                f"{', '.join(f'{dtype} on {device}' for dtype, device in kinds)}. "
                "They are parts of one attention: .to(…) converts what is not."
            )
    for keys, _ in _LISTS:
        if len({x.shape[-1] for x in _all(parts, keys)}) > 1:
            raise ValueError(
                f"merge(): all parts must have the same number of {keys.replace('_', ' ')}; got "
                "different ones. Make all of them with the same see."
            )


def _all(parts: list[Part], name: str) -> list[Tensor]:
    """What was seen by this name in each part: in all, or in none."""
    return [x for _, seen in parts if (x := getattr(seen, name)) is not None]


def _check_outputs(parts: list[Part], over: str, expected: str, axes: Sequence[int]) -> None:
    """Are the outputs equally long on these axes?"""
    if len({tuple(out.shape[axis] for axis in axes) for out, _ in parts}) > 1:
        raise ValueError(
            f"merge(): over {over}, outputs must be {expected}; "
            f"got {', '.join(str(tuple(out.shape)) for out, _ in parts)}. "
            "They are parts of one attention."
        )


def _common_position(parts: list[Part], shifts: list[int]) -> int | None:
    """Where query 0 of the whole stands, None if the parts differ: then it must not matter."""
    positions = [seen.position for _, seen in parts]
    shifted = {
        None if position is None else position + shift
        for position, shift in zip(positions, shifts, strict=True)
    }
    if len(shifted) == 1:
        return shifted.pop()
    if _all(parts, "distance"):
        raise ValueError(
            "merge(): distances must be from the positions of one whole; got parts that do not fit "
            f"together, at positions {', '.join(str(position) for position in positions)}. "
            "Give each part its own position=… in regard.attention."
        )
    return None


# ── over queries ──────────────────────────────────────────────────────────────────────────────


def _merge_queries(parts: list[Part], starts: list[int]) -> Part:
    _check_outputs(parts, "queries", "(B, H, ·, Dv) with the same B, H and Dv", (0, 1, 3))
    position = _common_position(parts, [starts[0] - start for start in starts])
    _check_maps(parts)
    merged: dict[str, Tensor] = {}
    for name in FIELDS:
        tensors = _all(parts, name)
        if tensors and name == "received":
            # Keys that a part does not know received nothing from it.
            longest = max(x.shape[2] for x in tensors)
            padded = [functional.pad(x, (0, longest - x.shape[2])) for x in tensors]
            merged[name] = sum(padded[1:], padded[0])
        elif tensors:
            merged[name] = torch.cat(_equally_many(tensors) if name == "spans" else tensors, dim=2)
    n_keys = max(seen.n_keys for _, seen in parts)
    seen = Observation(**merged, n_keys=n_keys, position=position, sinks=parts[0][1].sinks)
    return torch.cat([out for out, _ in parts], dim=2), seen


def _check_maps(parts: list[Part]) -> None:
    """Can the maps be stacked?

    Query a + i falls in row ⌊(a + i)·R/Nq⌋, which is ⌊a·R/Nq⌋ + ⌊i·Rₚ/Nₚ⌋ if Rₚ/Nₚ = R/Nq.
    """
    maps = [
        (seen.lse.shape[2], seen.n_keys, *seen.map.shape[2:])
        for _, seen in parts
        if seen.map is not None
    ]
    if any(n * maps[0][2] != maps[0][0] * rows for n, _, rows, _ in maps):
        raise ValueError(
            "merge(): maps can be stacked only if each has the same number of queries a row; got "
            + ", ".join(f"{n} queries in {rows} rows" for n, _, rows, _ in maps)
            + ". Give each part a map with rows in proportion to its queries, or use regard.pooled."
        )
    if len({(n_keys, columns) for _, n_keys, _, columns in maps}) > 1:
        raise ValueError(
            "merge(): maps can be stacked only if their columns are the same keys; got "
            + ", ".join(f"{n_keys} keys in {columns} columns" for _, n_keys, _, columns in maps)
            + ". Make it from q and k with the merged lse by regard.pooled."
        )


# ── over keys ─────────────────────────────────────────────────────────────────────────────────


def _merge_keys(parts: list[Part], starts: list[int], n_keys: int) -> Part:
    for name in ("map", "received"):
        if _all(parts, name):
            raise ValueError(
                f"merge(): over keys, parts must be without {name}, which needs the lse of the "
                f"whole row; got parts with it. Leave it out of see, and make it from q and k with "
                "the merged lse by regard.pooled(q, k, lse=seen.lse, …)."
            )
    _check_outputs(parts, "keys", "(B, H, Nq, Dv) and alike", range(4))
    sinks = _all(parts, "sinks")
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
    position = _common_position(parts, starts)
    lses = torch.stack(_all(parts, "lse"))  # (P, B, H, Nq)
    # The sink counts once, though the part that was given it may have no key.
    logits = list(lses)
    for _, seen in parts:
        if seen.sinks is not None:
            sink = seen.sinks.to(lses.dtype)[:, None].expand_as(seen.lse)
            logits.append(sink.masked_fill(seen.lse != -torch.inf, -torch.inf))
    lse = torch.logsumexp(torch.stack(logits), dim=0)
    lse = lse.masked_fill((lses == -torch.inf).all(0), -torch.inf)
    alpha = torch.exp(lses - lse.masked_fill(lse == -torch.inf, 0.0))
    outputs = torch.stack([out for out, _ in parts]).to(lse.dtype)
    merged: dict[str, Tensor] = {}
    if distances := _all(parts, "distance"):
        merged["distance"] = (alpha * torch.stack(distances)).sum(0)
    if entropies := _all(parts, "entropy"):
        merged["entropy"] = _merged_entropy(parts, (alpha * torch.stack(entropies)).sum(0), alpha)
    if spans := _all(parts, "spans"):
        merged["spans"] = (alpha[..., None] * torch.stack(_equally_many(spans))).sum(0)
    if logits := _all(parts, "max_logit"):
        merged["max_logit"] = torch.stack(logits).amax(0)
    for names in _LISTS:
        if _all(parts, names[0]):
            merged[names[0]], merged[names[1]] = _strongest(parts, names, starts, alpha)
    sink = sinks[0] if sinks else None
    return (alpha[..., None] * outputs).sum(0).to(parts[0][0].dtype), Observation(
        lse, **merged, n_keys=n_keys, position=position, sinks=sink
    )


def _merged_entropy(parts: list[Part], total: Tensor, alpha: Tensor) -> Tensor:
    """The entropies of the parts, and what the shares of the parts add to them."""
    for (_, seen), spread in zip(parts, torch.special.entr(alpha), strict=True):  # −α ln α
        if seen.sinks is not None:
            sink = seen.sinks.to(alpha.dtype)[:, None] - seen.lse  # ln of the sink's weight
            mass = -torch.expm1(sink.masked_fill(seen.lse == -torch.inf, -torch.inf))
            spread = mass * spread
        total = total + spread
    return total.abs()


def _equally_many(spans: list[Tensor]) -> list[Tensor]:
    """The weights on as many spans in each part: on those that one does not know it has none."""
    most = max(x.shape[-1] for x in spans)
    return [functional.pad(x, (0, most - x.shape[-1])) for x in spans]


def _strongest(
    parts: list[Part], names: tuple[str, str], starts: list[int], alpha: Tensor
) -> tuple[Tensor, Tensor]:
    keys, weights = (_all(parts, name) for name in names)
    count = keys[0].shape[-1]
    real = torch.cat(keys, dim=-1) >= 0
    moved = torch.cat([x + start for x, start in zip(keys, starts, strict=True)], dim=-1)
    shrunk = torch.cat([x * share[..., None] for x, share in zip(weights, alpha, strict=True)], -1)
    # What is missing is sorted behind a key whose weight has become 0.
    strongest, order = torch.where(real, shrunk, -1.0).sort(dim=-1, descending=True, stable=True)
    best = torch.where(real, moved, -1).gather(-1, order[..., :count])
    return best, torch.where(best >= 0, strongest[..., :count], 0.0)
