"""Tables of names, theirs and ours, walked in either direction; all that does not fit is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from regard.nn._checks import same_numbers
from regard.nn._parameters import first_names


@dataclass(frozen=True)
class Fit:
    """How their tensor and ours go together: `split` gives ours from theirs, `join` goes back.

    Neither changes a number: both only put them in another order.
    """

    name: str
    split: Callable[[Tensor], Sequence[Tensor]]
    join: Callable[[Sequence[Tensor]], Tensor]


def _turned(x: Tensor) -> Tensor:
    """A matrix transposed; a vector as it is."""
    return x.transpose(0, -1)


AS_IS = Fit("as is", lambda x: [x], lambda parts: parts[0])
TRANSPOSED = Fit("transposed", lambda x: [_turned(x)], lambda parts: _turned(parts[0]))
THIRDS = Fit("packed thirds", lambda x: list(x.chunk(3)), lambda parts: torch.cat(list(parts)))
TRANSPOSED_THIRDS = Fit(
    "transposed packed thirds",
    lambda x: [_turned(part) for part in x.chunk(3, -1)],
    lambda parts: torch.cat([_turned(part) for part in parts], -1),
)
ONE_ROW = Fit("a matrix of one row", lambda x: [x[0]], lambda parts: parts[0][None])

# What a placeholder stands for.
_PLACEHOLDERS = {"layer": r"\d+", "norm": r"\d+", "part": "weight|bias"}


@dataclass(frozen=True)
class Row:
    """One line of a table: `theirs` is `ours`, or all of `ours` packed together.

    `{layer}` stands for the number of a layer, `{norm}` for that of a norm in it, `{part}` for
    weight or bias.
    """

    theirs: str
    ours: str | tuple[str, ...]
    fit: Fit = AS_IS

    @property
    def names(self) -> tuple[str, ...]:
        """Ours, as a tuple."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def under(theirs: str, ours: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows of a part, as they are in a whole that has it at `theirs` and at `ours`."""
    return tuple(
        replace(row, theirs=theirs + row.theirs, ours=tuple(ours + name for name in row.names))
        for row in rows
    )


def filled_in(rows: Iterable[Row], ours: Iterable[str]) -> list[Row]:
    """The rows that concern a module whose tensors are called `ours`, placeholders filled in."""
    found: list[Row] = []
    names = list(ours)
    for row in rows:
        match = _matcher(row.names[0])
        for values in (hit.groupdict() for name in names if (hit := match.fullmatch(name))):
            filled = tuple(name.format(**values) for name in row.names)
            found.append(Row(row.theirs.format(**values), filled, row.fit))
    return found


def to_ours(
    call: str,
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
    first = first_names(module)
    found: dict[str, tuple[Tensor, bool]] = {}  # and is it trained
    faults = _Faults()
    listed = filled_in(rows, ours)
    given = [row for row in listed if row.theirs in theirs]
    for row in given:
        whole = theirs[row.theirs]
        outlines = [torch.empty(ours[name].shape, device="meta") for name in row.names]
        fits = faults.fits(row.theirs, whole, row.fit.join(outlines).shape)
        parts = row.fit.split(whole.detach()) if fits else [whole] * len(row.names)
        for name, part in zip(row.names, parts, strict=True):
            known, _ = found.setdefault(first[name], (part, whole.requires_grad))
            in_place = known.data_ptr() == part.data_ptr()
            if fits and not in_place and not same_numbers(known, part):
                faults.wrong.append(f"{row.theirs} (is tied to another, and differs from it)")
    for row in listed:
        if not all(first[name] in found or _is_any(name, zeros) for name in row.names):
            faults.missing.append(row.theirs)
    names = {row.theirs for row in listed}
    spare = (name for name in theirs if name not in names)
    faults.unexpected += [name for name in spare if not _is_any(name, unused)]
    faults.refuse(call, whose, ours, listed)
    made = {name: _copied(part, is_trained) for name, (part, is_trained) in found.items()}
    for name in ours:
        if first[name] not in made:
            beside = made[name.removesuffix("bias") + "weight"]
            made[name] = nn.Parameter(torch.zeros_like(beside), False)
    return made


def to_theirs(
    call: str,
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
    listed = filled_in(rows, ours)
    for row in listed:
        parts, said = [ours[name] for name in row.names], ", ".join(row.names)
        if row.theirs not in wanted:
            spare = all(_is_any(name, zeros) for name in row.names)
            if not spare or any(part.any() for part in parts):
                faults.unexpected += row.names
        elif len({part.requires_grad for part in parts}) > 1:
            faults.wrong.append(f"{said} (must be trained all, or frozen all)")
        elif len({(part.dtype, part.device) for part in parts}) > 1:
            faults.wrong.append(f"{said} (must be of one dtype on one device)")
        else:
            joined = row.fit.join([part.detach() for part in parts])
            if faults.fits(said, joined, wanted[row.theirs].shape):
                made[row.theirs] = _copied(joined, parts[0].requires_grad)
    reached = {row.theirs for row in listed}
    faults.missing += [name for name in wanted if name not in reached and not _is_any(name, unused)]
    faults.refuse(call, whose, ours, listed)
    return made


def _copied(part: Tensor, is_trained: bool) -> nn.Parameter:
    return nn.Parameter(part.clone(memory_format=torch.contiguous_format), is_trained)


@dataclass
class _Faults:
    """What does not fit, by kind."""

    missing: list[str] = field(default_factory=list[str])
    unexpected: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    def fits(self, name: str, tensor: Tensor, wanted: torch.Size) -> bool:
        """Is a tensor of the right shape, and of floating point? If not, that is a fault."""
        if tensor.shape != wanted:
            self.wrong.append(f"{name} (must be {tuple(wanted)}, is {tuple(tensor.shape)})")
        elif not tensor.is_floating_point():
            self.wrong.append(f"{name} (must be floating-point, is {tensor.dtype})")
        else:
            return True
        return False

    def refuse(self, call: str, whose: str, ours: Iterable[str], rows: Iterable[Row]) -> None:
        """Raise ValueError if there is any."""
        kinds = {
            "missing": self.missing,
            "not expected": self.unexpected,
            "wrong": self.wrong,
            "in no row of the table": set(ours) - {name for row in rows for name in row.names},
        }
        said = [f"{kind}: {', '.join(sorted(names))}" for kind, names in kinds.items() if names]
        if said:
            raise ValueError(
                f"{call}: the tensors must be those of {whose}; {'; '.join(said)}. "
                "The description and the weights must come from one model."
            )


def _matcher(pattern: str) -> re.Pattern[str]:
    """What matches the names of a pattern, and says what its placeholders stand for."""
    pieces = re.split(r"\{(\w+)\}", pattern)
    found = [re.escape(piece) for piece in pieces]
    found[1::2] = [f"(?P<{name}>{_PLACEHOLDERS[name]})" for name in pieces[1::2]]
    return re.compile("".join(found))


def _is_any(name: str, patterns: Iterable[str]) -> bool:
    return any(_matcher(pattern).fullmatch(name) for pattern in patterns)
