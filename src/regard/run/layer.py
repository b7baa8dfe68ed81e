"""`Layer`: what one attention module of a model did, and where each of its heads looked."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from torch import Tensor

from regard._arguments import shown
from regard._attention import pooled, weights
from regard._attention.tiles import Span
from regard.observation import Observation
from regard.run.heads import Head, describe
from regard.run.levels import Levels
from regard.run.on_disk import in_memory, with_part
from regard.run.reach import count
from regard.text import Token

__all__ = ["Layer", "Options"]


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `regard.attention` that a layer was computed with."""

    causal: bool = False
    window: tuple[int | None, int | None] | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    lengths: Tensor | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    position: int | None = None

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments.

        >>> Options(causal=True).arguments()["causal"]
        True
        """
        return {each.name: getattr(self, each.name) for each in fields(self)}


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
    notes: tuple[str, ...] = ()  # what could not be seen of it, and why
    tokens: list[list[Token]] | None = None
    levels: Levels | None = None  # pictures of all weights, for the atlas
    versions: tuple[int | None, int | None] = (None, None)  # of q and k, as PyTorch counts them

    @property
    def is_written_over(self) -> bool:
        """Are q or k not what they were when they were seen?"""
        return any(
            x is not None and version is not None and not x.is_inference() and x._version != version
            for x, version in zip((self.q, self.k), self.versions, strict=True)
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
        found += [name for name in ("q", "k", "v", "output") if getattr(self, name) is not None]
        kind = " of another sequence" if self.cross else ""
        return f"Layer({self.name!r}: {size}{kind}: {', '.join(['lse', *found])})"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Nq, Nk)."""
        batch, heads, n_queries = self.seen.lse.shape
        return batch, heads, n_queries, self.seen.n_keys

    @property
    def lse(self) -> Tensor:
        return self.seen.lse

    @property
    def entropy(self) -> Tensor | None:
        return self.seen.entropy

    @property
    def top_keys(self) -> Tensor | None:
        return self.seen.top_keys

    @property
    def top_weights(self) -> Tensor | None:
        return self.seen.top_weights

    @property
    def map(self) -> Tensor | None:
        return self.seen.map

    @property
    def received(self) -> Tensor | None:
        return self.seen.received

    @property
    def distance(self) -> Tensor | None:
        return self.seen.distance

    @property
    def heads(self) -> list[Head]:
        """Each head with its means over all real queries, and what kind of head that makes it."""
        return describe(self.seen, self.shares, self.queries, self.allowed)

    @property
    def allowed(self) -> Tensor:
        """How many real keys each query may attend to, by position, mask and bias: (B, H, Nq)."""
        return count(self)

    def weights(
        self, head: int | None = None, rows: Span = slice(None), keys: Span = slice(None)
    ) -> Tensor:
        """The exact weights of some queries on some keys: (B, H, rows, keys), or (B, rows, keys)
        of one head. Needs q and k: `regard.watch(…, keep=("q", "k"))`.
        """
        q, k, options = self._inputs("weights()", head, rows, keys)
        tile = weights(q, k, rows=rows, keys=keys, **options)
        return tile if head is None else tile[:, 0]

    def pooled(
        self,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        shape: tuple[int, int] = (256, 256),
        reduce: Literal["mean", "max"] = "mean",
    ) -> Tensor:
        """An exact picture of any rectangle of the weights: (B, H, *shape), or (B, *shape) of one
        head. Needs q and k, as `weights` does.
        """
        q, k, options = self._inputs("pooled()", head, rows, keys)
        picture = pooled(q, k, rows=rows, keys=keys, shape=shape, reduce=reduce, **options)
        return picture if head is None else picture[:, 0]

    def _inputs(
        self, call: str, head: int | None, rows: Span, keys: Span
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """What `inputs` gives, of a run that is in a file only as far as it is looked at here."""
        q, k, options = self._parts(call, head, None)
        for name in ("mask", "bias"):
            x: Tensor | None = options[name]
            options[name] = x if x is None or x.shape[2] == 1 else with_part(x, rows)
        options["lse"] = with_part(options["lse"], rows)
        options = {name: _in_memory(x) for name, x in options.items()}
        return with_part(q, rows), with_part(k, keys), options

    def inputs(
        self, call: str, head: int | None = None, sequence: int | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """q, k, and with which options `regard.weights` makes the weights from them: of all heads
        and sequences, or of one. ValueError, in the name of `call`, if they are not there."""
        q, k, options = self._parts(call, head, sequence)
        return in_memory(q), in_memory(k), {name: _in_memory(x) for name, x in options.items()}

    def _parts(
        self, call: str, head: int | None, sequence: int | None
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        if self.q is None or self.k is None:
            raise ValueError(
                f"{call}: q and k of {self.name} must have been kept; they were not. "
                'regard.watch(…, keep=("q", "k")) keeps them.'
            )
        if self.is_written_over:
            raise ValueError(
                f"{call}: q and k of {self.name} must be as they were seen; they have been "
                "written over since. Give the model a copy, or ask before they change."
            )
        n_heads = self.q.shape[1]
        is_whole = isinstance(head, int) and not isinstance(head, bool)
        if head is not None and not (is_whole and 0 <= head < n_heads):
            raise ValueError(
                f"{call}: head must be from 0 to {n_heads - 1}; got {shown(head)}. "
                f"{self.name} has {n_heads} heads."
            )
        options = self.options.arguments()
        h, shared, b = slice(None), slice(None), slice(None)
        if head is not None:
            group = head // (n_heads // self.k.shape[1])
            h, shared = slice(head, head + 1), slice(group, group + 1)
        if sequence is not None:
            b = slice(sequence, sequence + 1)
        for name in ("mask", "bias"):
            x: Tensor | None = options[name]
            if x is not None:
                x = x[(None,) * (4 - x.dim())]
                x = x if x.shape[0] == 1 else x[b]
                options[name] = x if x.shape[1] == 1 else x[:, h]
        for name, part in (("lengths", b), ("sinks", h)):
            if options[name] is not None:
                options[name] = options[name][part]
        options["lse"] = self.lse[b, h]
        return self.q[b, h], self.k[b, shared], options


def _in_memory(option: Any) -> Any:
    return in_memory(option) if isinstance(option, Tensor) else option
