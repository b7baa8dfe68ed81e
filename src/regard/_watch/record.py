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
from regard.observation import Observation, See
from regard.run import Layer, Options


@dataclass
class _Piece:
    """What is kept of one call."""

    seen: Observation
    shares: dict[str, Tensor]
    queries: Tensor | None
    n_keys: int
    mask: Tensor | None  # those that differ from query to query
    bias: Tensor | None
    q: Held | None
    output: Tensor | None

    @property
    def n_queries(self) -> int:
        return self.seen.lse.shape[2]


@dataclass
class Record:
    """One text that one module looked at: a pass, or a prompt and what was generated from it."""

    name: str
    number: int  # of the layer, in the order of computation
    cross: bool
    see: See
    keep: frozenset[str]  # any of "q", "k", "v", "output"
    retention: Retention
    is_asked: bool  # for map and received: else they are left out without a note
    text: Text | None = None
    is_whole: bool = False  # nothing has stopped it from taking in the last call
    notes: list[str] = field(default_factory=list[str])
    _pieces: list[_Piece] = field(default_factory=list[_Piece])
    # Of the last call: its options, the position being that of the first, and which keys are real.
    _options: Options = field(default_factory=Options)
    _keys: Tensor | None = None
    _grows: bool = False
    _kv_heads: int = 0
    _start: int = 0  # the position of the first key that is still there
    _end: int = 0  # and behind the last one
    _base: int = 0  # the position in the text of the first key that was seen
    _first: Tensor | None = None  # the key vectors at `_start` and before `_end`
    _last: Tensor | None = None
    _first_real: Tensor | None = None  # (B or 1, 1): where the first real token stands
    _blocked: bool = False  # links of single queries
    # Keys, values, and which keys are real: of the last call, and what was new in each, as a cache
    # may forget what it held before.
    _held: dict[str, Held] = field(default_factory=dict[str, Held])
    _new: dict[str, list[Held]] = field(default_factory=dict[str, list[Held]])

    @property
    def n_queries(self) -> int:
        """How many it has seen."""
        return sum(piece.n_queries for piece in self._pieces)

    def continues(self, call: Call) -> bool:
        """Are these the keys of the last call and more, or, across sequences, the same again?"""
        call = replace(call, start=call.start - self._base)
        if self._last is None or call.cross != self.cross or not self.is_whole:
            return False
        n_keys = call.k.shape[2]
        if call.k.shape[:2] + call.k.shape[3:] != self._last.shape[:2] + self._last.shape[3:]:
            return False
        if call.q.shape[:2] != self._pieces[-1].seen.lse.shape[:2]:
            return False
        end = call.start + n_keys
        if self.cross:
            if end != self._end:
                return False
        elif end != self._end + call.q.shape[2] or not (call.options.causal or call.grows):
            return False
        last = self._end - 1 - call.start
        if not 0 <= last < n_keys or not torch.equal(call.k[:, :, last : last + 1], self._last):
            return False
        if call.start != self._start:
            return True
        assert self._first is not None
        return torch.equal(call.k[:, :, :1], self._first)

    def with_known_keys(self, call: Call) -> Call:
        """A step of this record. What is shut to its one query need not be padding: which of the
        keys before it are real is known, and the query itself is."""
        if call.keys is None:
            return call
        old = self._keys
        if old is None:
            old = call.keys.new_ones((call.keys.shape[0], self._end))
        if old.shape[1] >= call.keys.shape[1]:
            return call
        new = call.keys.shape[1] - old.shape[1]
        if torch.equal(call.keys[:, : old.shape[1]], old):
            return replace(call, queries=call.keys[:, -call.q.shape[2] :])
        keys = pad(old, (0, new), value=True)
        return replace(call, keys=None if bool(keys.all()) else keys, queries=None)

    def add(
        self, call: Call, output: Tensor, seen: Observation, tokens: Tensor | None, shares: bool
    ) -> None:
        """Take in one call, and what was seen of it. `tokens` (B, Nk) are the keys' token ids."""
        self.is_whole = False
        if not self._pieces and call.start:
            self._base = call.start
            self.notes.append(
                f"{self.name}: its first {call.start:,} keys had been forgotten when watching "
                f"began, so positions are counted from token {call.start:,} of the text."
            )
        call = self._with_copies(replace(call, start=call.start - self._base))
        options, n_keys, end = call.options, call.k.shape[2], call.start + call.k.shape[2]
        self._blocked = self._blocked or bool(call.links)
        has_both = {"q", "k"} <= self.keep
        with torch.no_grad():
            found: dict[str, Tensor] = {}
            if shares and not self.cross and n_keys:
                if self._first_real is None:
                    self._first_real = _first_real(call, self._base)
                tokens = None if tokens is None else tokens[:, self._base :]
                forgets = call.start > 0 or self._base > 0
                found = shares_of(call, seen.lse, self._first_real, tokens, forgets)
            if call.start and seen.top_keys is not None:
                keys = torch.where(seen.top_keys < 0, seen.top_keys, seen.top_keys + call.start)
                seen = replace(seen, top_keys=keys)
            piece = _Piece(
                seen,
                found,
                queries=None if call.queries is None else call.queries.clone(),
                n_keys=n_keys,
                mask=options.mask if has_both and not _is_of_keys(call) else None,
                bias=options.bias if has_both else None,
                q=self.retention.hold(call.q) if "q" in self.keep else None,
                output=output.detach().clone() if "output" in self.keep else None,
            )
            if not (self.cross and self._pieces):  # else they are the same again
                self._hold_keys(call, end - self._end)
            if n_keys:
                self._first = call.k[:, :, :1].detach().clone()
                self._last = call.k[:, :, -1:].detach().clone()
        position = self._options.position if self._pieces else call.position + call.start
        self._pieces.append(piece)
        self._options = replace(options, position=position)
        self._keys, self._grows, self._kv_heads = call.keys, call.grows, call.k.shape[1]
        self._start, self._end = call.start, end
        self.is_whole = True

    def _with_copies(self, call: Call) -> Call:
        """The call with masks that are nobody else's."""
        copied = {
            name: self.retention.copy(x)
            for name in ("mask", "bias", "lengths", "sinks")
            if (x := getattr(call.options, name)) is not None
        }
        keys = None if call.keys is None else call.keys.clone()
        return replace(call, options=replace(call.options, **copied), keys=keys)

    def _hold_keys(self, call: Call, new: int) -> None:
        """Hold on to the keys: to the tensor that has them all, and, if it forgets, to the new."""
        for name, x in (("k", call.k), ("v", call.v)):
            if name in self.keep:
                self._held[name] = self.retention.hold(x)
        if self.cross:
            return
        keys = call.keys
        if keys is None:
            shape = (call.k.shape[0], call.k.shape[2])
            keys = torch.ones(shape, dtype=torch.bool, device=call.k.device)
        for name, held in (*self._held.items(), ("keys", Held(keys, None))):
            axis = 1 if name == "keys" else 2
            self._new.setdefault(name, []).append(held.last(new, axis))

    def close(self, name: str) -> Layer:
        """The record as a layer of a run, under this name."""
        pieces, first = self._pieces, self._pieces[0]
        if self._start:
            self._recall()
        q, k, v = self._vectors()
        seen, queries = first.seen, None
        if any(piece.queries is not None for piece in pieces):
            queries = torch.cat([_all_real(piece) for piece in pieces], 1)
        if len(pieces) > 1:
            has_both = q is not None and k is not None
            self._options = self._options_by_row() if has_both else self._options_of_all()
            seen = self._joined(q, k, queries)
        self._count_what_is_not_finite(seen.lse, queries)
        shares = {
            share: torch.cat([piece.shares[share] for piece in pieces], 2)
            for share in first.shares
            if all(share in piece.shares for piece in pieces)
        }
        return Layer(
            name,
            seen,
            self._options,
            self.cross,
            self._kv_heads,
            queries,
            self._keys,
            shares,
            q=q,
            k=k,
            v=v,
            output=_joined([piece.output for piece in pieces]),
            notes=tuple(self.notes),
            versions=(version_of(q), version_of(k)),
        )

    def _recall(self) -> None:
        """All keys of a cache that has forgotten some of them: which of them are real."""
        keys = torch.cat([held.x for held in self._new["keys"]], 1)
        self._keys = None if bool(keys.all()) else keys
        mask = None if self._keys is None else self._keys[:, None, None, :]
        self._options = replace(self._options, mask=mask)

    def _vectors(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """q, k and v, None where they were not kept, or cannot give the weights any more."""
        held: dict[str, list[Held]] = {}
        if "q" in self.keep:
            held["q"] = [piece.q for piece in self._pieces if piece.q is not None]
        for name, x in self._held.items():
            held[name] = self._new[name] if self._start else [x]
        why = ""
        if self._blocked:
            why = "Links of single queries were blocked, which they do not show."
        elif any(each.is_written_over for some in held.values() for each in some):
            why = "The model has written over them since."
        if why and held:
            self.notes.append(f"q, k and v of {self.name}: not kept. {why}")
            held = {}
        if self._blocked and (self.see.map is not None or self.see.received):
            self.notes.append(
                f"map and received of {self.name}: not made, as links of single queries were "
                "blocked. Blocking a key for every query (query None) leaves them."
            )
        q, k, v = (_joined([each.x for each in held.get(name, ())]) for name in ("q", "k", "v"))
        return q, k, v

    def _count_what_is_not_finite(self, lse: Tensor, queries: Tensor | None) -> None:
        rows = lse.isnan() | (lse == torch.inf)
        if queries is not None:
            rows = rows & queries[:, None]
        count = int(rows.sum())
        if count:
            several = f"{count:,} rows of weights are" if count > 1 else "1 row of weights is"
            self.notes.append(
                f"{self.name}: {several} not finite, and in no mean. A NaN or an infinity in q, k "
                "or the bias makes them so."
            )

    def _options_of_all(self) -> Options:
        """The options without what was the last call's alone."""
        options, mask = self._options, self._options.mask
        if mask is not None and (mask.shape[-2] > 1 or mask.shape[-3] == 1):
            mask = None if self._keys is None else self._keys[:, None, None, :]
        return replace(options, mask=mask, bias=None, causal=options.causal or self._grows)

    def _options_by_row(self) -> Options:
        """The options with the mask and the bias of each call, one row a query, if they differ."""
        options = self._options
        if any(piece.mask is not None for piece in self._pieces):
            real = torch.ones(
                (1, self._end), dtype=torch.bool, device=self._pieces[0].seen.lse.device
            )
            real = (real if self._keys is None else self._keys)[:, None, None, :]
            masks = [
                real[..., : piece.n_keys] if piece.mask is None else piece.mask
                for piece in self._pieces
            ]
            options = replace(options, mask=self._rows(masks, fill=False))
        some = next((piece.bias for piece in self._pieces if piece.bias is not None), None)
        if some is not None:
            none = some.new_zeros(1)
            biases = [none if piece.bias is None else piece.bias for piece in self._pieces]
            options = replace(options, bias=self._rows(biases, fill=0.0))
        return options

    def _rows(self, parts: list[Tensor], fill: float | bool) -> Tensor:
        """Those of all pieces over all keys, `fill` being that of keys which came later."""
        rows: list[Tensor] = []
        for piece, x in zip(self._pieces, parts, strict=True):
            x = x[(None,) * (4 - x.dim())].expand(-1, -1, piece.n_queries, piece.n_keys)
            rows.append(pad(x, (0, self._end - piece.n_keys), value=fill))
        batch, heads = (max(x.shape[axis] for x in rows) for axis in (0, 1))
        return torch.cat([x.expand(batch, heads, -1, -1) for x in rows], 2)

    def _joined(self, q: Tensor | None, k: Tensor | None, queries: Tensor | None) -> Observation:
        """What was seen of all pieces. What depends on every query is made from q and k."""
        each = [piece.seen for piece in self._pieces]
        names = ("lse", "entropy", "top_keys", "top_weights", "distance")
        joined: dict[str, Any] = {
            name: _joined([getattr(seen, name) for seen in each]) for name in names
        }
        seen = Observation(
            **joined, n_keys=self._end, position=self._options.position, sinks=each[0].sinks
        )
        see = See(map=self.see.map, received=self.see.received, queries=queries)
        if self._blocked or (see.map is None and not see.received):
            return seen
        if q is not None and k is not None:
            _, whole = attention(q, k, k[..., :0], see=see, **self._options.arguments())
            return replace(seen, map=whole.map, received=whole.received)
        if self.is_asked:
            wanted = [name for name in ("map", "received") if getattr(see, name)]
            self.notes.append(
                f"{' and '.join(wanted)} of {self.name}: not made. The text grew while it was "
                "watched, so they can only be made at the end, from q and k: "
                'keep=("q", "k") keeps these.'
            )
        return seen


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """The parts one after the other along their queries or keys; None if they are not there."""
    some = [x for x in parts if x is not None]
    return torch.cat(some, 2) if len(some) > 1 else next(iter(some), None)


def _all_real(piece: _Piece) -> Tensor:
    if piece.queries is not None:
        return piece.queries
    lse = piece.seen.lse
    return torch.ones((lse.shape[0], lse.shape[2]), dtype=torch.bool, device=lse.device)


def _first_real(call: Call, base: int) -> Tensor:
    """(B or 1, 1): where the first real token stands, the first key that is there being `base`."""
    if call.keys is None or base:
        return torch.full((1, 1), -base, dtype=torch.int64, device=call.q.device)
    return call.keys.to(torch.int8).argmax(1, keepdim=True)


def _is_of_keys(call: Call) -> bool:
    """Is the mask the padding of the keys, and so the same for every query, also of later calls?"""
    mask = call.options.mask
    if mask is None:
        return True
    if call.keys is None or mask.dim() < 4 or mask.shape[2] != 1 or mask.shape[1] != 1:
        return False
    return torch.equal(mask[:, 0, 0].expand_as(call.keys), call.keys)
