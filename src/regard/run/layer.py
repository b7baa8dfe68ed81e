"""`Layer`: what one attention module of a model did, and where each of its heads looked."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from torch import Tensor

from regard._attention import pooled, weights
from regard._attention.tiles import Span
from regard.observation import Observation, shown
from regard.run.heads import Head, describe
from regard.run.levels import Levels
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
        tile = weights(*self._inputs("weights", head), rows=rows, keys=keys, **self._options(head))
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
        picture = pooled(
            *self._inputs("pooled", head),
            rows=rows,
            keys=keys,
            shape=shape,
            reduce=reduce,
            **self._options(head),
        )
        return picture if head is None else picture[:, 0]

    def _inputs(self, call: str, head: int | None) -> tuple[Tensor, Tensor]:
        if self.q is None or self.k is None:
            raise ValueError(
                f"{call}(): q and k of {self.name} must have been kept; they were not. "
                'regard.watch(…, keep=("q", "k")) keeps them.'
            )
        if head is None:
            return self.q, self.k
        n_heads = self.q.shape[1]
        if not isinstance(head, int) or isinstance(head, bool) or not 0 <= head < n_heads:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(
                f"{call}(): head must be from 0 to {n_heads - 1}; got {shown(head)}. "
                f"{self.name} has {n_heads} heads."
            )
        shared = head // (n_heads // self.k.shape[1])
        return self.q[:, head : head + 1], self.k[:, shared : shared + 1]

    def _options(self, head: int | None) -> dict[str, Any]:
        options = self.options.arguments()
        options["lse"] = self.lse
        if head is None:
            return options
        options["lse"] = self.lse[:, head : head + 1]
        for name in ("mask", "bias"):
            x = options[name]
            if x is not None and x.dim() >= 3 and x.shape[-3] > 1:
                options[name] = x[..., head : head + 1, :, :]
        if options["sinks"] is not None:
            options["sinks"] = options["sinks"][head : head + 1]
        return options
