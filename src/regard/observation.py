"""`See`, what attention is to look at, and `Observation`, what it saw."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import cast

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue, flag, shown, whole

MOST_CELLS = 2**31  # of a picture
_MOST_TOP = 2**20
_MOST_SPANS = 2**20
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, eq=False, repr=False)
class See:
    """What attention is to report. The log-sum-exp always comes with it.

    - `entropy`: of each query's weights
    - `top`: how many of the strongest keys of each query, at most 2**20
    - `map`: (rows, columns) of a picture of all weights, with at most 2**31 cells
    - `received`: the weight that each key received from all queries; costs a second pass
    - `distance`: how far from its own position each query looks, on average
    - `queries`: (B, Nq) bool, which queries count in `map` and `received`; the output and all else
      are unaffected. Padding should not count.
    - `max_logit`: the largest logit of each query as it enters the softmax, sinks aside
    - `contribution`: how many of the keys that move the output of each query most, by weight · ‖v‖.
      A key whose value is 0 moves nothing, and is not named; one whose value is not finite comes
      first. `norms` (B, H, Nk) are taken for ‖v‖ if they are given, by query head: of v W_O, say.
    - `spans`: (Nk,) or (B, Nk), whole numbers: which span each key belongs to, from 0 on, −1 for
      none; the weight that each query gives to each span is reported. `n_spans` is how many there
      are, 1 + the largest label unless it is given.

    Two are equal if they ask for the same, with tensors that are equal one by one.

    >>> See(entropy=True, top=8, map=(128, 128))
    See(entropy=True, top=8, map=(128, 128))
    >>> See(spans=torch.tensor([0, 0, 1, -1])).n_spans
    2
    """

    entropy: bool = False
    top: int = 0
    map: tuple[int, int] | None = None
    received: bool = False
    distance: bool = False
    queries: Tensor | None = None
    max_logit: bool = False
    contribution: int = 0
    norms: Tensor | None = None
    spans: Tensor | None = None
    n_spans: int = 0

    def __post_init__(self) -> None:
        for name in ("entropy", "received", "distance", "max_logit"):
            flag("See()", name, getattr(self, name))
        remedy = "It is how many keys of each query are named."
        whole("See()", "top", self.top, 0, _MOST_TOP, remedy)
        whole("See()", "contribution", self.contribution, 0, _MOST_TOP, remedy)
        self._check_map_and_queries()
        self._check_norms()
        self._check_spans()

    def _check_map_and_queries(self) -> None:
        shape, queries = cast("object", self.map), cast("object", self.queries)
        if shape is not None and not (
            isinstance(shape, tuple)
            and len(shape) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape)
            and shape[0] * shape[1] <= MOST_CELLS
        ):
            raise ValueError(
                "See(): map must be (rows, columns), each 1 or more, with at most 2**31 cells, or "
                f"None; got {shown(shape)}. It is the size of the picture."
            )
        if queries is not None and (found := _no_tensor(queries, (torch.bool,), (2,))):
            raise WrongType(
                f"See(): queries must be a boolean tensor (B, Nq), and dense; got {found}. "
                "It is True for each query that counts in map and received, for all heads alike."
            )

    def _check_norms(self) -> None:
        floats = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        norms = cast("object", self.norms)
        if norms is None:
            return
        if found := _no_tensor(norms, floats, (3,)):
            raise WrongType(
                f"See(): norms must be a floating tensor (B, H, Nk), and dense; got {found}. "
                "They are the lengths of the values of each head of q, from which contributions "
                "are made."
            )
        if not self.contribution:
            raise WrongValue(
                "See(): norms must come with contribution=…; got contribution=0. "
                "It says how many keys of each query are named."
            )

    def _check_spans(self) -> None:
        spans, remedy = cast("object", self.spans), "It is how many spans there are."
        whole("See()", "n_spans", self.n_spans, 0, _MOST_SPANS, remedy)
        if spans is None:
            if self.n_spans:
                raise WrongValue(
                    f"See(): n_spans must come with spans; got spans=None, n_spans={self.n_spans}. "
                    "Spans are the labels of the keys, (Nk,) or (B, Nk)."
                )
            return
        if found := _no_tensor(spans, _WHOLE, (1, 2)):
            raise WrongType(
                "See(): spans must be a tensor of whole numbers, (Nk,) or (B, Nk), and dense; got "
                f"{found}. It is the span that each key belongs to, −1 for none."
            )
        if self.n_spans:
            return  # what they are is looked at when they are used
        labels = self.spans
        assert labels is not None
        most = int(labels.max()) if labels.numel() else -1
        object.__setattr__(self, "n_spans", whole("See()", "spans", most + 1, 0, _MOST_SPANS))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that were given."""
        return tuple(x for x in (self.queries, self.norms, self.spans) if x is not None)

    def __repr__(self) -> str:
        """What differs from `See()`."""
        said = (
            f"{each.name}={value if not isinstance(value, Tensor) else tuple(value.shape)}"
            for each in fields(self)
            if (value := getattr(self, each.name)) is not each.default
            and (isinstance(value, Tensor) or value != each.default)
        )
        return f"See({', '.join(said)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, See):
            return NotImplemented
        return self._flags == other._flags and all(
            _are_equal(getattr(self, name), getattr(other, name))
            for name in ("queries", "norms", "spans")
        )

    def __hash__(self) -> int:
        return hash(self._flags)

    @property
    def _flags(self) -> tuple[object, ...]:
        """All but the tensors, which may change."""
        flags = self.entropy, self.top, self.map, self.received, self.distance
        return *flags, self.max_logit, self.contribution, self.n_spans


def _no_tensor(x: object, types: tuple[torch.dtype, ...], axes: tuple[int, ...]) -> object:
    """Why x is no dense tensor of one of these types, with so many axes; None if it is."""
    if not isinstance(x, Tensor) or x.dtype not in types:
        return getattr(x, "dtype", type(x).__name__)
    if x.is_nested or x.layout != torch.strided:
        return "a nested one" if x.is_nested else x.layout
    return None if x.dim() in axes else tuple(x.shape)


def _are_equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one is other:
        return one is other
    # On the meta device there is nothing to compare.
    return one.device == other.device and not one.is_meta and torch.equal(one, other)


# What can be seen, in order: the axes of each tensor, and what it holds.
FIELDS = {
    "lse": (("B", "H", "Nq"), "log-sum-exp of a query's scores, sink included"),
    "entropy": (("B", "H", "Nq"), "−Σ w ln w of a query's weights, in nats"),
    "top_keys": (("B", "H", "Nq", "top"), "a query's strongest keys, −1 where there is none"),
    "top_weights": (("B", "H", "Nq", "top"), "their weights, strongest first"),
    "map": (("B", "H", "R", "C"), "mean over a row's queries of their weights by column"),
    "received": (("B", "H", "Nk"), "sum over all queries of their weight on a key"),
    "distance": (("B", "H", "Nq"), "Σ w |p − j|: how far from its own place a query looks"),
    "max_logit": (("B", "H", "Nq"), "largest logit of a query's keys, sink aside"),
    "spans": (("B", "H", "Nq", "S"), "a query's weight on each span of keys"),
    "contribution_keys": (("B", "H", "Nq", "moving"), "the keys with the largest w ‖v‖, or −1"),
    "contribution": (("B", "H", "Nq", "moving"), "their w ‖v‖, largest first"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Observation:
    """What attention looked at; None where it was not asked for. No gradient flows through it.

    All are float32, or float64 for float64 inputs, and of the weights before dropout; keys are
    int64. A query without a key has lse −inf, entropy and distance 0, and top keys −1 with weight
    0; so for what it says of contributions. Printed, it says what it holds:

    >>> import regard
    >>> q = k = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, k, k, scale=9.0, see=See(top=2, received=True))
    >>> seen.top_keys[0, 0].tolist(), seen.received[0, 0].round(decimals=3).tolist()
    ([[0, 1], [1, 0], [2, 0]], [1.0, 1.0, 1.0])
    >>> print(seen)
    Observation: seen.lse[b, h] is that of sequence b and head h
      lse          (B, H, Nq) = (1, 1, 3)          log-sum-exp of a query's scores, sink included
      top_keys     (B, H, Nq, top) = (1, 1, 3, 2)  a query's strongest keys, −1 where there is none
      top_weights  (B, H, Nq, top) = (1, 1, 3, 2)  their weights, strongest first
      received     (B, H, Nk) = (1, 1, 3)          sum over all queries of their weight on a key
    not asked for in regard.See(…): entropy, map, distance, max_logit, spans, contribution
    """

    lse: Tensor
    entropy: Tensor | None = None
    top_keys: Tensor | None = None
    top_weights: Tensor | None = None
    map: Tensor | None = None
    received: Tensor | None = None
    distance: Tensor | None = None
    max_logit: Tensor | None = None
    spans: Tensor | None = None
    contribution_keys: Tensor | None = None
    contribution: Tensor | None = None
    n_keys: int = 0  # Nk
    position: int | None = None  # query i stood at i + position
    sinks: Tensor | None = None  # (H,) the sinks that took their share

    def __repr__(self) -> str:
        rows = [
            (name, f"({', '.join(axes)}) = {tuple(x.shape)}", meaning)
            for name, (axes, meaning) in FIELDS.items()
            if (x := getattr(self, name)) is not None
        ]
        wide = max(len(shape) for _, shape, _ in rows)
        long = max(11, *(len(name) for name, _, _ in rows))
        lines = [f"  {name:{long}}  {shape:{wide}}  {meaning}" for name, shape, meaning in rows]
        asked = (name for name in FIELDS if name not in ("top_weights", "contribution_keys"))
        absent = ["top" if x == "top_keys" else x for x in asked if getattr(self, x) is None]
        if absent:
            lines.append(f"not asked for in regard.See(…): {', '.join(absent)}")
        return "\n".join(["Observation: seen.lse[b, h] is that of sequence b and head h", *lines])
