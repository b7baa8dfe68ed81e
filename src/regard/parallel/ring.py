"""Keys and values that travel round the ranks, one block at a time, past queries that stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard._attention import Options
from regard._attention.backward import backward
from regard._attention.dispatch import has_native_backward, run
from regard._attention.native import backward as native_backward
from regard._attention.problem import Problem, computed_in, new_output
from regard.observation import See
from regard.parallel.exchange import Ranks, Travel, computing
from regard.parallel.heads import tokens_first
from regard.parallel.layout import Run, length
from regard.parallel.merging import Merging
from regard.parallel.pairs import Pair, options_of, pairs
from regard.parallel.plan import Plan


@dataclass(frozen=True, eq=False)
class Ring:
    """One attention whose keys travel: this rank's place in it, and how it is computed."""

    ranks: Ranks
    plan: Plan
    size: tuple[int, int]  # (Nq, Nk) of the whole
    options: Options  # of the whole; masks, bias and indices of this rank's rows
    dropout: float
    seed: int
    backend: str

    @property
    def index(self) -> int:
        return self.ranks.rank // self.plan.heads

    @property
    def next(self) -> int:
        return (self.ranks.rank + self.plan.heads) % self.ranks.count

    @property
    def previous(self) -> int:
        return (self.ranks.rank - self.plan.heads) % self.ranks.count

    def keys(self, source: int) -> list[Run]:
        """The keys of the block that comes from one place of the ring."""
        return self.plan.group_layout.runs(self.size[1], source)

    def pairs(self, source: int) -> Iterator[Pair]:
        queries = self.plan.group_runs(self.size[0], self.ranks.rank)
        return pairs(self.options, queries, self.keys(source), self.size)

    def problem(self, pair: Pair, q: Tensor, k: Tensor, v: Tensor) -> Problem:
        """A pair as a problem of its own, in the type of the computation."""
        dtype = computed_in(q.dtype)
        tensors = q[:, :, pair.rows].to(dtype), k[:, :, pair.keys], v[:, :, pair.keys]
        seed = pair.seed(self.seed) if self.dropout else None
        options = options_of(self.options, pair, self.size)
        return Problem(*tensors, options, dropout=self.dropout, seed=seed)

    # ── what travels ──────────────────────────────────────────────────────────────────────────

    def blocks(self, name: str, block: Sequence[Tensor]) -> Iterator[tuple[int, list[Tensor]]]:
        """Where each block comes from, and what it holds, (B, H, n, …): this rank's own first.

        The next one travels while the caller computes with this one.
        """
        block = list(block)
        for step in range(self.plan.ring):
            source = (self.index - step) % self.plan.ring
            if step == self.plan.ring - 1:
                yield source, block
                return
            count = length(self.keys((source - 1) % self.plan.ring))
            coming = [x.new_empty((count, *x.shape[:2], *x.shape[3:])) for x in block]
            sends = [(self.next, tokens_first(x)) for x in block]
            receives = [(self.previous, x) for x in coming]
            travel = self.ranks.swap(f"{name}, step {step + 1}", sends, receives)
            del sends, receives
            yield source, block
            travel.wait()
            block = [x.movedim(0, 2) for x in coming]

    def totals(self, name: str) -> Totals:
        return Totals(self, name)


class Totals:
    """Sums for the keys of every block, which travel behind it from rank to rank, and then home.

    A block's own rank begins, and the others add theirs in the order of the ring.
    """

    def __init__(self, ring: Ring, name: str) -> None:
        self._ring, self._name = ring, name
        self._coming: list[Tensor] = []
        self._travel: Travel | None = None

    def add(self, source: int, own: list[Tensor]) -> None:
        """Add what this rank has for a block, (n, …) each, and send the sums on."""
        ring = self._ring
        if self._travel is not None:
            self._travel.wait()
            own = [x.add_(mine) for x, mine in zip(self._coming, own, strict=True)]
        count = length(ring.keys((source - 1) % ring.plan.ring))
        self._coming = [x.new_empty((count, *x.shape[1:])) for x in own]
        sends = [(ring.next, x) for x in own]
        receives = [(ring.previous, x) for x in self._coming]
        self._travel = ring.ranks.swap(f"{self._name} of block {source}", sends, receives)

    def home(self) -> list[Tensor]:
        """The sums for this rank's own block."""
        assert self._travel is not None
        self._travel.wait()
        return self._coming


def attend(ring: Ring, q: Tensor, k: Tensor, v: Tensor, see: See) -> Merging:
    """What this rank's queries find, but for map and received. q (B, H, nq, D), as it holds them;
    k and v are its own block."""
    dtype = computed_in(q.dtype)
    batch, heads, rows, _ = q.shape
    shape = batch, heads, rows, v.shape[3]
    merging = Merging(new_output(q[..., :0].to(dtype), shape, "joined"), see)
    first = replace(see, map=None, received=False, queries=None)
    given = () if see.norms is None else (see.norms,)
    for source, block in ring.blocks("keys and values", (k, v, *given)):
        with computing(f"block {source}"):
            keys, values, *norms = (x.to(dtype) for x in block)
            for pair in ring.pairs(source):
                if see.spans is not None:
                    first = replace(first, spans=see.spans[..., pair.key : pair.key_end])
                if norms:
                    first = replace(first, norms=norms[0][:, :, pair.keys])
                out, seen = run(ring.backend, ring.problem(pair, q, keys, values), first)
                assert seen is not None
                merging.add(pair.rows, pair.key, out, seen)
    if ring.options.sinks is not None:
        merging.with_sinks(ring.options.sinks)
    return merging


class RingAttention(torch.autograd.Function):
    """`attend`, with gradients: keys and values travel once more, and theirs behind them."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        sinks: Tensor | None,
        ring: Ring,
        see: See,
    ) -> tuple[Tensor, Merging]:
        merging = attend(ring, q, k, v, see)
        out = merging.out.to(q.dtype)
        ctx.save_for_backward(q, k, v, bias, sinks, out, merging.lse)
        ctx.ring, ctx.wanted = ring, list(ctx.needs_input_grad[:5])
        return out, merging

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ring: Ring = ctx.ring
        with ring.ranks.together():
            found = flow_back(ring, grad, ctx.wanted, *ctx.saved_tensors)
        gradients = (x if want else None for x, want in zip(found, ctx.wanted, strict=True))
        return *gradients, None, None


def flow_back(
    ring: Ring,
    grad: Tensor,
    wanted: list[bool],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor,
) -> list[Tensor | None]:
    """The gradients of q, k, v, bias and sinks, which are not yet summed over ranks."""
    dtype = computed_in(q.dtype)
    grad, out = grad.to(dtype), out.to(dtype)
    dq = torch.zeros_like(q, dtype=dtype)
    dbias = None if bias is None else torch.zeros_like(bias, dtype=dtype)
    totals = ring.totals("gradients of keys and values")
    for source, block in ring.blocks("keys and values", (k, v)):
        with computing(f"gradients of block {source}"):
            keys, values = (x.to(dtype) for x in block)
            sums = [tokens_first(torch.zeros_like(x)) for x in (keys, values)]
            for pair in ring.pairs(source):
                problem, rows = ring.problem(pair, q, keys, values), pair.rows
                given = grad[:, :, rows], out[:, :, rows], lse[:, :, rows].contiguous()
                found = _of_pair(ring, problem, *given, [*wanted[:4], False])
                if wanted[0]:
                    dq[:, :, rows] += found[0]
                for total, x, want in zip(sums, found[1:3], wanted[1:3], strict=True):
                    if want:
                        total[pair.keys] += x.movedim(2, 0)
                if wanted[3] and dbias is not None and dbias.shape[3] > 1:
                    _part(dbias, pair).add_(found[3])
        totals.add(source, sums)
    dk, dv = (x.movedim(0, 2).to(k.dtype) for x in totals.home())
    dsinks = None
    # What is added to all keys of a row alike takes weight from the sink alone.
    delta = (grad * out).sum(-1)
    share = torch.zeros_like(lse)
    if sinks is not None:
        has_key = lse != -torch.inf
        share = torch.where(has_key, (sinks.to(dtype)[:, None] - lse).exp(), 0.0)
        dsinks = -(share * delta).sum((0, 2)).to(sinks.dtype)
    if dbias is not None and dbias.shape[3] == 1:
        alike = [axis for axis in range(4) if dbias.shape[axis] == 1]
        dbias = (share * delta)[..., None].sum(alike, keepdim=True)
    if dbias is not None and bias is not None:
        dbias = dbias.to(bias.dtype)
    return [dq.to(q.dtype), dk, dv, dbias, dsinks]


def _of_pair(
    ring: Ring, problem: Problem, grad: Tensor, out: Tensor, lse: Tensor, wanted: list[bool]
) -> Sequence[Tensor]:
    """The gradients of a pair from output and lse of the whole rows."""
    if has_native_backward(ring.backend, problem, wanted):
        # The kernel puts right what a row's gradients must sum to, unless there is a sink: here
        # they are of some of its keys alone.
        options = replace(problem.options, sinks=lse.new_zeros(lse.shape[1]))
        problem = replace(problem, options=options)
        return native_backward(problem, grad, out, lse, wanted[:3])
    return backward(problem, grad, wanted, ring.backend, whole=(out, lse))


def _part(dbias: Tensor, pair: Pair) -> Tensor:
    rows = pair.rows if dbias.shape[2] > 1 else slice(None)
    return dbias[:, :, rows, pair.key : pair.key_end]
