"""`Record`: the calls of one attention module that belong together, on their way to a `Layer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard._attention import attention
from regard._watch.call import Call
from regard._watch.retention import Held, Retention, version_of
from regard._watch.shares import shares_of
from regard._watch.tokens import Text
from regard.observation import FIELDS, Observation, See
from regard.run import Layer, Options
from regard.run.layer import from_scores

# What is looked at if nobody asks. What of it cannot be made is left out without a note.
USUAL = See(entropy=True, top=8, map=(64, 64), distance=True)


@dataclass
class _Piece:
    """What is kept of one call."""

    seen: Observation
    shares: dict[str, Tensor]
    queries: Tensor | None  # (B, Nq), which are real
    keys: Tensor | None  # the same of the keys that were new
    n_keys: int
    n_new: int
    mask: Tensor | None  # those that differ from query to query
    bias: Tensor | None
    indices: Tensor | None
    output: Tensor | None
    # q, what was new in k and v, as a cache may forget the old, and scores of the module's own.
    held: dict[str, Held]


@dataclass
class Record:
    """One text that one module looked at: a pass, or a prompt and what was generated from it."""

    name: str
    number: int  # of the layer, in the order of computation
    cross: bool
    see: See
    retention: Retention
    text: Text | None = None
    is_whole: bool = False  # nothing has stopped it from taking in the last call
    notes: list[str] = field(default_factory=list[str])
    _pieces: list[_Piece] = field(default_factory=list[_Piece])
    _last: Call | None = None  # the last call, of whose tensors there are its first and last key
    _held: dict[str, Held] = field(default_factory=dict[str, Held])  # k and v of the last call
    _end: int = 0  # the position behind the last key
    _base: int = 0  # the position in the text of the first key that was seen: there it begins
    _first_real: Tensor | None = None  # (B or 1, 1): where the first real token stands
    _is_blocked: bool = False  # links of single queries
    is_own: bool = False  # the module computes by itself
    # (B, H, room) What each key has received so far; None if a call did not say.
    _received: Tensor | None = None

    @property
    def n_queries(self) -> int:
        """How many it has seen."""
        return sum(piece.seen.lse.shape[2] for piece in self._pieces)

    def continues(self, call: Call) -> bool:
        """Are these the keys of the last call and more, or, across sequences, the same again?"""
        last = self._last
        if last is None or call.cross != self.cross or not self.is_whole:
            return False
        if not call.options.segments is last.options.segments is None:
            return False  # packed sequences are complete
        if not call.spans is last.spans is None:
            return False  # what stands behind the text would come between
        n_queries, n_keys, start = call.q.shape[2], call.k.shape[2], call.start - self._base
        if call.k.shape[:2] + call.k.shape[3:] != last.k.shape[:2] + last.k.shape[3:]:
            return False
        if call.q.shape[:2] != self._pieces[-1].seen.lse.shape[:2]:
            return False
        new = start + n_keys - self._end
        if new != (0 if self.cross else n_queries):
            return False
        if not self.cross and not (call.options.causal or call.grows):
            return False
        old = n_keys - new - 1  # where the last key of the last call would be
        if old < 0 or not _is_same(call.k[:, :, old : old + 1], last.k[:, :, -1:]):
            return False
        return start != last.start or _is_same(call.k[:, :, :1], last.k[:, :, :1])

    def with_known_keys(self, call: Call) -> Call:
        """A step of this record. What is forbidden to its one query need not be padding: which of
        the keys before it are real is known, and the query itself is."""
        if call.keys is None or self._last is None:
            return call
        old = self._last.keys
        if old is None:
            old = call.keys.new_ones((call.keys.shape[0], self._end))
        new = call.keys.shape[1] - old.shape[1]
        if new <= 0:
            return call
        if torch.equal(call.keys[:, : old.shape[1]], old):
            return replace(call, queries=call.keys[:, -call.q.shape[2] :])
        keys = pad(old, (0, new), value=True)
        return replace(call, keys=None if bool(keys.all()) else keys, queries=None)

    def add(
        self,
        call: Call,
        output: Tensor,
        seen: Observation,
        tokens: Tensor | None,
        shares: Sequence[str],
    ) -> None:
        """Take in one call, and what was seen of it. `tokens` (B, Nk) are the keys' token ids."""
        self.is_whole = False
        if not self._pieces and call.start:
            self._base = call.start
            self.notes.append(
                f"{self.name}: its first {call.start:,} keys had been forgotten when watching "
                f"began, so positions are counted from token {call.start:,} of the text."
            )
        if self._base:
            call = replace(call, start=call.start - self._base)
        hold, keep = self.retention.hold, self.retention.keep
        options, k = call.options, call.k.detach()
        for name in ("mask", "bias", "lengths", "sinks", "segments", "indices"):
            if (x := getattr(call.options, name)) is not None:
                options = replace(options, **{name: self.retention.copy(x)})
        keys = None if call.keys is None else call.keys.clone()
        n_keys, end = k.shape[2], call.end
        new = end - self._end
        found: dict[str, Tensor] = {}
        if shares and not self.cross and n_keys:
            if self._first_real is None:
                self._first_real = torch.full((1, 1), -self._base, device=call.q.device)
                if keys is not None and not self._base:
                    self._first_real = keys.byte().argmax(1, keepdim=True)
            tokens = None if tokens is None else tokens[:, self._base :]
            forgets = call.start > 0 or self._base > 0
            found = shares_of(call.plain, seen.lse, self._first_real, tokens, forgets, shares)
        for name in ("top_keys", "contribution_keys") if call.start else ():
            if (named := getattr(seen, name)) is not None:
                moved = torch.where(named < 0, named, named + call.start)
                seen = replace(seen, **{name: moved})
        seen = self._running(seen, call.start, end)
        vectors = {name: x for name, x in call.vectors.items() if name in keep}
        held = {"q": hold(vectors.pop("q"))} if "q" in vectors else {}
        if not (self.cross and self._pieces):  # else they are the same again
            self._held = {name: hold(x) for name, x in vectors.items()}
            if not self.cross:
                held |= {name: x.last(new) for name, x in self._held.items()}
        has_both = {"q", "k"} <= keep
        if has_both and call.scores is not None:
            held["scores"] = hold(call.scores)
        piece = _Piece(
            seen,
            found,
            queries=None if call.queries is None else call.queries.clone(),
            keys=None if keys is None else keys[:, n_keys - new :].clone(),
            n_keys=n_keys,
            n_new=new,
            mask=options.mask if has_both and not _is_of_keys(call) else None,
            bias=options.bias if has_both else None,
            indices=options.indices if has_both else None,
            output=output.detach().clone() if "output" in keep else None,
            held=held,
        )
        self._is_blocked = self._is_blocked or bool(call.links)
        self.is_own = self.is_own or call.scores is not None
        ends = torch.cat([k[:, :, :1], k[:, :, -1:]], 2)
        self._pieces.append(piece)
        self._last = call.remembered(q=ends, k=ends, v=ends, options=options, keys=keys)
        self._end = end
        self.is_whole = True

    def _running(self, seen: Observation, start: int, end: int) -> Observation:
        """Add what the keys of a call received to what they had; the rest of what was seen."""
        if seen.received is None or (self._pieces and self._received is None):
            self._received = None
            return seen
        before = now = self._received
        if now is None or now.shape[2] < end:
            room = (*seen.received.shape[:2], end if before is None else 2 * end)
            dtype = torch.float32 if seen.received.device.type == "mps" else torch.float64
            now = self._received = seen.received.new_zeros(room, dtype=dtype)
            if before is not None:
                now[:, :, : self._end] = before[:, :, : self._end]
        with torch.inference_mode():  # there both kinds of tensors may be written to
            now[:, :, start:end] += seen.received
        return replace(seen, received=None)

    def close(self, name: str) -> Layer:
        """The record as a layer of a run, under this name."""
        last, pieces, first = self._last, self._pieces, self._pieces[0]
        assert last is not None
        keys, queries = last.keys, None
        options = replace(last.options, position=first.seen.position)
        if last.start:  # a cache has forgotten the first keys: here they are again
            keys = torch.cat([_real(x.keys, x.seen.lse, x.n_new) for x in pieces], 1)
            keys = None if bool(keys.all()) else keys
            options = replace(options, mask=None if keys is None else keys[:, None, None, :])
        q, k, v = self._vectors(is_forgotten=last.start > 0)
        scores = self._scores()
        seen = first.seen
        if any(piece.queries is not None for piece in pieces):
            queries = [_real(x.queries, x.seen.lse, x.seen.lse.shape[2]) for x in pieces]
            queries = torch.cat(queries, 1)
        if len(pieces) > 1:
            if scores is not None or (q is not None and k is not None):
                options = self._options_by_row(options, keys)
            else:
                # Without what was the last call's alone.
                mask = options.mask
                if mask is not None and (mask.shape[-2] > 1 or mask.shape[-3] == 1):
                    mask = None if keys is None else keys[:, None, None, :]
                causal = options.causal or last.grows
                options = replace(options, mask=mask, bias=None, indices=None, causal=causal)
            seen = self._joined(options, q, k, scores, queries)
        if self._received is not None:
            received = self._received[:, :, : self._end].to(seen.lse.dtype, copy=True)
            seen = replace(seen, received=received)
        spoilt = seen.lse.isnan() | (seen.lse == torch.inf)
        count = int((spoilt if queries is None else spoilt & queries[:, None]).sum())
        if count:
            several = f"{count:,} rows of weights are" if count > 1 else "1 row of weights is"
            self.notes.append(
                f"{self.name}: {several} not finite, and in no mean. A NaN or an infinity in q, k "
                "or the bias makes them so."
            )
        return Layer(
            name,
            seen,
            options,
            self.cross,
            last.k.shape[1],
            queries,
            keys,
            shares={
                share: torch.cat([piece.shares[share] for piece in pieces], 2)
                for share in first.shares
                if all(share in piece.shares for piece in pieces)
            },
            q=q,
            k=k,
            v=v,
            output=_cat([piece.output for piece in pieces]),
            scores=scores,
            notes=tuple(self.notes),
            spans=last.spans,
            versions=(version_of(q), version_of(k), version_of(scores)),
        )

    def _vectors(self, is_forgotten: bool) -> list[Tensor | None]:
        """q, k and v, None where they were not kept, or cannot give the weights any more."""
        held = {name: [x] for name, x in self._held.items()}
        for name in self._pieces[0].held:
            if name == "q" or (is_forgotten and name != "scores"):
                held[name] = [piece.held[name] for piece in self._pieces]
        why = ""
        if self._is_blocked:
            why = "Links of single queries were blocked, which they do not show."
        elif any(each.is_written_over for some in held.values() for each in some):
            why = "The model has written over them since."
        if why and held:
            self.notes.append(f"q, k and v of {self.name}: not kept. {why}")
            held = {}
        if self._is_blocked and (self.see.map is not None or self.see.received):
            self.notes.append(
                f"map and received of {self.name}: not made, as links of single queries were "
                "blocked. Blocking a key for every query (query None) leaves them."
            )
        return [_cat([each.x for each in held.get(name, ())]) for name in ("q", "k", "v")]

    def _scores(self) -> Tensor | None:
        """Those of the module's own, row by row, if they were kept: −inf at keys to come."""
        held = [piece.held.get("scores") for piece in self._pieces]
        some = [x for x in held if x is not None and not x.is_written_over]
        if len(some) < len(held):
            return None
        if len(some) == 1:
            return some[0].x
        rows = (pad(each.x, (0, self._end - each.x.shape[3]), value=-torch.inf) for each in some)
        return torch.cat(list(rows), 2)

    def _options_by_row(self, options: Options, keys: Tensor | None) -> Options:
        """The options with the mask and the bias of each call, one row a query, if they differ."""
        for name, fill in (("mask", False), ("bias", 0.0)):
            given: list[Tensor | None] = [getattr(piece, name) for piece in self._pieces]
            some = next((x for x in given if x is not None), None)
            if some is None:
                continue
            rows: list[Tensor] = []
            for piece, x in zip(self._pieces, given, strict=True):
                if x is None and name == "mask" and keys is not None:
                    x = keys[:, None, None, : piece.n_keys]
                elif x is None:
                    x = some.new_full((1,), name == "mask")
                shape = (-1, -1, piece.seen.lse.shape[2], piece.n_keys)
                x = x[(None,) * (4 - x.dim())].expand(shape)
                rows.append(pad(x, (0, self._end - piece.n_keys), value=fill))
            batch, heads = (max(x.shape[axis] for x in rows) for axis in (0, 1))
            joined = torch.cat([x.expand(batch, heads, -1, -1) for x in rows], 2)
            options = replace(options, **{name: joined})
        return replace(options, indices=self._all_indices())

    def _all_indices(self) -> Tensor | None:
        """The keys chosen in each call, one row a query; all keys, where none were chosen."""
        given = [piece.indices for piece in self._pieces]
        if all(x is None for x in given):
            return None
        rows: list[Tensor] = []
        for piece, x in zip(self._pieces, given, strict=True):
            if x is None:
                every = torch.arange(piece.n_keys, device=piece.seen.lse.device)
                x = every.expand(1, 1, piece.seen.lse.shape[2], -1)
            rows.append(x)
        batch, heads, count = (max(x.shape[axis] for x in rows) for axis in (0, 1, 3))
        # In front, where what is no key stands, so that they go on ascending.
        full = (pad(x, (count - x.shape[3], 0), value=-1) for x in rows)
        return torch.cat([x.expand(batch, heads, -1, -1) for x in full], 2)

    def _joined(
        self,
        options: Options,
        q: Tensor | None,
        k: Tensor | None,
        scores: Tensor | None,
        queries: Tensor | None,
    ) -> Observation:
        """What was seen of all pieces. A map, which depends on every query, is made from q and k,
        or from scores of the module's own."""
        each = [piece.seen for piece in self._pieces]
        names = [name for name in FIELDS if name not in ("map", "received")]
        joined: dict[str, Any] = {name: _cat([getattr(x, name) for x in each]) for name in names}
        position, sinks = options.position, each[0].sinks
        seen = Observation(**joined, n_keys=self._end, position=position, sinks=sinks)
        if self._is_blocked or self.see.map is None:
            return seen
        if scores is not None:
            q, k, options = from_scores(scores, options.position)
        if q is not None and k is not None:
            see = See(map=self.see.map, queries=queries)
            _, whole = attention(q, k, k[..., :0], see=see, **options.arguments())
            return replace(seen, map=whole.map)
        if self.see is not USUAL:
            self.notes.append(
                f"map of {self.name}: not made. The text grew while it was watched, so it can only "
                'be made at the end, from q and k: keep=("q", "k") keeps these.'
            )
        return seen


def _is_same(key: Tensor, before: Tensor) -> bool:
    """Is it the same key, perhaps made anew from what a cache holds, and so rounded otherwise?"""
    if torch.equal(key, before):
        return True
    least = 16 * torch.finfo(before.dtype).eps * before.abs().amax(-1, keepdim=True)
    return bool(((key - before).abs() <= least).all())


def _cat(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The parts one after the other along their queries or keys; None if they are not there."""
    some = [x for x in parts if x is not None]
    return torch.cat(some, 2) if len(some) > 1 else next(iter(some), None)


def _real(x: Tensor | None, like: Tensor, count: int) -> Tensor:
    """(B, count): which tokens are real, None being all."""
    shape = (like.shape[0], count)
    return torch.ones(shape, dtype=torch.bool, device=like.device) if x is None else x


def _is_of_keys(call: Call) -> bool:
    """Is the mask the padding of the keys, and so the same for every query, also of later calls?"""
    mask = call.options.mask
    if mask is None:
        return True
    if call.keys is None or mask.dim() < 4 or mask.shape[2] != 1 or mask.shape[1] != 1:
        return False
    return torch.equal(mask[:, 0, 0].expand_as(call.keys), call.keys)
