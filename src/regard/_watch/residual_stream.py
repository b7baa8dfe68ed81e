"""Where each block of a model leaves a token between its attention and its feed-forward layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["ResidualStream", "main_tensor"]

_CLOSE = 1e-4  # of the length of a vector: sums that differ in rounding only


@dataclass
class _Part:
    """A part of a block that has run: what it got, and what it gave."""

    name: str
    given: Tensor | None
    made: Tensor | None


@dataclass
class _Block:
    given: Tensor | None
    parts: list[_Part] = field(default_factory=list[_Part])


class ResidualStream:
    """Watches the parts of every block while it runs, and works out where attention's move ends.

    Blocks add their moves in different ways, and none says how. They can be told apart by what adds
    up, x being the token before a block and y after it:

    - y = x + c + m: c is what attention made of it (or the norm after attention), m the rest. The
      token was at x + c in between. So do Llama, GPT-2, Gemma 2, and those that do both at once.
    - the part after attention gets x + a, a being attention's: it is a norm, and what it gives is
      the token in between. So do the Transformer of 2017, Marian, PyTorch's layers.
    - the part after attention gets what attention's part gave: that added and normed by itself. So
      do BERT and T5.

    Anything else is not known, and left out.
    """

    def __init__(self) -> None:
        self.between: dict[str, Tensor] = {}
        self.first: Tensor | None = None  # the tokens before the first block
        self._running: dict[str, _Block] = {}
        self._parts: dict[int, list[tuple[str, str]]] = {}  # by id: the block, and the name there

    def parts_of(self, model: nn.Module) -> Collection[int]:
        """The parts of the model's blocks, which stand in a list."""
        for name, module in model.named_modules():
            if not name.rpartition(".")[2].isdigit():
                continue
            for part_name, part in _parts(module):
                self._parts.setdefault(id(part), []).append((name, part_name))
        return self._parts

    def enter(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A block begins."""
        given = main_tensor([*args, *kwargs.values()])
        self._running[name] = _Block(None if given is None else given.clone())

    def leave(self, name: str, output: Any, attention: Iterable[str]) -> None:
        """A block has ended; `attention` are the names of the modules that attended in it."""
        block, after = self._running.pop(name, None), main_tensor(output)
        if block is None or block.given is None or after is None or after.dim() != 3:
            return
        own = [each.removeprefix(f"{name}.").partition(".")[0] for each in attention]
        found = _between(block.given, after, block.parts, own)
        if found is not None and found.shape == after.shape:
            self.first = block.given if self.first is None else self.first
            self.between[name] = found.clone()

    def hear(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """A part of a block has run."""
        for block, name in self._parts[id(module)]:
            running = self._running.get(block)
            if running is not None:
                given = main_tensor([*args, *kwargs.values()])
                running.parts.append(_Part(name, given, main_tensor(output)))


@torch.no_grad()
def _between(
    before: Tensor, after: Tensor, parts: list[_Part], attention: list[str]
) -> Tensor | None:
    """The tokens after attention's move; None where it cannot be told."""
    places = [n for n, part in enumerate(parts) if part.name in attention]
    if not places or after.shape != before.shape:
        return None
    last = places[-1]  # of a decoder's block: that across to the other sequence
    made = parts[last].made
    if made is None or made.shape != before.shape:
        return None
    if len(places) == 1:
        found = _added(before, after, [part.made for part in parts[last:]])
        if found is not None:
            return found
        for part in parts[last + 1 :]:
            if _is_close(part.given, before + made):
                return part.made
    following = next((x for x in parts[last + 1 :] if not _is_close(x.made, x.given)), None)
    return made if following is not None and _is_close(following.given, made) else None


def _added(before: Tensor, after: Tensor, moves: list[Tensor | None]) -> Tensor | None:
    """Before and the first of two moves, which with the second give what came after."""
    some = [move for move in moves if move is not None and move.shape == before.shape]
    for n, first in enumerate(some):
        for second in some[n + 1 :]:
            if _is_close(before + first + second, after):
                return before + first
    return None


def _is_close(a: Tensor | None, b: Tensor | None) -> bool:
    """Do they differ in rounding only?"""
    if a is None or b is None or a.shape != b.shape:
        return False
    return bool((a - b).norm() <= _CLOSE * b.norm())


def _parts(block: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a block, those in a list one by one."""
    for name, part in block.named_children():
        if isinstance(part, nn.ModuleList):
            yield from ((f"{name}.{number}", each) for number, each in part.named_children())
        else:
            yield name, part


def main_tensor(output: Any) -> Tensor | None:
    """The tensor that a module is there for: the first floating one of what it gets or returns."""
    if isinstance(output, Tensor):
        return output.detach() if output.is_floating_point() else None
    if isinstance(output, list | tuple):
        for each in output:
            if isinstance(each, Tensor) and each.is_floating_point() and each.dim() > 0:
                return each.detach()
    return None
