"""`Layer`: what one attention module of a model did, and where each of its heads looked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard._arguments import whole
from regard._attention import Options, pooled, weights
from regard._attention.tiles import Span
from regard._wanted import still_wanted
from regard.observation import Observation
from regard.run.heads import Head, describe
from regard.run.on_disk import in_memory, with_part
from regard.text import Token

if TYPE_CHECKING:
    from regard.run.atlas import Levels

_CELLS = 2**22  # of the weights of rows in memory at a time: 16 MB


@dataclass(frozen=True, eq=False)
class Layer:
    """One record of one attention module: a forward pass, or a prompt and what was generated.

    What was not asked for is None. Tensors are as `Observation` describes them, over all sequences
    of the batch; padded queries are in them, and in no mean.

    - `cross`: keys come from another sequence than queries, so positions mean nothing between them
    - `shares`: of each query, (B, H, Nq), how much weight it put on the `first` real key, on its
      own position (`self`), on the one before (`previous`), and, where the tokens are known, on
      what followed the last time that its token stood there (`induction`). NaN where there is no
      such key.
    - `queries` and `keys`: (B, Nq) and (B, Nk), True where there is a real token; None: everywhere
    - `scores`: where the module computes attention by itself, its own, of which the weights are the
      softmax; q and k may then be a part of what they were made from, or not known
    - `tokens`: of each sequence, where the layer read others than `run.tokens`; [] if they are not
      known
    """

    name: str
    seen: Observation
    options: Options = field(default_factory=Options)
    cross: bool = False
    kv_heads: int = 0
    queries: Tensor | None = None
    keys: Tensor | None = None
    shares: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    q: Tensor | None = None  # (B, H, Nq, D)
    k: Tensor | None = None  # (B, Hkv, Nk, D)
    v: Tensor | None = None  # (B, Hkv, Nk, Dv)
    output: Tensor | None = None  # (B, H, Nq, Dv)
    scores: Tensor | None = None  # (B, H, Nq, Nk)
    spans: Tensor | None = (
        None  # (Nk, 2): the tokens [first, end) each key stands for; None: itself
    )
    notes: tuple[str, ...] = ()  # what could not be seen of it, and why
    tokens: list[list[Token]] | None = None
    levels: Levels | None = None  # pictures of all weights, for the atlas
    versions: tuple[int | None, ...] = ()  # of q, k and scores, as PyTorch counts them

    @property
    def has_weights(self) -> bool:
        """Were q and k kept, or scores, from which any weight can be had?"""
        return self.scores is not None or (self.q is not None and self.k is not None)

    @property
    def is_written_over(self) -> bool:
        """Are q, k or scores not what they were when they were seen?"""
        return any(
            x is not None and version is not None and not x.is_inference() and x._version != version
            for x, version in zip((self.q, self.k, self.scores), self.versions, strict=False)
        )

    def __repr__(self) -> str:
        batch, heads, n_queries, n_keys = self.shape
        several = f"{batch} × " if batch > 1 else ""
        size = f"{heads} head{'s' if heads != 1 else ''}, {several}{n_queries} × {n_keys}"
        seen = self.seen
        found = [name for name in ("entropy", "distance") if getattr(seen, name) is not None]
        if seen.top_keys is not None:
            found.append(f"top {seen.top_keys.shape[-1]}")
        if seen.map is not None:
            found.append(f"map {seen.map.shape[2]} × {seen.map.shape[3]}")
        found += ["received"] if seen.received is not None else []
        kept = ("q", "k", "v", "output", "scores")
        found += [name for name in kept if getattr(self, name) is not None]
        kind = " of another sequence" if self.cross else ""
        return f"Layer({self.name!r}: {size}{kind}: {', '.join(['lse', *found])})"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Nq, Nk)."""
        batch, heads, n_queries = self.seen.lse.shape
        return batch, heads, n_queries, self.seen.n_keys

    @property
    def offset(self) -> int:
        """Where query 0 stands among the keys."""
        return self.options.offset(*self.shape[2:])

    # What was seen, by the names that it has in `seen`.
    lse = cast("Tensor", property(attrgetter("seen.lse")))
    entropy = cast("Tensor | None", property(attrgetter("seen.entropy")))
    top_keys = cast("Tensor | None", property(attrgetter("seen.top_keys")))
    top_weights = cast("Tensor | None", property(attrgetter("seen.top_weights")))
    map = cast("Tensor | None", property(attrgetter("seen.map")))
    received = cast("Tensor | None", property(attrgetter("seen.received")))
    distance = cast("Tensor | None", property(attrgetter("seen.distance")))

    @property
    def heads(self) -> list[Head]:
        """Each head with its means over all real queries, and what kind of head that makes it."""
        return describe(self.seen, self.shares, self.queries, self.allowed)

    @property
    def allowed(self) -> Tensor:
        """How many real keys each query may attend to, by position, mask and bias: (B, H, Nq)."""
        return self.options.count(self.shape, self.lse.device, self.keys)

    def weights(
        self,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        *,
        sequence: int | None = None,
    ) -> Tensor:
        """The exact weights of some queries on some keys: (B, H, rows, keys), without B of one
        sequence, without H of one head. Needs q and k: `regard.watch(…, keep=("q", "k"))`.
        """
        q, k, lse, options = self._inputs("weights()", head, sequence, rows, keys)
        tile = weights(q, k, rows=rows, keys=keys, lse=lse, **options.arguments())
        return _chosen(tile, head, sequence)

    def pooled(
        self,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        shape: tuple[int, int] = (256, 256),
        reduce: Literal["mean", "max"] = "mean",
        *,
        sequence: int | None = None,
    ) -> Tensor:
        """An exact picture of any rectangle of the weights: (B, H, *shape), without B of one
        sequence, without H of one head. Needs q and k, as `weights` does.
        """
        q, k, lse, options = self._inputs("pooled()", head, sequence, rows, keys)
        picture = pooled(
            q, k, rows=rows, keys=keys, shape=shape, reduce=reduce, lse=lse, **options.arguments()
        )
        return _chosen(picture, head, sequence)

    def weights_of_rows(
        self, sequence: int, head: int, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Some of the rows, which are in order, with their weights (rows, Nk), until all were
        there: a few at a time, from q and k.
        """
        q, k, lse, options = self._inputs("weights()", head, sequence)
        n_queries, n_keys = self.shape[2:]
        height = max(_CELLS // max(n_keys, 1), 1)
        for start in range(0, len(rows), height):
            still_wanted()
            some = rows[start : start + height]
            first, end = int(some[0]), int(some[-1]) + 1
            has_gaps = end - first > len(some)
            index = torch.from_numpy(some).to(q.device) if has_gaps else slice(first, end)
            of_rows = options.rows(index, n_queries, n_keys).arguments()
            tile = weights(q[:, :, index], k, lse=lse[:, :, index], **of_rows)
            yield some, tile[0, 0]

    def _inputs(
        self,
        call: str,
        head: int | None,
        sequence: int | None,
        rows: Span = slice(None),
        keys: Span = slice(None),
    ) -> tuple[Tensor, Tensor, Tensor, Options]:
        """q, k, lse, and with which options `regard.weights` makes the weights from them: of all
        heads and sequences, or of one. ValueError, in the name of `call`, if they are not there.

        Of a run that is in a file they are in memory only as far as rows and keys are looked at.
        """
        if not self.has_weights:
            raise ValueError(
                f"{call}: q and k of {self.name} must have been kept; they were not. "
                'regard.watch(…, keep=("q", "k")) keeps them.'
            )
        if self.is_written_over:
            raise ValueError(
                f"{call}: q and k of {self.name} must be as they were seen; they have been "
                "written over since. Give the model a copy, or ask before they change."
            )
        batch, n_heads = self.shape[:2]
        for name, index, size in (("head", head, n_heads), ("sequence", sequence, batch)):
            if index is not None:
                whole(call, name, index, 0, size - 1, f"{self.name} has {size} {name}s.")
        h = slice(None) if head is None else slice(head, head + 1)
        b = slice(None) if sequence is None else slice(sequence, sequence + 1)
        if self.scores is not None:
            q, k, options = from_scores(with_part(self.scores[b, h], rows), self.options.position)
            return q, k, with_part(self.lse[b, h], rows), options
        assert self.q is not None
        assert self.k is not None
        shared = slice(None)
        if head is not None:
            group = head // (n_heads // self.k.shape[1])
            shared = slice(group, group + 1)
        options = self.options.head(head, sequence)

        def of_rows(x: Tensor | None) -> Tensor | None:
            return x if x is None or x.shape[2] == 1 else with_part(x, rows)

        options = replace(
            options,
            mask=in_memory(of_rows(options.mask)),
            bias=in_memory(of_rows(options.bias)),
            lengths=in_memory(options.lengths),
            sinks=in_memory(options.sinks),
            segments=in_memory(options.segments),
            indices=in_memory(of_rows(options.indices)),
        )
        lse = with_part(self.lse[b, h], rows)
        return with_part(self.q[b, h], rows), with_part(self.k[b, shared], keys), lse, options


def from_scores(scores: Tensor, position: int | None) -> tuple[Tensor, Tensor, Options]:
    """q, k and options whose weights are the softmax of scores (B, H, Nq, Nk): these are a bias,
    where q · k is 0."""
    batch, heads, n_queries, n_keys = scores.shape
    nothing = scores.new_zeros(())
    q, k = nothing.expand(batch, heads, n_queries, 1), nothing.expand(batch, 1, n_keys, 1)
    return q, k, Options(bias=scores, scale=1.0, position=position)


def _chosen(x: Tensor, head: int | None, sequence: int | None) -> Tensor:
    """Without the axes of what one was chosen of."""
    return x[slice(None) if sequence is None else 0, slice(None) if head is None else 0]
