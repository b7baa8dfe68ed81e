"""`regard.parallel.attention`: one attention, of which each rank holds a part of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from regard._attention import Options, operator
from regard._attention import attention as attention_alone
from regard._attention.checks import check, check_dropout, check_see
from regard._attention.dispatch import choose, run
from regard._attention.eager import may_go_direct
from regard._attention.options import Window
from regard._attention.problem import Problem, computed_in
from regard.observation import FIELDS, Observation, See
from regard.parallel.agreement import all_or_none, check_alike, digest, drawn_seed, whole_length
from regard.parallel.exchange import Ranks, computing, ranks_of
from regard.parallel.heads import FromHeads, Share, ToHeads, from_heads, to_heads
from regard.parallel.layout import Kind, Layout, checked_kind
from regard.parallel.pairs import derived
from regard.parallel.pictures import join_maps, look
from regard.parallel.plan import By, Plan, planned
from regard.parallel.ring import Ring, RingAttention

_CALL = "parallel.attention()"
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mesh: Any,
    layout: Kind = "contiguous",
    by: By | None = None,
    timeout: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    see: See | None = None,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> Any:
    """`regard.attention` of one sequence, of which each rank of a mesh holds a part.

    `q` (B, H, nq, D), `k` (B, Hkv, nk, D) and `v` (B, Hkv, nk, Dv) are this rank's tokens, as
    `regard.parallel.shard(…, layout=…)` cuts them; the output (B, H, nq, Dv) is of its queries, and
    so is what was seen of them. `received` (B, H, nk) is of its keys; `map` is of the whole, and
    the same on all ranks. All ranks must call it, and backward, too.

    - `mesh`: a DeviceMesh of one axis, or a ProcessGroup
    - `layout`: "contiguous", or "zigzag", which shares causal work out evenly
    - `by`: "heads", "ring" or None, which `regard.parallel.plan` explains
    - `timeout`: seconds after which a rank that does not come is given up, with a RankError that
      names it, on all others; None is the group's own

    Options mean what they mean for `regard.attention`, of the whole sequence. `mask` and `bias` are
    this rank's rows by all keys, in the order of the sequence: (B, H, nq, Nk); `indices` (B, nq, K)
    are this rank's rows, and name keys of the whole; `see.queries` (B, nq) and `see.norms`
    (B, H, nk) are this rank's. `lengths`, `segments`, `sinks` and `see.spans`, the labels of all
    keys, are of the whole, and the same on all ranks.

    By heads alone, results are those of one process to the bit. Where keys travel, parts are merged
    by lse in an order that the layout decides: the same bits every time. Gradients of what all
    ranks have alike (sinks, a bias for all queries) are of the whole. Dropout drops other weights
    than one process does; torch.manual_seed on the first rank repeats it, for the same ranks.

    Memory of a rank is that of its part: O(N / P · D), and some tiles.

    >>> import torch.distributed as dist  # one rank here; torchrun starts more
    >>> store = dist.HashStore()
    >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> q = k = torch.eye(3)[None, None]
    >>> v = torch.tensor([[1.0], [2.0], [4.0]])[None, None]
    >>> attention(q, k, v, mesh=dist.group.WORLD, scale=100.0, causal=True)[0, 0].tolist()
    [[1.0], [2.0], [4.0]]
    >>> dist.destroy_process_group()
    """
    ranks = ranks_of(_CALL, mesh, timeout)
    kind = checked_kind(_CALL, layout)
    numbers = scale, softcap, sinks, position
    given = Options(causal, window, mask, bias, lengths, *numbers, segments, indices)  # pyright: ignore[reportArgumentType] -- checked below
    if ranks.count == 1:
        arguments: dict[str, Any] = given.arguments()
        arguments |= {"dropout": dropout, "see": see, "backend": backend}
        return attention_alone(q, k, v, **arguments)
    job = _prepare(ranks, Layout(kind, ranks.count), q, k, v, given, by, dropout, see, backend)
    with ranks.together():
        out, seen = job.run(q, k, v)
    return out if see is None else (out, seen)


def _prepare(
    ranks: Ranks,
    layout: Layout,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    given: Options,
    by: By | None,
    dropout: float,
    see: See | None,
    backend: str | None,
) -> _Job:
    """Check everything, with all ranks; nothing but whole numbers is told."""
    tensors = {"q": q, "k": k, "v": v}
    flags = None if see is None else (see.entropy, see.top, see.map, see.received, see.distance)
    if flags is not None and see is not None:
        given_too = see.norms is None, None if see.spans is None else tuple(see.spans.shape)
        flags = (*flags, see.max_logit, see.contribution, see.n_spans, *given_too)
    scalars = given.causal, given.window, given.scale, given.softcap, given.position
    names = ("mask", "bias", "lengths", "sinks", "segments", "indices")
    wanted = [
        None if x is None else isinstance(x, Tensor) and x.requires_grad
        for x in (q, k, v, *(getattr(given, name) for name in names))
    ]
    counted = None if see is None else see.queries

    def local() -> tuple[Plan, Sequence[int]]:
        """What can be said of this rank's part alone."""
        plain = replace(given, mask=None, bias=None, segments=None, indices=None)
        check(_CALL, tensors, plain)
        check_dropout(_CALL, dropout)
        if see is not None:
            check_see(_CALL, _of_rows(see), q, k)
        choose(_CALL, backend, q, k)
        plan = planned(_CALL, layout, q.shape[1], k.shape[1], by)
        said = (scalars, wanted, flags, counted is None, dropout, backend, layout, by)
        rows = [_rows(x) for x in (given.mask, given.bias)]
        sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[3], v.shape[3]]
        sizes += [_DTYPES.index(q.dtype), torch.is_grad_enabled(), digest(said)]
        seed = drawn_seed() if dropout else 0
        cells = [_contents(x) if q.shape[2] == 1 else 0 for x in (given.mask, given.bias)]
        return plan, [*sizes, q.shape[2], k.shape[2], *rows, *cells, seed]

    plan, told = all_or_none(_CALL, ranks, local)
    alike = ("batch", "heads", "key heads", "width", "width of values", "type", "gradients")
    check_alike(_CALL, ranks, (*alike, "options"), told)
    n_queries = whole_length(_CALL, "q", layout, [each[8] for each in told])
    n_keys = whole_length(_CALL, "k", layout, [each[9] for each in told])
    # A mask for all queries has one row on all ranks; else each has the rows of its queries. Where
    # every rank has one query, a row that is the same on all is for all.
    for_all: list[bool] = []
    for place in (10, 11):
        differ = any(each[place] != each[8] for each in told)
        is_one = all(each[8] == 1 for each in told) and len({each[place + 2] for each in told}) == 1
        for_all.append(differ or is_one)

    def together() -> tuple[Options, Sequence[int]]:
        """What must fit the whole."""
        for name, place, is_for_all in zip(("mask", "bias"), (10, 11), for_all, strict=True):
            if is_for_all and any(each[place] > 1 for each in told):
                raise ValueError(
                    f"{_CALL}: {name} must have the rows of this rank's queries, or one row for "
                    f"all of them, on every rank; got {[each[place] for each in told]} rows for "
                    f"{[each[8] for each in told]} queries."
                )
        all_keys = k.new_zeros(()).expand(*k.shape[:2], n_keys, k.shape[3])
        options = check(_CALL, {"q": q, "k": all_keys}, replace(given, segments=None))
        if see is not None:
            check_see(_CALL, replace(see, queries=None, norms=None), q, all_keys)
        if given.segments is not None:
            every = q.new_zeros(()).expand(*q.shape[:2], n_queries, q.shape[3])
            plain = Options(segments=given.segments, position=given.position)
            whole = check(_CALL, {"q": every, "k": all_keys}, plain)
            options = replace(options, segments=whole.segments)
        return options, ()

    options, _ = all_or_none(_CALL, ranks, together)
    seed = told[0][14]
    chosen = choose(_CALL, backend, q, k)
    size = n_queries, n_keys
    return _Job(ranks, plan, size, options, (for_all[0], for_all[1]), dropout, seed, see, chosen)


def _of_rows(see: See) -> See:
    """Without what is of all keys."""
    return replace(see, spans=None, n_spans=0) if isinstance(cast("object", see), See) else see


def _rows(x: object) -> int:
    """Of a mask, for how many queries it has rows."""
    return 1 if not isinstance(x, Tensor) or x.dim() < 2 else x.shape[-2]


def _contents(x: Tensor | None) -> int:
    return 0 if x is None else digest(x.detach().tolist())


@dataclass(frozen=True, eq=False)
class _Job:
    """One attention, checked."""

    ranks: Ranks
    plan: Plan
    size: tuple[int, int]  # (Nq, Nk) of the whole
    options: Options  # as of `regard.attention`, masks and indices of this rank's rows
    for_all: tuple[bool, bool]  # is the mask, is the bias the same for all queries?
    dropout: float
    seed: int
    see: See | None
    backend: str

    def run(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Observation | None]:
        """The output and what was seen, of this rank's queries."""
        ranks, plan, (n_queries, n_keys) = self.ranks, self.plan, self.size
        dtype, options = computed_in(q.dtype), self._options()
        counted, norms = (None, None) if self.see is None else (self.see.queries, self.see.norms)
        if plan.heads > 1:
            q = self._to_heads(q, n_queries, plan.share, "q")
            k = self._to_heads(k, n_keys, plan.kv_share, "k")
            v = self._to_heads(v, n_keys, plan.kv_share, "v")
            if counted is not None:
                rows = to_heads(
                    ranks, plan, counted[:, None].byte(), n_queries, _one, "which queries count"
                )
                counted = rows[:, 0].bool()
            if norms is not None:
                norms = to_heads(ranks, plan, norms.detach(), n_keys, plan.share, "norms")
        see = None if self.see is None else replace(self.see, queries=counted, norms=norms)
        run = self._whole if plan.ring == 1 else self._round
        out, found = run(q, k, v, options, see)
        del q, k, v
        if plan.heads > 1:
            out = cast("Tensor", FromHeads.apply(out, ranks, plan, n_queries, plan.share, "output"))
        if self.see is None:
            return out, None
        for name, x in found.items():
            if name == "map":
                found[name] = join_maps(ranks, plan, x, dtype)
            elif plan.heads > 1:
                size = n_keys if name == "received" else n_queries
                found[name] = from_heads(ranks, plan, x, size, plan.share, name)
        runs = plan.layout.runs(n_queries, ranks.rank)
        first = runs[0][0] if len(runs) == 1 else None
        position = None if first is None else first + self.options.offset(*self.size)
        sinks = self.options.sinks
        sinks = None if sinks is None else sinks.detach().clone()
        return out, Observation(**found, n_keys=n_keys, position=position, sinks=sinks)

    # ── to a share of the heads ───────────────────────────────────────────────────────────────

    def _to_heads(self, x: Tensor, size: int, share: Share, name: str) -> Tensor:
        found = ToHeads.apply(x, self.ranks, self.plan, size, share, name)
        return cast("Tensor", found)

    def _options(self) -> Options:
        """The options of this rank's share of the heads, masks with the rows of its group."""
        plan, options = self.plan, self.options
        share = plan.share(self.ranks.rank)
        changed: dict[str, Tensor | None] = {}
        cells = (("mask", self.for_all[0]), ("bias", self.for_all[1]), ("indices", False))
        for name, is_for_all in cells:
            x: Tensor | None = getattr(options, name)
            if x is None:
                continue
            if is_for_all and x.requires_grad:
                x = cast("Tensor", _Alike.apply(x, self.ranks, name))
            if plan.heads > 1 and is_for_all:
                x = x if x.shape[1] == 1 else x[:, share]
            elif plan.heads > 1:
                of = _one if x.shape[1] == 1 else plan.share
                is_flag = x.dtype == torch.bool
                x = self._to_heads(x.byte() if is_flag else x, self.size[0], of, name)
                x = x.bool() if is_flag else x
            changed[name] = x
        if (sinks := options.sinks) is not None:
            if sinks.requires_grad:
                sinks = cast("Tensor", _Alike.apply(sinks, self.ranks, "sinks"))
            changed["sinks"] = sinks[share]
        return replace(options, **changed)

    # ── what is computed ──────────────────────────────────────────────────────────────────────

    def _whole(
        self, q: Tensor, k: Tensor, v: Tensor, options: Options, see: See | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """All tokens are here: an attention like any other, of a share of the heads."""
        seed = derived(self.seed, self.ranks.rank) if self.dropout else None
        problem = Problem(q, k, v, options, dropout=self.dropout, seed=seed)
        given = () if see is None else (see.queries, see.norms, see.spans)
        is_direct = may_go_direct((*problem.tensors, *(x for x in given if x is not None)))
        with computing("heads"):
            out, seen = (run if is_direct else operator.attend)(self.backend, problem, see)
        found: dict[str, Tensor] = {}
        if seen is not None:
            found = {name: x for name in FIELDS if (x := getattr(seen, name)) is not None}
        if "map" in found:  # as sums that nothing is added to
            found["map"] = torch.nn.functional.pad(found["map"].double(), (0, 1), value=1.0)
        return out, found

    def _round(
        self, q: Tensor, k: Tensor, v: Tensor, options: Options, see: See | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Keys and values travel, and a second time for map and received."""
        ring = Ring(
            self.ranks,
            self.plan,
            self.size,
            options,
            self.dropout,
            self.seed_of_share,
            self.backend,
        )
        see = See() if see is None else see
        out, merging = cast(
            "Any", RingAttention.apply(q, k, v, options.bias, options.sinks, ring, see)
        )
        found: dict[str, Tensor] = {}
        found |= {name: x for name in FIELDS if (x := getattr(merging, name, None)) is not None}
        if see.map is not None or see.received:
            with torch.no_grad():
                sums, received = look(ring, q.detach(), k.detach(), merging.lse, see, see.queries)
            found |= {} if sums is None else {"map": sums}
            found |= {} if received is None else {"received": received}
        return out, found

    @property
    def seed_of_share(self) -> int:
        return int(derived(self.seed, self.plan.share(self.ranks.rank).start))


def _one(_: int) -> slice:
    """What has one head for all goes to every rank."""
    return slice(0, 1)


class _Alike(torch.autograd.Function):
    """What all ranks have alike: its gradient is the sum of theirs, in their order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks, name: str) -> Tensor:
        ctx.rest = ranks, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ranks, name = ctx.rest
        own = grad.contiguous()
        parts = [torch.empty_like(own) for _ in range(ranks.count)]
        everyone = range(ranks.count)
        sends = [(peer, own) for peer in everyone]
        with ranks.together():
            ranks.swap(f"gradient of {name}", sends, list(enumerate(parts))).wait()
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total, None, None
