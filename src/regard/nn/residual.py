"""How sublayers, residuals and norms are joined to a layer, as objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from regard._rules.general import Summed
from regard._steps import StepKind
from regard.nn._hooks import INPUT, OUTPUT, HookPoints, record
from regard.nn.serialization import Described


@dataclass(frozen=True)
class Sublayer:
    """One part of a layer: its name, what it does to x, and what drops out of that."""

    name: str
    apply: Callable[[Tensor], Tensor]
    dropout: nn.Module


class Residual(Described, ABC):
    """The base of all arrangements: PostNorm, PreNorm, NotesNorm.

    Sublayers are in order, and the feed-forward one is the last.

    >>> isinstance(PostNorm(), Residual), PostNorm().norms_at_end
    (True, False)
    """

    norms_at_end = False  # does a stack of such layers need one more norm?

    def n_norms(self, n_sublayers: int) -> int:
        """How many norms a layer has."""
        return n_sublayers

    @abstractmethod
    def join(
        self, layer: nn.Module, x: Tensor, sublayers: Sequence[Sublayer], norms: Iterable[nn.Module]
    ) -> Tensor:
        """What the layer makes of x (B, N, width)."""


@dataclass(frozen=True)
class PostNorm(Residual):
    """h = Norm(x + Sublayer(x)), one after the other (Vaswani).

    >>> PostNorm().n_norms(2)
    2
    """

    def join(
        self, layer: nn.Module, x: Tensor, sublayers: Sequence[Sublayer], norms: Iterable[nn.Module]
    ) -> Tensor:
        for sublayer, norm in zip(sublayers, norms, strict=True):
            x = norm(_add(layer, sublayer, x, sublayer.apply(x)))
        return x


@dataclass(frozen=True)
class PreNorm(Residual):
    """h = x + Sublayer(Norm(x)), one after the other; a norm ends the stack.

    >>> PreNorm().norms_at_end
    True
    """

    norms_at_end = True

    def join(
        self, layer: nn.Module, x: Tensor, sublayers: Sequence[Sublayer], norms: Iterable[nn.Module]
    ) -> Tensor:
        for sublayer, norm in zip(sublayers, norms, strict=True):
            x = _add(layer, sublayer, x, sublayer.apply(norm(x)))
        return x


@dataclass(frozen=True)
class NotesNorm(Residual):
    """h = Norm(FFN(a) + a) with a = Attention(x): no way round attention, and one norm.

    With cross-attention, a is what that makes of Attention(x).

    >>> NotesNorm().n_norms(2)
    1
    """

    def n_norms(self, n_sublayers: int) -> int:
        return 1

    def join(
        self, layer: nn.Module, x: Tensor, sublayers: Sequence[Sublayer], norms: Iterable[nn.Module]
    ) -> Tensor:
        *attentions, feed_forward = sublayers
        for sublayer in attentions:
            x = sublayer.dropout(sublayer.apply(x))
        (norm,) = norms
        return norm(_add(layer, feed_forward, x, feed_forward.apply(x)))


def _add(layer: nn.Module, sublayer: Sublayer, x: Tensor, found: Tensor) -> Tensor:
    total = x + sublayer.dropout(found)
    record(layer, f"{sublayer.name}.residual", total)
    return total


# What goes round a sublayer ("?") is found by its numbers.
_MEANING = "What came in, plus what the sublayer makes of it: nothing is lost on the way."
LAYER_POINTS: HookPoints = {
    "input": INPUT,
    **{
        f"{name}.residual": StepKind(
            "Residual", "R = {name} + " + name, _MEANING, Summed(("?", f"{name}.output"))
        )
        for name in ("attention", "cross", "feed_forward")
    },
    "output": OUTPUT,
}
