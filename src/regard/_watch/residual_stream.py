"""Where each block of a model leaves a token between its attention and its feed-forward layer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from regard._watch.modules import Function, Hook, Modules, main_tensor

_CLOSE = 1e-4  # of the length of a vector: sums that differ in rounding only


@dataclass
class _Part:
    """A part of a block that has run."""

    name: str
    input: Tensor | None
    output: Tensor | None


class ResidualStream:
    """Hooks around the blocks of a model, which stand in a list, and around their parts.

    They keep the hidden states after every block, and work out where attention's update ends.
    Blocks add their updates in different ways, and none says how. They can be told apart by what
    adds up, x being the token before a block and y after it:

    - y = x + c + m: c is what attention made of it (or the norm after attention), m the rest. The
      token was at x + c in between. So do Llama, GPT-2, Gemma 2, and those that do both at once.
    - the part after attention gets x + a, a being attention's: it is a norm, and what it gives is
      the token in between. So do the Transformer of 2017, Marian, PyTorch's layers.
    - the part after attention gets what attention's part gave: that added and normed by itself. So
      do BERT and T5.

    Anything else is not known, and left out.
    """

    def __init__(self, modules: Modules, attended: Callable[[str], Collection[str]]) -> None:
        """`attended` gives the modules of a block that have computed attention."""
        self.hooks: list[Hook] = []
        self._attended = attended
        self._hidden_states: dict[str, Tensor] = {}
        self._between: dict[str, Tensor] = {}
        self._first: Tensor | None = None  # the tokens before the first block
        self._running: dict[str, list[_Part]] = {}  # the parts so far of each block
        for running in modules.may_attend():
            block, module = running.name, running.module
            if block.rpartition(".")[2].isdigit():
                for name, part in module.named_children():
                    is_list = isinstance(part, nn.ModuleList)  # whose parts come one by one
                    for own, each in part.named_children() if is_list else (("", part),):
                        number = f".{own}" if own else ""
                        around = partial(self._around_part, block, name + number)
                        self.hooks.append((each, around))
                self.hooks.append((module, partial(self._around_block, block)))

    def _around_part(
        self, block: str, name: str, run: Function, /, *args: Any, **kwargs: Any
    ) -> Any:
        output = run(*args, **kwargs)
        if block in self._running:
            given = main_tensor([*args, *kwargs.values()])
            self._running[block].append(_Part(name, given, main_tensor(output)))
        return output

    def _around_block(self, name: str, run: Function, /, *args: Any, **kwargs: Any) -> Any:
        before = main_tensor([*args, *kwargs.values()])
        before = None if before is None else before.clone()
        self._running[name] = []
        try:
            output = run(*args, **kwargs)
        finally:
            parts = self._running.pop(name, [])
        after = main_tensor(output)
        if after is None or after.dim() != 3:
            return output
        self._hidden_states[name] = after.clone()
        if before is not None and after.shape == before.shape:
            own = [x.removeprefix(f"{name}.").partition(".")[0] for x in self._attended(name)]
            found = _between(before, after, parts, own)
            if found is not None and found.shape == after.shape:
                self._first = before if self._first is None else self._first
                self._between[name] = found.clone()
        return output

    def found(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The hidden states after each block that attended, and those in between."""
        after = {name: x for name, x in self._hidden_states.items() if self._attended(name)}
        between = {name: x for name, x in self._between.items() if name in after}
        if between and self._first is not None:
            between = {"embedding": self._first, **between}
        return after, between


@torch.no_grad()
def _between(
    before: Tensor, after: Tensor, parts: list[_Part], attention: list[str]
) -> Tensor | None:
    """The tokens after attention's update; None where it cannot be told."""
    places = [n for n, part in enumerate(parts) if part.name in attention]
    if not places:
        return None
    last = places[-1]  # of a decoder's block: that across to the other sequence
    update = parts[last].output
    if update is None or update.shape != before.shape:
        return None
    if len(places) == 1:
        outputs = [part.output for part in parts[last:]]
        some = [x for x in outputs if x is not None and x.shape == before.shape]
        for first, second in combinations(some, 2):
            if _is_close(before + first + second, after):
                return before + first
        for part in parts[last + 1 :]:
            if _is_close(part.input, before + update):
                return part.output
    following = next((x for x in parts[last + 1 :] if not _is_close(x.output, x.input)), None)
    return update if following is not None and _is_close(following.input, update) else None


def _is_close(a: Tensor | None, b: Tensor | None) -> bool:
    """Do they differ in rounding only?"""
    if a is None or b is None or a.shape != b.shape:
        return False
    return bool((a - b).norm() <= _CLOSE * b.norm())
