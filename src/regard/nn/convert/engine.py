"""Walks a table of names in either direction, and says at once all that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.nn.convert.rows import Pair, Row, matcher, pairs

__all__ = ["fill", "to_ours", "to_theirs"]


@dataclass
class _Faults:
    """What does not fit, by kind."""

    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)

    def refuse(self, door: str, whose: str) -> None:
        """Raise ValueError if there is any."""
        said = [
            f"{word} {', '.join(sorted(names))}"
            for word, names in (
                ("missing:", self.missing),
                ("not expected:", self.unexpected),
                ("wrong:", self.wrong),
                ("in no row of the table:", self.unlisted),
            )
            if names
        ]
        if said:
            raise ValueError(
                f"{door}(): the tensors must be those of {whose}; {'; '.join(said)}. "
                "The description and the weights must come from one model."
            )


def to_ours(
    door: str,
    whose: str,
    rows: Iterable[Row],
    theirs: Mapping[str, Tensor],
    module: nn.Module,
    *,
    unused: Iterable[str] = (),
    zeros: Iterable[str] = (),
) -> dict[str, nn.Parameter]:
    """The parameters of `module`, one of ours, from `theirs`: copies, frozen where theirs are.

    Where several of their names lead to one of our parameters, one of them is enough, and those
    that are there must agree. `unused` are patterns of their names that nothing here needs.
    `zeros` are patterns of our names that are 0, and stay 0, where theirs has none.
    Raises ValueError with the names of all tensors that do not fit.
    """
    ours = module.state_dict(keep_vars=True)
    first = _first_names(module)
    found: dict[str, Tensor] = {}
    trained: dict[str, bool] = {}
    absent: list[Pair] = []
    faults = _Faults()
    listed = pairs(rows, ours)
    for pair in listed:
        given = theirs.get(pair.theirs)
        if given is None:
            absent.append(pair)
            continue
        wanted = _joined_shape(pair, ours)
        if not _fits(pair.theirs, given, wanted, faults):
            for name in pair.ours:
                found.setdefault(first[name], given)
            continue
        for name, part in zip(pair.ours, pair.fit.split(given.detach()), strict=True):
            known = found.setdefault(first[name], part)
            trained.setdefault(first[name], given.requires_grad)
            if not _same(known, part):
                faults.wrong.append(f"{pair.theirs} (is tied to another, and differs from it)")
    for pair in absent:
        if not all(first[name] in found or _is_any(name, zeros) for name in pair.ours):
            faults.missing.append(pair.theirs)
    names = {pair.theirs for pair in listed}
    faults.unexpected += [
        name for name in theirs if name not in names and not _is_any(name, unused)
    ]
    faults.unlisted += set(ours) - {name for pair in listed for name in pair.ours}
    faults.refuse(door, whose)
    made = {
        name: nn.Parameter(part.clone(memory_format=torch.contiguous_format), trained[name])
        for name, part in found.items()
    }
    for name in ours:
        if first[name] not in made:
            beside = made[name.removesuffix("bias") + "weight"]
            made[name] = nn.Parameter(torch.zeros_like(beside), False)
    return {name: made[first[name]] for name in ours}


def to_theirs(
    door: str,
    whose: str,
    rows: Iterable[Row],
    ours: Mapping[str, Tensor],
    module: nn.Module,
    *,
    unused: Iterable[str] = (),
    zeros: Iterable[str] = (),
) -> dict[str, nn.Parameter]:
    """The parameters of `module`, one of theirs, from `ours`: copies, frozen where ours are.

    `unused` are patterns of their names that have no counterpart here. `zeros` are patterns of our
    names that need none there, as long as they are 0.
    Raises ValueError with the names of all tensors that do not fit.
    """
    wanted = module.state_dict(keep_vars=True)
    made: dict[str, nn.Parameter] = {}
    faults = _Faults()
    listed = pairs(rows, ours)
    for pair in listed:
        parts = [ours[name] for name in pair.ours]
        if pair.theirs not in wanted:
            spare = all(_is_any(name, zeros) for name in pair.ours)
            if not (spare and all(not part.any() for part in parts)):
                faults.unexpected += pair.ours
            continue
        if len({part.requires_grad for part in parts}) > 1:
            faults.wrong.append(f"{', '.join(pair.ours)} (must be trained all, or frozen all)")
            continue
        if len({(part.dtype, part.device) for part in parts}) > 1:
            faults.wrong.append(f"{', '.join(pair.ours)} (must be of one dtype on one device)")
            continue
        joined = pair.fit.join([part.detach() for part in parts])
        if _fits(", ".join(pair.ours), joined, wanted[pair.theirs].shape, faults):
            copy = joined.clone(memory_format=torch.contiguous_format)
            made[pair.theirs] = nn.Parameter(copy, parts[0].requires_grad)
    names = {name for pair in listed for name in pair.ours}
    reached = {pair.theirs for pair in listed}
    faults.missing += [name for name in wanted if name not in reached and not _is_any(name, unused)]
    faults.unlisted += set(ours) - names
    faults.refuse(door, whose)
    return made


def fill(module: nn.Module, found: Mapping[str, nn.Parameter]) -> None:
    """Put the parameters into their places in a module; what is tied stays tied."""
    made: dict[int, nn.Parameter] = {}
    places = list(module.named_parameters(remove_duplicate=False))
    for name, old in places:
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, made.setdefault(id(old), found[name]))


def _first_names(module: nn.Module) -> dict[str, str]:
    """Each tensor's name, and the first of the names that it has: tied ones have several."""
    first: dict[int, str] = {}
    state = module.state_dict(keep_vars=True)
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def _joined_shape(pair: Pair, ours: Mapping[str, Tensor]) -> torch.Size:
    return pair.fit.join([torch.empty(ours[name].shape, device="meta") for name in pair.ours]).shape


def _fits(name: str, tensor: Tensor, wanted: torch.Size, faults: _Faults) -> bool:
    if tensor.shape != wanted:
        faults.wrong.append(f"{name} (must be {tuple(wanted)}, is {tuple(tensor.shape)})")
    elif not tensor.is_floating_point():
        faults.wrong.append(f"{name} (must be floating-point, is {tensor.dtype})")
    else:
        return True
    return False


def _same(a: Tensor, b: Tensor) -> bool:
    """Are these the same numbers? Quick where they lie in the same place."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    in_place = a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
    return in_place or torch.equal(a, b)


def _is_any(name: str, patterns: Iterable[str]) -> bool:
    return any(matcher(pattern).fullmatch(name) for pattern in patterns)
