"""What a run says of a model's attention, beside what the model computes blind."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import regard
from families import truth

ENTROPY = 4e-4  # nats

# A sentence of `run.unseen`: which module, and how many more.
_SAID = re.compile(r"^(?P<name>\S+?)(?: and (?P<more>[\d,]+) more)?: ")


@dataclass
class Found:
    """What was found so far, for the verdict."""

    ways: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])  # neither seen nor said
    unseen: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    records: int = 0
    figures: dict[str, float] = field(default_factory=dict[str, float])

    def figure(self, name: str, value: float) -> None:
        self.figures[name] = max(self.figures.get(name, 0.0), value)


def account(
    model: Any,
    run: regard.Run,
    known: truth.Truth,
    real: Tensor | None,
    way: str,
    found: Found,
) -> None:
    """Is every attention that eager reports a record with its entropies, or said to be unseen?"""
    found.records += len(run.layers)
    found.unseen += run.unseen
    records: dict[str, list[Tensor]] = {}
    shares: dict[str, list[Tensor | None]] = {}
    for name, layer in run.layers.items():
        assert layer.entropy is not None
        name = name.split("#")[0]
        records.setdefault(name, []).append(layer.entropy.double())
        shares.setdefault(name, []).append(_share(layer))
    missing = 0
    for module, calls in known.calls.items():
        name = module or type(model).__name__
        seen = records.pop(name, None)
        if seen is None:
            missing += 1
        else:
            if not _are_of(
                seen, calls, real
            ):  # some report weights before the sink takes its share
                calls = _with_sinks(calls, shares[name])
            _entropies(seen, calls, real, f"{way}: {name}", found)
    for each in known.unnamed:
        match = next((n for n, seen in records.items() if _is_of(seen, each, real)), None)
        if match is None:
            missing += 1
        else:
            del records[match]
    said = sum(_count(sentence) for sentence in run.unseen)
    is_all = any("in a way that cannot be replaced" in sentence for sentence in run.unseen)
    if missing > said and not (is_all and not run.layers):
        found.missing.append(f"{way}: {missing} of eager's attentions are no record, {said} said")


def _count(sentence: str) -> int:
    said = _SAID.match(sentence)
    if said is None:
        return 0
    return 1 + int((said["more"] or "0").replace(",", ""))


def _share(layer: regard.Layer) -> Tensor | None:
    """What a sink leaves of the weight of every query (B, H, Nq); None if there is no sink."""
    sinks = layer.options.sinks
    if sinks is None:
        return None
    return (1 - (sinks.double()[:, None] - layer.lse.double()).exp()).clamp(0, 1)


def _with_sinks(calls: list[Tensor], shares: list[Tensor | None]) -> list[Tensor]:
    """Entropies of weights of which a sink then takes its share."""
    if len(calls) != len(shares):
        return calls
    return [
        x if s is None or s.shape != x.shape else s * x - torch.special.xlogy(s, s)
        for x, s in zip(calls, shares, strict=True)
    ]


def _are_of(seen: list[Tensor], calls: list[Tensor], real: Tensor | None) -> bool:
    return [x.shape for x in seen] == [x.shape for x in calls] and all(
        _off(a, b, real) <= ENTROPY for a, b in zip(seen, calls, strict=True)
    )


def _is_of(seen: list[Tensor], expected: Tensor, real: Tensor | None) -> bool:
    """Is it what some record says? Heads may stand beside sequences, or blocks beside heads."""
    return any(
        x.numel() == expected.numel() and _off(x, expected.reshape(x.shape), real) <= ENTROPY
        for x in seen
    )


def _entropies(
    seen: list[Tensor], calls: list[Tensor], real: Tensor | None, where: str, found: Found
) -> None:
    if len(seen) != len(calls) and len(seen) == 1:
        calls = [torch.cat(calls, 2)]
    if [x.shape for x in seen] != [x.shape for x in calls]:
        shapes = [tuple(x.shape) for x in seen], [tuple(x.shape) for x in calls]
        found.different.append(f"{where}: records are {shapes[0]}, eager's {shapes[1]}")
        return
    apart = max(_off(a, b, real) for a, b in zip(seen, calls, strict=True))
    found.figure("entropy", apart)
    if apart > ENTROPY:
        found.different.append(f"{where}: entropy off by {apart:.2g}")


def _off(found: Tensor, expected: Tensor, real: Tensor | None) -> float:
    """The largest difference between entropies (B, H, Nq) of real queries."""
    apart = (found - expected).abs()
    if real is not None:
        if (apart.shape[0], apart.shape[2]) == tuple(real.shape):
            apart = torch.where(real[:, None], apart, 0.0)
        elif len(apart) == len(real):
            apart = apart[real.all(1)]
    return float(apart.max()) if apart.numel() else 0.0
