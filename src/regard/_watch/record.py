"""`Record`: the calls of one attention module that belong together, on their way to a `Layer`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard._attention import attention
from regard._watch.call import Call, weights_at
from regard._watch.retention import Copies, Owned, TextKeys, version_of
from regard._watch.tokens import Text
from regard.observation import Observation, See
from regard.run import Layer, Options

__all__ = ["Keep", "Record"]

Keep = frozenset[str]  # of "q", "k", "v", "output"


@dataclass
class _Piece:
    seen: Observation
    shares: dict[str, Tensor]
    queries: Tensor | None
    n_keys: int
    mask: Tensor | None = None  # those that differ from query to query
    bias: Tensor | None = None
    q: Tensor | None = None
    output: Tensor | None = None


@dataclass
class Record:
    """One text that one module looked at: a pass, or a prompt and what was generated from it."""

    name: str
    cross: bool
    see: See
    owned: Owned
    copies: Copies
    keep: Keep = frozenset()
    number: int = 0  # of the layer, in the order of computation
    nth: int = 0  # which call of the module it was in its pass
    text: Text | None = None
    is_whole: bool = False  # nothing has stopped it from taking in the last call
    is_asked: bool = True  # for map and received: else they are left out without a word
    pieces: list[_Piece] = field(default_factory=list[_Piece])
    options: Options = field(default_factory=Options)
    keys: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    kv_heads: int = 0
    end: int = 0  # the position behind the last key
    start: int = 0  # and of the first one that is still there
    notes: list[str] = field(default_factory=list[str])
    _first: Tensor | None = None  # the key vectors at `start` and before `end`
    _last: Tensor | None = None
    _first_real: Tensor | None = None  # (B or 1, 1): where the first real token stands
    _blocked: bool = False  # links of single queries
    _grows: bool = False
    # Of what is held but not copied: the tensor, and how often it had been written to.
    _versions: dict[str, tuple[Tensor, int]] = field(default_factory=dict[str, tuple[Tensor, int]])
    _all: dict[str, TextKeys] = field(default_factory=dict[str, TextKeys])  # k, v, which are real
    _base: int = 0  # the position in the text of the first key that was seen

    @property
    def _forgets(self) -> bool:
        return self.start > 0

    @property
    def n_queries(self) -> int:
        """How many it has seen."""
        return sum(piece.seen.lse.shape[2] for piece in self.pieces)

    def continues(self, call: Call) -> bool:
        """Are these the keys of the last call and more, or, across sequences, the same again?"""
        call = replace(call, start=call.start - self._base)
        if self._last is None or call.cross != self.cross or not self.is_whole:
            return False
        n_keys = call.k.shape[2]
        if call.k.shape[:2] + call.k.shape[3:] != self._last.shape[:2] + self._last.shape[3:]:
            return False
        if call.q.shape[:2] != self.pieces[-1].seen.lse.shape[:2]:
            return False
        end = call.start + n_keys
        if self.cross:
            if end != self.end:
                return False
        elif end != self.end + call.q.shape[2] or not (call.options.causal or call.grows):
            return False
        last = self.end - 1 - call.start
        if not 0 <= last < n_keys or not torch.equal(call.k[:, :, last : last + 1], self._last):
            return False
        if call.start != self.start:
            return True
        assert self._first is not None
        return torch.equal(call.k[:, :, :1], self._first)

    def add(
        self, call: Call, output: Tensor, seen: Observation, tokens: Tensor | None, shares: bool
    ) -> None:
        """Take in one call, and what was seen of it. `tokens` (B, Nk) are the keys' token ids."""
        self.is_whole = False
        n_keys = call.k.shape[2]
        if not self.pieces and call.start:
            self._base = call.start
            self.notes.append(
                f"{self.name}: its first {call.start:,} keys had been forgotten when watching "
                f"began, so positions are counted from token {call.start:,} of the text."
            )
        call = self._own(replace(call, start=call.start - self._base))
        if tokens is not None:
            tokens = tokens[:, self._base :]
        if call.links:
            self._blocked = True
        has_both = {"q", "k"} <= self.keep
        with torch.no_grad():
            found = self._shares(call, seen.lse, tokens) if shares else {}
            if call.start and seen.top_keys is not None:
                keys = torch.where(seen.top_keys < 0, seen.top_keys, seen.top_keys + call.start)
                seen = replace(seen, top_keys=keys)
            self.pieces.append(
                _Piece(
                    seen,
                    found,
                    None if call.queries is None else call.queries.clone(),
                    n_keys,
                    call.options.mask if has_both and not _is_of_keys(call) else None,
                    call.options.bias if has_both else None,
                    self._held(f"q {len(self.pieces)}", call.q) if "q" in self.keep else None,
                    output.detach().clone() if "output" in self.keep else None,
                )
            )
            self._keep_keys(call)
            if n_keys:
                self._first = call.k[:, :, :1].detach().clone()
                self._last = call.k[:, :, -1:].detach().clone()
        if len(self.pieces) == 1:
            self.options = replace(call.options, position=call.position + call.start)
        else:
            # Padding may have grown with the keys; all else is as it was.
            self.options = replace(
                call.options, position=self.options.position, lengths=call.options.lengths
            )
        self.keys = call.keys
        self._grows = call.grows
        self.kv_heads = call.k.shape[1]
        self.start, self.end = call.start, call.start + n_keys
        self.is_whole = True

    def _own(self, call: Call) -> Call:
        """The call with masks that are nobody else's."""
        options = call.options
        copied = {
            name: self.copies.of(x)
            for name in ("mask", "bias", "lengths", "sinks")
            if (x := getattr(options, name)) is not None
        }
        keys = None if call.keys is None else call.keys.clone()
        return replace(call, options=replace(options, **copied), keys=keys)

    def _held(self, name: str, x: Tensor) -> Tensor:
        """x, if nobody is known to write into it; whether somebody did is looked at in the end."""
        x = self.owned.held(x)
        version = version_of(x)
        if version is not None:
            self._versions[name] = x, version
        return x

    def _is_written_over(self) -> bool:
        # Of a cache that forgets, the first keys are used, and copies of the others.
        unused = ("k", "v") if self._forgets else ("first k", "first v")
        held = (each for name, each in self._versions.items() if name not in unused)
        return any(x._version != version for x, version in held)

    def _keep_keys(self, call: Call) -> None:
        """Hold on to the keys: to the tensor that has them all, or, if it forgets, to the new."""
        if self.cross and self.pieces[1:]:
            return  # the same again
        self.k = self._held("k", call.k) if "k" in self.keep else None
        self.v = self._held("v", call.v) if "v" in self.keep else None
        if self.cross:
            return
        new = call.start + call.k.shape[2] - self.end
        keys = call.keys
        if keys is None:
            shape = (call.k.shape[0], call.k.shape[2])
            keys = torch.ones(shape, dtype=torch.bool, device=call.k.device)
        for name, x, axis in (("keys", keys, 1), ("k", self.k, 2), ("v", self.v, 2)):
            if x is not None:
                self._all.setdefault(name, TextKeys()).add(x, new, axis)
        if len(self.pieces) == 1:
            firsts = {f"first {name}": self._versions.get(name) for name in ("k", "v")}
            self._versions |= {name: each for name, each in firsts.items() if each is not None}

    def _recall(self) -> None:
        """All keys of a cache that has forgotten some of them."""
        self.k, self.v = (self._all[x].all(2) if x in self._all else None for x in ("k", "v"))
        keys = self._all["keys"].all(1)
        self.keys = None if keys is None or bool(keys.all()) else keys
        mask = None if self.keys is None else self.keys[:, None, None, :]
        self.options = replace(self.options, mask=mask)

    def _shares(self, call: Call, lse: Tensor, tokens: Tensor | None) -> dict[str, Tensor]:
        """The weight of each query on keys that have a name."""
        if self.cross or not call.k.shape[2]:
            return {}
        device = call.q.device
        p = (torch.arange(call.q.shape[2], device=device) + call.position)[None]
        if self._first_real is None:
            self._first_real = (
                torch.full((1, 1), -self._base, dtype=torch.int64, device=device)
                if call.keys is None or self._base
                else call.keys.to(torch.int8).argmax(1, keepdim=True)
            )
        first = (self._first_real - call.start).expand(-1, p.shape[1])
        indices = {"first": first, "self": p, "previous": _real(p - 1, call.keys)}
        end = call.start + call.k.shape[2]
        if tokens is not None and tokens.shape == (call.q.shape[0], end):
            first_query = call.position + call.start
            after = _after_last_time(tokens, call.keys, first_query, call.q.shape[2])
            indices["induction"] = torch.where(after < 0, end, after - call.start)
        near = {"self": call.position, "previous": call.position - 1}
        shares = {
            name: weights_at(call, lse, index, near.get(name)) for name, index in indices.items()
        }
        for query, links in call.links.items():
            for head, key in links:
                for name, index in indices.items():
                    share = shares[name][:, head, query]
                    share[(index[:, query] == key).expand_as(share)] = 0.0
        if call.start or self._base:  # what a cache has forgotten gets nothing
            for name in ("first", "induction"):
                if name in shares:
                    forgotten = (indices[name] < 0)[:, None, :]
                    shares[name] = torch.where(forgotten, 0.0, shares[name])
        return shares

    def close(self, name: str) -> Layer:
        """The record as a layer of a run, under this name."""
        pieces = self.pieces
        seen = pieces[0].seen
        if self._forgets:
            self._recall()
        self._drop_what_is_not_true()
        if len(pieces) > 1 and self.k is not None and "q" in self.keep:
            self.options = replace(
                self.options, mask=self._rows("mask", False), bias=self._rows("bias", 0.0)
            )
        elif len(pieces) > 1:
            self.options = self._of_all_queries()
        if len(pieces) > 1:
            seen = self._joined()
        queries = None
        if any(piece.queries is not None for piece in pieces):
            queries = torch.cat([_all_real(piece) for piece in pieces], 1)
        self._count_what_is_not_finite(seen.lse, queries)
        shares = {
            share: torch.cat([piece.shares[share] for piece in pieces], 2)
            for share in pieces[0].shares
            if all(share in piece.shares for piece in pieces)
        }
        kept = {
            each: None if getattr(pieces[0], each) is None else _cat(pieces, each)
            for each in ("q", "output")
        }
        return Layer(
            name,
            seen,
            self.options,
            self.cross,
            self.kv_heads,
            queries,
            self.keys,
            shares,
            q=kept["q"],
            k=self.k,
            v=self.v,
            output=kept["output"],
            notes=tuple(self.notes),
            versions=(version_of(kept["q"]), version_of(self.k)),
        )

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

    def _drop_what_is_not_true(self) -> None:
        """Let go of q, k and v that cannot give the weights any more."""
        why = ""
        if self._blocked:
            why = "links of single queries were blocked, which they do not show"
        elif self._is_written_over():
            why = "the model has written over them since"
        if why and (self.k is not None or self.v is not None or self.pieces[0].q is not None):
            self.notes.append(f"q, k and v of {self.name}: not kept. {why.capitalize()}.")
            self.k = self.v = None
            for piece in self.pieces:
                piece.q = None
        if self._blocked and (self.see.map is not None or self.see.received):
            self.notes.append(
                f"map and received of {self.name}: not made, as links of single queries were "
                "blocked. Blocking a key for every query (query None) leaves them."
            )

    def _of_all_queries(self) -> Options:
        """The options without what was the last call's alone."""
        options, mask = self.options, self.options.mask
        if mask is not None and (mask.shape[-2] > 1 or mask.shape[-3] == 1):
            mask = None if self.keys is None else self.keys[:, None, None, :]
        return replace(options, mask=mask, bias=None, causal=options.causal or self._grows)

    def with_known_keys(self, call: Call) -> Call:
        """A step of this record. What is shut to its one query need not be padding: which of the
        keys before it are real is known, and the query itself is."""
        if call.keys is None:
            return call
        old = self.keys
        if old is None:
            old = call.keys.new_ones((call.keys.shape[0], self.end))
        if old.shape[1] >= call.keys.shape[1]:
            return call
        new = call.keys.shape[1] - old.shape[1]
        if torch.equal(call.keys[:, : old.shape[1]], old):
            return replace(call, queries=call.keys[:, -call.q.shape[2] :])
        keys = torch.nn.functional.pad(old, (0, new), value=True)
        return replace(call, keys=None if bool(keys.all()) else keys, queries=None)

    def _rows(self, name: str, fill: float | bool) -> Tensor | None:
        """A mask or bias of all pieces, one row a query, if it differs among them."""
        parts = [getattr(piece, name) for piece in self.pieces]
        if all(x is None for x in parts):
            return getattr(self.options, name)
        rows: list[Tensor] = []
        for piece, x in zip(self.pieces, parts, strict=True):
            n_queries = piece.seen.lse.shape[2]
            if x is None and name == "mask" and self.keys is not None:
                x = self.keys[:, None, None, : piece.n_keys]
            elif x is None:
                like = next(each for each in parts if each is not None)
                x = like.new_full((1, 1, 1, 1), not fill if name == "mask" else fill)
            while x.dim() < 4:
                x = x[None]
            x = x.expand(-1, -1, n_queries, piece.n_keys)
            rows.append(torch.nn.functional.pad(x, (0, self.end - piece.n_keys), value=fill))
        batch = max(x.shape[0] for x in rows)
        heads = max(x.shape[1] for x in rows)
        return torch.cat([x.expand(batch, heads, -1, -1) for x in rows], 2)

    def _joined(self) -> Observation:
        """What was seen of all pieces. What depends on every query is made from q and k."""
        each = [piece.seen for piece in self.pieces]

        def joined(name: str) -> Tensor | None:
            parts = [getattr(seen, name) for seen in each]
            return None if parts[0] is None else torch.cat(parts, 2)

        lse = joined("lse")
        assert lse is not None
        seen = Observation(
            lse=lse,
            entropy=joined("entropy"),
            top_keys=joined("top_keys"),
            top_weights=joined("top_weights"),
            distance=joined("distance"),
            n_keys=self.end,
            position=self.options.position,
            sinks=each[0].sinks,
        )
        if self.see.map is None and not self.see.received:
            return seen
        if self._blocked:
            return seen
        if self.pieces[0].q is None or self.k is None:
            if not self.is_asked:
                return seen
            wanted = "map and received" if self.see.map and self.see.received else "map"
            if self.see.map is None:
                wanted = "received"
            self.notes.append(
                f"{wanted} of {self.name}: not made. The text grew while it was watched, so they "
                'can only be made at the end, from q and k: keep=("q", "k") keeps these.'
            )
            return seen
        queries = None
        if any(piece.queries is not None for piece in self.pieces):
            queries = torch.cat([_all_real(piece) for piece in self.pieces], 1)
        again = See(map=self.see.map, received=self.see.received, queries=queries)
        q = _cat(self.pieces, "q")
        _, whole = attention(q, self.k, self.k[..., :0], see=again, **self.options.arguments())
        return replace(seen, map=whole.map, received=whole.received)


def _cat(pieces: list[_Piece], name: str) -> Tensor:
    if len(pieces) == 1:
        return getattr(pieces[0], name)
    return torch.cat([getattr(piece, name) for piece in pieces], 2)


def _all_real(piece: _Piece) -> Tensor:
    if piece.queries is not None:
        return piece.queries
    batch, _, n_queries = piece.seen.lse.shape
    return torch.ones((batch, n_queries), dtype=torch.bool, device=piece.seen.lse.device)


def _is_of_keys(call: Call) -> bool:
    """Is the mask the padding of the keys, and so the same for every query, also of later calls?"""
    mask = call.options.mask
    if mask is None:
        return True
    if call.keys is None or mask.dim() < 4 or mask.shape[2] != 1 or mask.shape[1] != 1:
        return False
    return torch.equal(mask[:, 0, 0].expand_as(call.keys), call.keys)


def _real(index: Tensor, keys: Tensor | None) -> Tensor:
    """The index, −1 where it is padding."""
    if keys is None:
        return index
    index = index.expand(keys.shape[0], -1)
    inside = (index >= 0) & (index < keys.shape[1])
    real = keys.gather(1, index.clamp(0, keys.shape[1] - 1)) & inside
    return torch.where(real, index, -1)


def _after_last_time(tokens: Tensor, keys: Tensor | None, position: int, n_queries: int) -> Tensor:
    """For each query the key behind the last earlier one with its token, −1 if there is none.
    Padding is no token: each of `keys` (B, the last of them) that is none stands for itself."""
    batch, n_keys = tokens.shape
    if keys is not None:
        real = torch.nn.functional.pad(keys, (n_keys - keys.shape[1], 0), value=True)
        own = -1 - torch.arange(n_keys, device=tokens.device, dtype=tokens.dtype)
        tokens = torch.where(real, tokens, own)
    order = torch.argsort(tokens, dim=1, stable=True)
    sorted_tokens = tokens.gather(1, order)
    same = sorted_tokens[:, 1:] == sorted_tokens[:, :-1]
    before = torch.where(same, order[:, :-1], -1)  # where the token stood the time before
    last = torch.full((batch, n_keys), -1, dtype=torch.int64, device=tokens.device)
    last.scatter_(1, order[:, 1:], before)
    p = torch.arange(n_queries, device=tokens.device) + position
    inside = (p >= 0) & (p < n_keys)
    found = last[:, p.clamp(0, max(n_keys - 1, 0))]
    return torch.where(inside & (found >= 0), found + 1, -1)
