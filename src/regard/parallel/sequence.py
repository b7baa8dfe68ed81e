"""`sequence`: a model that reads one text on many ranks, each its part of the tokens."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard._arguments import WrongType, WrongValue, shown
from regard._watch.call import Blocked, Call
from regard._watch.interventions import Interventions
from regard._watch.mixers import kind_of
from regard._watch.modules import output_of
from regard._watch.recording import Recording
from regard._watch.sharing import sharing
from regard._watch.watching import Watching
from regard.nn import EncoderModel, LanguageModel
from regard.observation import FIELDS, Observation, See
from regard.parallel._attention import attention
from regard.parallel.exchange import Ranks, ranks_of
from regard.parallel.layout import Kind, Layout, checked_kind
from regard.parallel.plan import By
from regard.parallel.shards import gather, gathered, shard

_CALL = "parallel.sequence()"
_MIXES = (nn.RNNBase, nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.MultiheadAttention)


@dataclass(frozen=True, eq=False)
class Part:
    """What a model gave for this rank's tokens.

    `output` (B, n, …) is its logits, or its vectors; `positions` (n,) is where they stand in the
    text.
    """

    output: Tensor
    positions: Tensor
    _mesh: Any
    _layout: Kind

    def gather(self) -> Tensor:
        """The output (B, N, …) for the whole text, on every rank; all of them must ask."""
        return gather(self.output, self._mesh, layout=self._layout, dim=1)


class sequence:
    """A model of `regard.nn` or transformers that reads one text on all ranks of a mesh.

    Each rank holds the whole model, and computes its part of the tokens; where attention is
    computed, they compute it together, as `regard.parallel.attention` does. What the model gives
    is what it gives on one rank, to rounding.

    A `regard.watch` inside sees the whole: its `Run` is the same on every rank, and that of one
    process. For that q and k of one layer at a time are gathered, O(N · D), and what was seen,
    O(N) a head, stays on every rank; with keep=("q", "k") these do, too.

    - `layout`: "zigzag" unless given, which shares causal work out evenly
    - `by`, `timeout`: as for `regard.parallel.attention`

    Gradients of weights are of this rank's tokens: sum them over the ranks. Models that mix tokens
    by more than attention, or bias it by position (ALiBi, T5), are refused.

    >>> import regard, torch.distributed as dist  # one rank here; torchrun starts more
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> config = regard.nn.LanguageModelConfig(vocabulary=11, width=6, heads=3)
    >>> model, ids = LanguageModel(config), torch.tensor([[1, 2, 3, 4, 5]])  # whole on every rank
    >>> with sequence(model, dist.group.WORLD) as shared, regard.watch(model) as run:
    ...     part = shared(ids)
    >>> part.positions  # of this rank's tokens, whose logits are part.output
    tensor([0, 1, 2, 3, 4])
    >>> torch.allclose(part.gather(), model(ids))
    True
    >>> run.layer(0).entropy.shape
    torch.Size([1, 3, 5])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        model: nn.Module,
        mesh: Any,
        *,
        layout: Kind = "zigzag",
        by: By | None = None,
        timeout: float | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(
                f"{_CALL}: model must be a torch.nn.Module; got {shown(model)}. "
                "regard.models.load(name).model is one."
            )
        self._model, self._mesh = model, mesh
        self._layout: Kind = checked_kind(_CALL, layout)
        self._options: dict[str, Any] = {"mesh": mesh, "layout": layout, "by": by}
        self._options["timeout"] = timeout
        self._ranks = ranks_of(_CALL, mesh, timeout)
        accepted = inspect.signature(model.forward).parameters
        self._is_own = isinstance(model, LanguageModel | EncoderModel)
        self._position_name = "positions" if self._is_own else "position_ids"
        takes_more = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
        self._accepted = set(accepted)
        mixing = [
            f"{name} ({kind_of(module) or type(module).__name__})"
            for name, module in model.named_modules()
            if isinstance(module, _MIXES) or kind_of(module) is not None
        ]
        if mixing or not (self._is_own or takes_more or "position_ids" in accepted):
            found = mixing[0] if mixing else "no position_ids in its forward"
            raise WrongValue(
                f"{_CALL}: model must mix tokens by attention alone, and take their positions; "
                f"{type(model).__name__} has {found}. LanguageModel and EncoderModel of regard.nn, "
                "and decoders and encoders of transformers, do."
            )

    def __enter__(self) -> sequence:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, ids: Tensor, *, attention_mask: Tensor | None = None, **given: Any) -> Part:
        """The model's output for this rank's part of `ids` (B, N), which every rank has whole.

        `attention_mask` (B, N), True or 1 where there is a real token, and other tensors (B, N)
        are whole, too; all else goes to the model as it is.
        """
        if getattr(self._model, "is_gradient_checkpointing", False) and self._model.training:
            raise WrongValue(
                f"{_CALL}: the model must keep what its backward pass needs; got one that computes "
                "it once more (gradient checkpointing), when the text is not shared any more. "
                "model.gradient_checkpointing_disable()."
            )
        if ids.dim() != 2 or ids.is_floating_point():
            raise WrongType(
                f"{_CALL}: ids must be (B, N), whole numbers; got {tuple(ids.shape)}, {ids.dtype}. "
                "Every rank has them whole."
            )
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        real = None if attention_mask is None else attention_mask.bool()
        if real is not None and self._is_own:
            positions = (real.cumsum(1) - 1).clamp(min=0)
        where = given.pop(self._position_name, None)
        cut: dict[str, Any] = {"mesh": self._mesh, "layout": self._layout}
        positions = positions if where is None else where
        arguments: dict[str, Any] = {self._position_name: shard(positions, **cut)}
        for name, x in given.items():
            is_whole = isinstance(x, Tensor) and x.dim() >= 2 and x.shape[:2] == ids.shape
            arguments[name] = shard(x, **cut) if is_whole else x
        own = shard(ids, **cut)
        if not self._is_own:
            # So that jumps between positions are not taken for packed sequences.
            arguments["attention_mask"] = torch.ones_like(own)
            if "use_cache" in self._accepted:
                arguments["use_cache"] = False
        if real is not None and bool(real.all()):
            real = None
        shared = _Shared(
            ids, real, self._ranks, Layout(self._layout, self._ranks.count), self._options
        )
        with self._ranks.together(), ExitStack() as stack:
            stack.enter_context(sharing(shared))
            watching = Watching.around(self._model)
            if watching is None:
                watching = stack.enter_context(_quietly(self._model))
            result = self._model(own, **arguments)
            if watching.unseen:
                raise WrongValue(
                    f"{_CALL}: all attention of the model must be seen, to be computed by all "
                    f"ranks; some was not: {watching.unseen[0]}"
                )
        if not shared.count:
            raise WrongValue(
                f"{_CALL}: the model must compute attention that can be seen; got none. "
                "regard.watch(model) says what it sees."
            )
        output = output_of(result)
        if output is None or output.shape[:2] != own.shape:
            found = None if output is None else tuple(output.shape)
            raise WrongValue(
                f"{_CALL}: the model must give (B, n, …) = {tuple(own.shape)}, one row a token; "
                f"got {found}."
            )
        place = shard(torch.arange(ids.shape[1], device=ids.device), dim=0, **cut)
        return Part(output, place, self._mesh, self._layout)


class _quietly:
    """Attention of a model goes by us, and nothing is put on record."""

    def __init__(self, model: nn.Module) -> None:
        quiet = Recording(
            model, See(), frozenset(), (), Interventions(model, None, None), None, None
        )
        self._watching = Watching(model, quiet, None)

    def __enter__(self) -> Watching:
        self._watching.enter()
        return self._watching

    def __exit__(self, *_: object) -> None:
        self._watching.release()


# ── one attention ─────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class _Shared:
    """A text that is being read on all ranks."""

    ids: Tensor  # (B, N), whole
    real: Tensor | None  # (B, N), which of them are no padding
    ranks: Ranks
    layout: Layout
    options: dict[str, Any]
    count: int = field(default=0, init=False)  # of attentions

    def over(self, call: Call, keep: frozenset[str], is_watched: bool) -> Call:
        """The call as one of the whole: tensors are gathered if it goes on record."""
        self.count += 1
        size = self.ids.shape[1]
        options = call.options
        length = self.layout.length(size, self.ranks.rank)
        is_part = call.q.shape[2] == call.k.shape[2] == length and type(call) is Call
        wrong = [
            name for name in ("bias", "segments", "indices") if getattr(options, name) is not None
        ]
        wrong += ["mask"] * (options.mask is not None) + ["links"] * bool(call.links)
        wrong += ["a position"] * (options.position not in (None, 0)) + ["lengths"] * (
            options.lengths is not None
        )
        if not is_part or wrong or call.cross or call.start or call.spans is not None:
            what = wrong[0] if wrong else "keys of another sequence, or scores of its own"
            raise WrongValue(
                f"{_CALL}: attention must be of the text itself, by position and window alone; got "
                f"{what}. Padding is said by attention_mask, of the whole."
            )
        if is_watched and keep & {"output", "hidden_states"}:
            raise WrongValue(
                f"{_CALL}: watch must keep some of q, k and v; got {', '.join(sorted(keep))}. "
                "Outputs and hidden states stay with the rank that has the tokens."
            )
        real = self.real
        mask = None if real is None else real[:, None, None, :]
        options = replace(options, mask=mask, position=0)
        q, k, v = call.q, call.k, call.v
        if is_watched:
            q, k = (gathered(x, self.ranks, self.layout, size, 2) for x in (q, k))
            v = gathered(v, self.ranks, self.layout, size, 2) if "v" in keep else k
        return _Whole(
            q,
            k,
            v,
            options,
            call.dropout,
            is_cross_known=True,
            queries=real,
            keys=real,
            backend=call.backend,
            ablated=call.ablated,
            part=call,
            shared=self,
        )


@dataclass(frozen=True, eq=False)
class _Whole(Call):
    """An attention of the whole text, whose output here is that of this rank's part."""

    part: Call | None = None
    shared: _Shared | None = None

    def _compute(self, see: See | None) -> tuple[Tensor, Observation | None]:
        part, shared = self.part, self.shared
        assert part is not None
        assert shared is not None
        if self.links or (self.options.mask is not None and self.options.mask.shape[1] > 1):
            raise WrongValue(
                f"{_CALL}: links of a model that is read on several ranks cannot be blocked. "
                "Heads can be ablated."
            )
        layout, ranks, size = shared.layout, shared.ranks, shared.ids.shape[1]
        if see is not None and self.queries is not None:
            own = shard(self.queries, shared.options["mesh"], layout=layout.kind)
            see = replace(see, queries=own)
        see = None if see is None else self._with_labels(see)
        arguments = self.options.arguments() | shared.options
        arguments |= {"dropout": self.dropout, "see": see, "backend": self.backend}
        found = attention(part.q, part.k, part.v, **arguments)
        if see is None:
            return found, None
        out, seen = found
        whole = {
            name: gathered(x, ranks, layout, size, 2)
            for name in FIELDS
            if name != "map" and (x := getattr(seen, name)) is not None
        }
        return out, Observation(**whole, map=seen.map, n_keys=size, position=0, sinks=seen.sinks)

    def without(self, links: Any, rows: int = 1) -> Call:
        raise WrongValue(
            f"{_CALL}: links of a model that is read on several ranks cannot be blocked. "
            "Heads can be ablated."
        )

    def with_links(self, links: dict[int, list[Blocked]]) -> Call:
        return self.without(links)

    def remembered(self, **changes: Any) -> Call:
        return replace(self, part=None, shared=None, **changes)
