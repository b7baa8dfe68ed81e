"""Layers that mix tokens without weights: linear attention, state spaces, convolutions, and so on.

There is nothing to see in them, and nothing is wrong. They are named, so that every layer of a
model is accounted for: by a record, or by a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from torch import nn

from regard._watch.modules import Modules, Running

# What a module mixes tokens by, told from its own parameters and buffers: these, and not those.
_BY_PARAMETERS = (
    ({"A_log", "D"}, "state-space mixing (Mamba)"),
    ({"A_log"}, "linear attention (gated delta net)"),
    ({"slope_rate"}, "linear attention (lightning)"),
    ({"time_decay"}, "linear attention (RWKV)"),
    ({"recurrent_param"}, "linear recurrence (RG-LRU)"),
)
# The same from the end of its class' name, without the name of its family.
_BY_NAME = (
    (re.compile("mamba2?(mixer|layer)?$"), "state-space mixing (Mamba)"),
    (re.compile("delta(net|attention|rule)$"), "linear attention (gated delta net)"),
    (re.compile("lightningattention$"), "linear attention (lightning)"),
    (re.compile("linear(self)?attention$|retention$"), "linear attention"),
    (re.compile("shortconv(olution)?$"), "convolution"),
    (re.compile("fouriertransform$"), "Fourier mixing"),
    (re.compile("[ms]lstm(layer|cell)?$"), "linear recurrence (xLSTM)"),
)
_NOTHING = "there are no weights to see."


def kind_of(module: nn.Module) -> str | None:
    """How a module mixes tokens, if it does that without weights."""
    own = module._parameters.keys() | module._buffers.keys()
    for names, kind in _BY_PARAMETERS:
        if names <= own:
            return kind
    # transformers.models.kimi_linear: its KimiLinearAttention is attention.
    _, _, family = type(module).__module__.partition("transformers.models.")
    family = family.partition(".")[0].replace("_", "")
    name = type(module).__name__.lower().removeprefix(family)
    return next((kind for pattern, kind in _BY_NAME if pattern.search(name)), None)


class Mixers:
    """The modules of a watched model that mix tokens without weights."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._kinds = {
            running.name: kind
            for running in modules.may_attend()
            if (kind := kind_of(running.module)) is not None
        }

    def is_inside(self, name: str) -> bool:
        """Is it one of them, or a part of one?"""
        parts = name.split(".")
        return any(".".join(parts[:n]) in self._kinds for n in range(1, len(parts) + 1))

    def sentences(self, attended: Collection[str]) -> list[str]:
        """What is to be said of those that have run. `attended` are the modules that have computed
        attention, seen or not."""
        told: dict[tuple[str, str, bool], list[int]] = {}
        alone: list[str] = []
        accounted: set[str] = set()
        for name, kind in self._kinds.items():
            if name not in self._modules.have_run:
                continue
            block = _block_of(name)
            if block is None:
                alone.append(f"{name}: is {kind}: {_NOTHING}")
                continue
            accounted.add(block)
            where, _, number = block.rpartition(".")
            is_beside = self._attends(block, attended)
            numbers = told.setdefault((where, kind, is_beside), [])
            if int(number) not in numbers:
                numbers.append(int(number))
        found = [_told(*what, numbers) for what, numbers in told.items()]
        return [*alone, *found, *self._others(accounted, attended)]

    def _others(self, accounted: Collection[str], attended: Collection[str]) -> Iterator[str]:
        """The layers that neither attend nor mix, beside others of their class that do, if they say
        what they are, or have something called attention in them."""
        told: dict[tuple[str, str], list[int]] = {}
        for where, layers in self._lists():
            is_told = {
                layer.name: layer.name in accounted or self._attends(layer.name, attended)
                for layer in layers
            }
            classes = {type(layer.module) for layer in layers if is_told[layer.name]}
            for layer in layers:
                if layer.name not in self._modules.have_run or is_told[layer.name]:
                    continue
                type_ = _type_of(layer.module)
                if type(layer.module) in classes and (type_ or _may_attend(layer.module)):
                    number = int(layer.name.rpartition(".")[2])
                    told.setdefault((where, type_), []).append(number)
        for (where, kind), numbers in told.items():
            subject, several = _layers(numbers, where)
            type_ = f" (“{kind}”)" if kind else ""
            does = "compute" if several else "computes"
            yield f"{subject}{type_} {does} no attention that can be seen."

    def _lists(self) -> Iterator[tuple[str, list[Running]]]:
        """The modules that stand in a list, by the name of the list."""
        numbered = (each for each in self._modules.by_id.values() if _is_numbered(each.name))
        lists: dict[str, list[Running]] = {}
        for each in numbered:
            lists.setdefault(each.name.rpartition(".")[0], []).append(each)
        yield from lists.items()

    def _attends(self, block: str, attended: Collection[str]) -> bool:
        """Has anything in a block attended? Blocks may share a module, which has one name."""
        module = self._modules.model.get_submodule(block)
        known = (self._modules.by_id[id(part)] for part in module.modules())
        return any(part.name in attended for part in known)


def _is_numbered(name: str) -> bool:
    return name.rpartition(".")[2].isdigit()


def _block_of(name: str) -> str | None:
    """The layer that a module is in: the innermost that stands in a list."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        if parts[n - 1].isdigit():
            return ".".join(parts[:n])
    return None


def _may_attend(layer: nn.Module) -> bool:
    """Is anything in a layer called attention?"""
    return any("atten" in type(each).__name__.lower() for each in layer.modules())


def _type_of(layer: nn.Module) -> str:
    """What a layer of transformers says that it is."""
    names = ("block_type", "layer_type", "attention_type")
    found = (getattr(layer, name, None) for name in names)
    return next((said for said in found if isinstance(said, str)), "")


def _told(where: str, kind: str, is_beside: bool, numbers: Iterable[int]) -> str:
    subject, several = _layers(numbers, where)
    if is_beside:
        has = "have" if several else "has"
        return f"{subject} {has} {kind} beside attention: of that {_NOTHING}"
    return f"{subject} {'are' if several else 'is'} {kind}: {_NOTHING}"


def _layers(numbers: Iterable[int], where: str) -> tuple[str, bool]:
    """Layers of a list by their numbers, and whether they are several.

    >>> _layers([0, 1, 2, 4, 6, 7], "model.layers")
    ('layers 0–2, 4 and 6–7 of model.layers', True)
    >>> _layers([3], "")
    ('layer 3', False)
    """
    numbers = sorted(numbers)
    runs: list[list[int]] = [
        [number for _, number in group]
        for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    parts = [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    shown = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    several, of = len(numbers) > 1, "" if where in ("", "layers") else f" of {where}"
    return f"layer{'s' if several else ''} {shown}{of}", several
