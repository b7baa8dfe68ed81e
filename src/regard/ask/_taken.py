"""What the parts of a model give to one position: vectors of one pass, and whether they add up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard._watch.modules import main_tensor
from regard.ask._anatomy import Block, Tail, matrix
from regard.ask._held import HeldNorm, held
from regard.ask._pass import row

Ends = tuple[Tensor, Tensor]  # what came into a module, and what it gave


@dataclass(frozen=True, eq=False)
class Update:
    """What a block has added to one position: attention, through `after` if a norm follows it, and
    feed-forward. `heads` (H · d_v) are the heads' outputs side by side.
    """

    block: Block
    heads: Tensor
    after: HeldNorm | None
    feed_forward: Tensor


class Taken:
    """Hooks that keep the vectors of one position, as the parts of a model got and gave them."""

    def __init__(
        self, model: nn.Module, blocks: list[Block], tail: Tail, position: int, n: int
    ) -> None:
        self._blocks, self._tail, self._position, self._n = blocks, tail, position, n
        self._ends: dict[int, Ends] = {}  # by the id of the module
        self._tables: dict[str, Tensor] = {}
        self.hooks: list[AbstractContextManager[object]] = []
        inside = {id(part) for block in blocks for part in block.module.modules()}
        for name, module in model.named_modules():
            if isinstance(module, nn.Embedding) and id(module) not in inside:
                keep = partial(self._table, name)
                self.hooks.append(module.register_forward_hook(keep))
        whole = [tail.head] if tail.norm is None else [tail.norm, tail.head]
        for block in blocks:
            whole += [block.module, block.projection, block.feed_forward, *block.norms.values()]
        for module in whole:
            hook: Callable[..., None] = self._both
            self.hooks.append(module.register_forward_hook(hook, with_kwargs=True))

    def _table(self, name: str, _: nn.Module, __: Any, output: Tensor) -> None:
        if output.dim() == 3 and output.shape[1] == self._n:
            self._tables[name] = output[0, self._position].detach().clone()

    def _both(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        ends = (main_tensor([*args, *kwargs.values()]), main_tensor(output))
        before, after = (None if x is None else self._own(x) for x in ends)
        if before is not None and after is not None:
            self._ends[id(module)] = before, after

    def _own(self, x: Tensor) -> Tensor | None:
        """The vector of the position, of one sequence; some modules get all tokens in a row."""
        x = x[None] if x.dim() == 2 else x
        if x.dim() != 3 or x.shape[1] not in (1, self._n):
            return None
        return x[0, row(x, self._position)].clone()

    # ── what it was ───────────────────────────────────────────────────────────────────────────

    def ends(self, module: nn.Module) -> Ends:
        """What a module got and gave. Raises LookupError if it did not run, or not on tokens."""
        return self._ends[id(module)]

    def embeddings(self, tokens_times: float | None, tolerance: float) -> dict[str, Tensor]:
        """What came into the first block, (width,), as that of the tokens and of the positions
        where it is the sum of both; else as one.

        `tokens_times` is what tokens are multiplied with before positions are added, where the
        model is known to do that; None where it is not known to.
        """
        first, _ = self.ends(self._blocks[0].module)
        first = first.double()
        found = [x.double() for x in self._tables.values() if x.shape == first.shape]
        if tokens_times is not None and len(found) == 1:
            found = [found[0] * tokens_times, first - found[0] * tokens_times]
        if len(found) == 2 and _is_near(found[0] + found[1], first, tolerance):
            return dict(zip(("tokens", "positions"), found, strict=True))
        return {"embedding": first}

    def updates(self, scale: float, tolerance: float) -> list[Update]:
        """What each block has added. Raises ArithmeticError if that is not what it gave out.

        `scale` is what a block multiplies its updates with.
        """
        found: list[Update] = []
        before = None
        for block in self._blocks:
            try:
                came, went = (x.double() for x in self.ends(block.module))
                heads, projected = (x.double() for x in self.ends(block.projection))
                refined = self.ends(block.feed_forward)[1].double()
            except LookupError:
                raise ArithmeticError(f"{block.name} did not compute all of its parts") from None
            after, attended = None, projected
            for norm in block.norms.values():
                if id(norm) not in self._ends:
                    continue
                given, made = (x.double() for x in self.ends(norm))
                if _is_near(given, projected, tolerance):
                    after, attended = held(norm, given, made, tolerance), made
                    if after is None:
                        raise ArithmeticError(
                            f"the norm after the attention of {block.name} is of no known kind"
                        )
                elif _is_near(given, refined, tolerance):
                    refined = made
            if before is not None and not _is_near(came, before, tolerance):
                raise ArithmeticError(f"{block.name} does not begin with what the one before gave")
            if not _is_near(came + scale * (attended + refined), went, tolerance):
                raise ArithmeticError(
                    f"{block.name} gives something else than what came in, its attention and its "
                    "feed-forward layer added up"
                )
            found.append(Update(block, heads, after, refined))
            before = went
        return found

    def last(self, tolerance: float) -> tuple[HeldNorm, Tensor]:
        """The last norm, held, and the raw logits (vocabulary,) that the head made. Raises
        ArithmeticError if the head read something else.
        """
        read, logits = self.ends(self._tail.head)
        _, x = self.ends(self._blocks[-1].module)
        y = read
        if self._tail.norm is not None:
            given, y = self.ends(self._tail.norm)
            if not _is_near(given, x, tolerance):
                raise ArithmeticError("the last norm reads something else than the last block gave")
        norm = held(self._tail.norm, x, y, tolerance)
        if norm is None:
            raise ArithmeticError("the last norm is of no known kind")
        if not _is_near(read, y, tolerance):
            raise ArithmeticError("the head reads something else than the last norm gave")
        return norm, logits


def _is_near(x: Any, y: Tensor, tolerance: float) -> bool:
    """Are two vectors the same within rounding, of the length of the second?"""
    if x.shape != y.shape:
        return False
    return bool((x.double() - y.double()).norm() <= tolerance * y.double().norm())


def head_shares(update: Update, direction: Tensor) -> tuple[list[float], float]:
    """Of each head, direction · W_O z_h; and what the biases after the heads add to it.

    `direction` (width,) is one of the residual stream, in float64.
    """
    block = update.block
    u, of_biases = (direction, 0.0) if update.after is None else update.after.back(direction)
    weight = matrix(block.projection)
    assert weight is not None
    each = (u @ weight.detach().double()) * update.heads
    bias: Tensor | None = getattr(block.projection, "bias", None)
    if bias is not None:
        of_biases += float(u @ bias.detach().double())
    return each.view(block.heads, -1).sum(1).tolist(), of_biases
