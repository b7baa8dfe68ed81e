"""Marks on tensors: what is a product, or weights, and what operations make of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from regard._watch.modules import Running
from regard._watch.own_call import OwnCall
from regard._watch.products import Product

_DROPOUT = frozenset((F.dropout, torch.dropout, torch.dropout_))
# What leaves each weight as it is, or rounds it.
_SAME = frozenset(
    (
        *(Tensor.to, Tensor.type, Tensor.type_as, Tensor.float, Tensor.double, Tensor.half),
        *(Tensor.bfloat16, Tensor.contiguous, Tensor.clone, torch.clone, Tensor.detach),
        *(Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten),
        *(Tensor.unflatten, torch.unflatten, Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze),
        *(torch.squeeze, Tensor.transpose, torch.transpose, Tensor.permute, torch.permute),
        *(Tensor.swapaxes, torch.swapaxes, Tensor.expand, Tensor.view_as),
    )
)
_TIMES = frozenset((torch.mul, Tensor.mul, Tensor.mul_))

Step = Callable[[Tensor], Tensor]


@dataclass(eq=False)
class Softmax:
    """A softmax, and what became of it. It may be attention as long as there are scores."""

    running: Running
    is_named: bool  # as attention, by its shape or its module
    compute: Step | None = None
    scores: Tensor | None = None  # let go of when it is known what they are
    version: int | None = None  # of the scores
    product: Product | None = None  # that they were made from
    call: OwnCall | None = None  # that it was, if something was taken out of it

    @property
    def is_written_over(self) -> bool:
        x = self.scores
        return x is not None and self.version is not None and x._version != self.version


@dataclass(frozen=True, eq=False)
class Weights:
    """What was made of a softmax so far."""

    softmax: Softmax
    steps: tuple[Step, ...] = ()
    is_transposed: bool = False  # in its last two axes
    is_dropped: bool = False  # some of them are 0 by chance
    is_other: bool = False  # more was done to them than rounding
    before: Tensor | None = None  # dropout, if more was done


class Marks(threading.local):
    """The marks of a thread, by tensor, which they do not keep alive."""

    def __init__(self) -> None:
        self.of: Any = WeakIdKeyDictionary()

    def found(self, tensors: Sequence[Any]) -> list[tuple[int, Tensor, Product | Weights]]:
        """Those that have a mark, and where they stand."""
        return [
            (place, x, mark)
            for place, x in enumerate(tensors)
            if type(x) is Tensor and (mark := self.of.get(x)) is not None
        ]


def carried(
    function: Any,
    args: tuple[Any, ...],
    given: dict[str, Any],
    found: Sequence[tuple[int, Tensor, Product | Weights]],
    out: Tensor,
) -> Product | Weights | None:
    """The mark of what an operation has made of marked tensors; None if it has none."""
    weights = [each for each in found if isinstance(each[2], Weights)]
    place, x, mark = (weights or found)[0]
    way = _way(x, out)
    if way is None:
        return None
    if isinstance(mark, Product):
        return None if way == "transposed" else mark
    if len(weights) > 1 or x.numel() != out.numel():
        return None  # two softmaxes in one, or a part
    before, after = args[:place], args[place + 1 :]
    mark = replace(mark, steps=(*mark.steps, lambda y: function(*before, y, *after, **given)))
    if way == "transposed":
        return replace(mark, is_transposed=not mark.is_transposed)
    if function in _DROPOUT:
        if not _drops(args, given):
            return mark
        return replace(mark, is_dropped=True, before=x.detach() if mark.is_other else None)
    if function in _SAME or (function in _TIMES and _is_by_head(args, 1 - place)):
        return mark
    return None if mark.is_dropped else replace(mark, is_other=True)


def _way(x: Tensor, out: Tensor) -> str | None:
    """Where the last two axes of x are in what an operation gives: the "same" or "transposed";
    None: they are not there, or the others have changed places."""
    if out is x:
        return "same"
    if out.dim() < 2 or x.dim() < 2 or not x.numel():
        return None
    if out.data_ptr() != x.data_ptr():
        return "same" if out.shape[-2:] == x.shape[-2:] else None
    # A view: where its axes are, strides tell.
    own, new = (list(zip(y.shape, _strides(y), strict=True)) for y in (x, out))
    if out.dim() == x.dim() and own[:-2] != new[:-2]:
        return None
    if own[-2:] == new[-2:]:
        return "same"
    return "transposed" if own[-2:] == new[:-3:-1] else None


def _strides(x: Tensor) -> list[int]:
    return [step if size > 1 else 0 for size, step in zip(x.shape, x.stride(), strict=True)]


def _drops(args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Is dropout at work?"""
    share = given.get("p", args[1] if len(args) > 1 else 0.5)
    training = given.get("training", given.get("train", args[2] if len(args) > 2 else True))
    return bool(training) and share > 0


def _is_by_head(args: tuple[Any, ...], place: int) -> bool:
    """Is it a number for all weights, or for those of each head?"""
    if len(args) != 2:
        return False
    x = args[place]
    return not isinstance(x, Tensor) or x.dim() == 0 or x.shape[-2:] == (1, 1)
