"""Problems of attention for Hypothesis to draw, and how right an answer to one has to be.

The truth is `regard.reference`, in float64. What an answer is measured against is `eager`: the same
thing in plain PyTorch operations, in the dtype of the inputs. CONTRACT: the error of an answer is
at most twice that of eager, plus a floor of 4·u·max|score|·max|v|, u being 2⁻²⁴ in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import regard
from regard import reference

Array = NDArray[Any]
Window = tuple[int | None, int | None]

BACKENDS = ("native", "torch")
on_each_backend = pytest.mark.parametrize("backend", BACKENDS)
on_each_backend_and_dtype = pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        ("native", torch.float32),
        ("native", torch.bfloat16),
        ("native", torch.float16),
        ("native", torch.float64),
        ("torch", torch.float32),
        ("torch", torch.float64),
        ("torch", torch.bfloat16),
        ("torch", torch.float16),
    ],
    ids=lambda given: str(given).removeprefix("torch."),
)

# A kernel works in strips of 6 rows, tiles of 96 rows, panels of 16 keys and blocks of 256 keys,
# and takes another way for up to 4 queries. Small sizes come often, large ones rarely.
SMALL = (1, 2, 3, 4, 5, 6, 7, 11, 13)
AT_AN_EDGE = (8, 12, 15, 16, 17, 31, 32, 33, 95, 96, 97)
LARGE = (191, 193, 255, 256, 257)
SIZES = SMALL * 9 + AT_AN_EDGE + LARGE
WIDTHS = (1, 3, 8, 17, 32, 64, 67)
HEADS = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (6, 2), (6, 3))  # H, Hkv
LAYOUTS = ("contiguous", "heads inside", "sliced", "last axis outside", "stepped", "expanded")


class Eager(NamedTuple):
    """What plain PyTorch operations make of a problem.

    Gradients flow through it. Rows without a key are 0; what is not finite is not treated.
    """

    output: Tensor
    lse: Tensor
    weights: Tensor
    max_logit: Tensor


# ── a problem ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Problem:
    """Inputs of attention and the options that go with them."""

    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any]
    random: np.random.Generator

    def __repr__(self) -> str:
        """Sizes and strides instead of all numbers."""

        def short(x: Any) -> str:
            if not isinstance(x, Tensor):
                return repr(x)
            return str(x.tolist()) if x.numel() < 8 else f"{tuple(x.shape)}, steps {x.stride()}"

        given = {"q": self.q, "k": self.k, "v": self.v, **self.options}
        return f"Problem({'; '.join(f'{name} {short(x)}' for name, x in given.items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis shows it."""
        printer.text(repr(self))

    @property
    def batch(self) -> int:
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def n_queries(self) -> int:
        return self.q.shape[2]

    @property
    def n_keys(self) -> int:
        return self.k.shape[2]

    @property
    def square(self) -> tuple[int, int, int, int]:
        """The shape of the scores."""
        return self.batch, self.heads, self.n_queries, self.n_keys

    def attend(self, backend: str, **changed: Any) -> Tensor:
        options = self.options | changed
        return cast(Tensor, regard.attention(self.q, self.k, self.v, backend=backend, **options))

    def observe(
        self, backend: str, see: regard.See, **changed: Any
    ) -> tuple[Tensor, regard.Observation]:
        options = self.options | changed
        return regard.attention(self.q, self.k, self.v, see=see, backend=backend, **options)

    def truth(self, **changed: Any) -> reference.Attention:
        return self.with_options(**changed)._truth if changed else self._truth

    @cached_property
    def _truth(self) -> reference.Attention:
        options = {name: numbers(given) for name, given in self.options.items()}
        return reference.attention(numbers(self.q), numbers(self.k), numbers(self.v), **options)

    @cached_property
    def eager(self) -> Eager:
        """The same in plain PyTorch operations, in the dtype of the inputs."""
        return _eager(self)

    def with_options(self, **changed: Any) -> Problem:
        return replace(self, options=self.options | changed)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers of the problem's dtype."""
        return torch.from_numpy(self.random.normal(size=shape)).to(self.q.dtype)

    def flags(self, *shape: int, share: float = 0.5) -> Tensor:
        """Random booleans, True with probability `share`."""
        return torch.from_numpy(np.asarray(self.random.random(shape) < share))


def numbers(given: Any) -> Any:
    """A tensor as an array for the reference, float64 unless boolean or integer; else as it is."""
    if isinstance(given, tuple):
        return tuple(numbers(each) for each in given)
    if not isinstance(given, Tensor):
        return given
    given = given.detach()
    return (given.double() if given.is_floating_point() else given).numpy()


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same numbers elsewhere in memory. What lies between them is NaN (False becomes True)."""
    between = True if x.dtype == torch.bool else math.nan
    if layout == "heads inside" and x.ndim >= 3:
        return x.transpose(-2, -3).contiguous().transpose(-2, -3)
    if layout == "sliced":
        inner = tuple(slice(1, n + 1) for n in x.shape)
        around = torch.full([n + 3 for n in x.shape], between, dtype=x.dtype)
        around[inner] = x
        return around[inner]
    if layout == "last axis outside" and x.ndim >= 2:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "stepped":
        around = torch.full([*x.shape[:-1], 2 * x.shape[-1]], between, dtype=x.dtype)
        around[..., ::2] = x
        return around[..., ::2]
    return x.contiguous()


def _expanded(x: Tensor, axis: int) -> Tensor:
    """Of stride 0 along an axis: its first part, again and again."""
    return x.narrow(axis, 0, min(1, x.shape[axis])).expand_as(x)


def _broadcast_shape(square: tuple[int, ...], way: int) -> tuple[int, ...]:
    """One of 32 ways to broadcast to the scores: which axes are of length 1, which left out.

    An axis can be left out only if it and those before it are of length 1.
    """
    shape = [size if way >> axis & 1 else 1 for axis, size in enumerate(square)]
    while way >> 4 and shape and shape[0] == 1:
        del shape[0]
    return tuple(shape)


# Drawing is what takes the time: what goes together is drawn together.
_switches = st.integers(0, 2**11 - 1)
_broadcasts = st.integers(0, 2**5 - 1)
_layouts = st.integers(0, len(LAYOUTS) - 1)
_three_layouts = st.tuples(_layouts, _layouts, _layouts)
_seeds = st.integers(0, 2**32 - 1)
_sides = (None, 0, 1, 2, 5, 16, 40)
_windows = st.sampled_from([(left, right) for left in _sides for right in _sides])
_heads = st.sampled_from([(batch, *heads) for batch in (1, 2) for heads in HEADS])


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    positional: bool = True,
    by_key: bool = True,
    anywhere: bool = True,
    sinks: bool = True,
    square: bool = False,
    layouts: bool = True,
    batch: int | None = None,
    n_keys: int | None = None,
    sizes: tuple[int, ...] = SIZES,
    widths: tuple[int, ...] = WIDTHS,
    magnitudes: tuple[float, ...] = (0.1, 1.0, 6.0),
    dtype: torch.dtype = torch.float32,
) -> Problem:
    """`positional`: causal and window may be drawn; `by_key`: mask, bias, lengths and indices;
    `anywhere`: the queries may stand elsewhere than at the end of the keys; segments only with all
    of these; `square`: Nq = Nk."""
    random = np.random.default_rng(draw(_seeds))
    some_batch, heads, kv_heads = draw(_heads)
    batch = some_batch if batch is None else batch
    n_queries = draw(st.sampled_from(sizes))
    if n_keys is None:
        n_keys = n_queries if square else draw(st.sampled_from(sizes))
    if max(n_queries, n_keys) > 32 and heads > 3:
        heads, kv_heads = 3, 1
    width, value_width = draw(st.sampled_from(list(itertools.product(widths, repeat=2))))
    shape = (batch, heads, n_queries, n_keys)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(random.normal(size=shape)).to(dtype)

    def placed(x: Tensor, layout: int) -> Tensor:
        if LAYOUTS[layout] == "expanded":
            return _expanded(x, int(random.integers(3)))
        return laid_out(x, LAYOUTS[layout])

    q = normal(batch, heads, n_queries, width) * draw(st.sampled_from(magnitudes))
    k, v = normal(batch, kv_heads, n_keys, width), normal(batch, kv_heads, n_keys, value_width)
    if layouts:
        q, k, v = map(placed, (q, k, v), draw(_three_layouts))
    options: dict[str, Any] = {}
    switches = iter(f"{draw(_switches):011b}"[::-1])
    has_causal, has_window, has_position, has_mask, has_bias, has_lengths, *rest = (
        switch == "1" for switch in switches
    )
    has_softcap, has_scale, has_sinks, has_segments, has_indices = rest
    if positional and has_causal:
        options["causal"] = True
    if positional and has_window:
        options["window"] = draw(_windows)
    if anywhere and has_position:
        options["position"] = draw(st.integers(-5, n_keys + 5))
    if by_key and has_mask:
        share = 0.2 if random.random() < 0.5 else 0.8
        mask = random.random(_broadcast_shape(shape, draw(_broadcasts))) < share
        options["mask"] = _placed_by_key(torch.from_numpy(np.asarray(mask)), random)
    if by_key and has_bias:
        bias = normal(*_broadcast_shape(shape, draw(_broadcasts)))
        hidden = torch.from_numpy(np.asarray(random.random(tuple(bias.shape)) < 0.2))
        options["bias"] = _placed_by_key(torch.where(hidden, -math.inf, bias), random)
    if by_key and has_lengths:
        options["lengths"] = torch.from_numpy(random.integers(0, n_keys + 3, size=batch))
    if positional and by_key and anywhere and has_segments:
        options["segments"] = tuple(_ids(random, batch, n) for n in (n_queries, n_keys))
    if by_key and has_indices:
        shape = (*_broadcast_shape(shape[:3], int(random.integers(8))), int(random.integers(9)))
        options["indices"] = torch.from_numpy(random.integers(-2, n_keys, size=shape))
    if has_softcap:
        options["softcap"] = float(random.choice((0.5, 5.0, 50.0)))
    if has_scale:
        options["scale"] = float(random.choice((-0.5, 0.0, 0.25)))
    if sinks and has_sinks:
        options["sinks"] = normal(heads)
    return Problem(q, k, v, options, random)


def _ids(random: np.random.Generator, batch: int, n_tokens: int) -> Tensor:
    """Segments of any lengths, in any order, with padding between and behind them."""
    order = random.permutation(6) - 1
    ids = order[np.sort(random.integers(0, 6, size=(batch, n_tokens)), axis=-1)]
    return torch.from_numpy(ids)


def _placed_by_key(x: Tensor, random: np.random.Generator) -> Tensor:
    """A mask or a bias in some layout."""
    return laid_out(x, LAYOUTS[random.integers(5)]) if x.ndim else x


def unit_variance(
    n_queries: int, n_keys: int, width: int, value_width: int, **options: Any
) -> Problem:
    """Two heads that share one key head, without layouts or options drawn."""
    random = np.random.default_rng(n_queries * 1009 + n_keys)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(random.normal(size=shape)).float()

    return Problem(
        normal(1, 2, n_queries, width),
        normal(1, 1, n_keys, width),
        normal(1, 1, n_keys, value_width),
        options,
        random,
    )


class Sight(NamedTuple):
    """What to look at, as a `See` for attention and in parts for the reference."""

    top: int
    map: tuple[int, int]
    queries: Tensor | None
    labels: Tensor | None = None  # (Nk,) or (B, Nk): the spans of the keys
    n_spans: int = 0
    of_keys: bool = True  # max_logit, contribution and spans, too

    @property
    def see(self) -> regard.See:
        return regard.See(
            entropy=True,
            top=self.top,
            map=self.map,
            received=True,
            distance=True,
            queries=self.queries,
            max_logit=self.of_keys,
            contribution=self.top if self.of_keys else 0,
            spans=self.labels if self.of_keys else None,
            n_spans=self.n_spans if self.of_keys else 0,
        )


_looks = st.sampled_from(
    [
        (top, (rows, columns), counting, spans)
        for top in (1, 3, 8, 9, 20)
        for rows in (1, 2, 3, 7, 16, 37)
        for columns in (1, 2, 3, 7, 16, 37)
        for counting in (None, 0.0, 0.5, 0.5)
        for spans in ((1, 1), (2, 3), (5, 1), (7, 40), (16, 1))  # how many, and how long
    ]
)


def sights(problem: Problem, of_keys: bool = True) -> st.SearchStrategy[Sight]:
    def sight(look: tuple[int, tuple[int, int], float | None, tuple[int, int]]) -> Sight:
        top, shape, counting, (n_spans, length) = look
        queries = None
        if counting is not None:
            queries = problem.flags(problem.batch, problem.n_queries, share=counting)
        labels = torch.arange(problem.n_keys) // length % (n_spans + 1) - 1
        if top > 8:  # other ones in each sequence
            labels = torch.stack([labels.roll(b) for b in range(problem.batch)])
        return Sight(top, shape, queries, labels, n_spans, of_keys)

    return _looks.map(sight)


@contextmanager
def threads(count: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ── how right ─────────────────────────────────────────────────────────────────────────────────


def _eager(problem: Problem) -> Eager:
    q, k, v = problem.q, problem.k, problem.v
    options = problem.options
    group = problem.heads // max(k.shape[1], 1)
    k, v = (x.repeat_interleave(group, dim=1).contiguous() for x in (k, v))
    scores = q @ k.transpose(-1, -2) * _scale(problem)
    if (softcap := options.get("softcap")) is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if (bias := options.get("bias")) is not None:
        scores = scores + bias
    allowed = torch.from_numpy(np.array(problem.truth().allowed))
    has_key = allowed.any(dim=-1, keepdim=True)
    scaled = torch.where(allowed, scores, -math.inf)
    logits = scaled
    if (sinks := options.get("sinks")) is not None:
        column = sinks[:, None, None].expand(*scaled.shape[:-1], 1)
        logits = torch.cat([scaled, column], dim=-1)
    logits = torch.where(has_key, logits, 0.0)
    weights = torch.where(allowed, logits.softmax(dim=-1)[..., : problem.n_keys], 0.0)
    lse = torch.where(has_key[..., 0], logits.logsumexp(dim=-1), -math.inf)
    return Eager(weights @ v, lse, weights, scaled.amax(-1))


def _statistics(
    weights: Tensor,
    allowed: Array,
    sight: Sight,
    position: int | None,
    segments: tuple[Tensor, Tensor] | None,
) -> dict[str, Tensor]:
    """What the eager weights say, by plain PyTorch operations."""
    n_queries, n_keys = weights.shape[-2:]
    rows, columns = sight.map
    of_row, of_column = torch.zeros(rows, n_queries), torch.zeros(n_keys, columns)
    of_row[torch.arange(n_queries) * rows // n_queries, torch.arange(n_queries)] = 1
    of_column[torch.arange(n_keys), torch.arange(n_keys) * columns // n_keys] = 1
    counts = torch.from_numpy(np.array(allowed.any(axis=-1)))
    if sight.queries is not None:
        counts = counts & sight.queries[:, None]
    counted = torch.where(counts[..., None], weights, 0.0)
    number = counts.to(weights) @ of_row.T.to(weights)
    start = n_keys - n_queries if position is None else position
    away = (torch.arange(n_keys) - torch.arange(n_queries)[:, None] - start).abs()
    if segments is not None:
        away = torch.stack([_away(q, k, position) for q, k in zip(*segments, strict=True)])[:, None]
    labels = torch.zeros(n_keys) if sight.labels is None else sight.labels
    labels = labels if labels.dim() == 2 else labels[None]
    inside = [
        torch.where((labels == n)[:, None, None], weights, 0.0).sum(-1)
        for n in range(max(sight.n_spans, 1))
    ]
    return {
        "spans": torch.stack(inside, dim=-1),
        "entropy": torch.special.entr(weights).sum(dim=-1),
        "distance": (weights * away.to(weights)).sum(dim=-1),
        "received": counted.sum(dim=-2),
        "map": (of_row.to(weights) @ counted @ of_column.to(weights))
        / number.clamp(min=1)[..., None],
    }


def _away(queries: Tensor, keys: Tensor, position: int | None) -> Tensor:
    """|p − j| where query and key are of one segment, counted within it."""
    away = torch.zeros(len(queries), len(keys), dtype=torch.int64)
    for segment in set(queries.tolist()) - {-1}:
        rows, columns = (queries == segment).nonzero(), (keys == segment).nonzero()
        start = len(columns) - len(rows) if position is None else position
        place = torch.arange(len(rows))[:, None] + start
        away[rows, columns[:, 0]] = (torch.arange(len(columns)) - place).abs()
    return away


def unit(dtype: torch.dtype) -> float:
    """Half the distance from 1 to the next number: 2⁻²⁴ in float32.

    The reference is rounded to float64 itself, so that a few units more are allowed there.
    """
    return torch.finfo(dtype).eps * (8 if dtype == torch.float64 else 0.5)


def largest(x: Any) -> float:
    """The largest magnitude of the finite numbers of `x`, at least 1."""
    magnitude = np.abs(np.asarray(numbers(x), dtype=np.float64))
    return float(magnitude.max(initial=1.0, where=np.isfinite(magnitude)))


def error(found: Tensor, truth: Array) -> float:
    """The largest difference; inf where one is finite and the other is not, or is another one."""
    got = numbers(found).astype(np.float64)
    assert got.shape == truth.shape
    same = (got == truth) | (np.isnan(got) & np.isnan(truth))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(got - truth))
    return float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0))


def _scale(problem: Problem) -> float:
    scale = problem.options.get("scale")
    return 1 / math.sqrt(problem.q.shape[-1]) if scale is None else scale


def score_size(problem: Problem, step: reference.Attention) -> float:
    """The largest score, before a softcap too; at least 1, as scores of 0 are rounded too."""
    raw = largest(np.where(step.allowed, step.scores, 0.0) * _scale(problem))
    return max(raw, largest(step.scaled), largest(problem.options.get("sinks", 0.0)))


def exponent_size(problem: Problem) -> float:
    """How large the parts of score − lse are, whose exponential is a weight that is made later.

    By then a score may have been added up in another order: it is rounded in proportion to the
    magnitudes of its products, not to their sum.
    """
    step = problem.truth()
    q, k = np.abs(numbers(problem.q)), np.abs(numbers(problem.k))
    products = q @ np.repeat(k, problem.heads // k.shape[1], axis=1).swapaxes(-1, -2)
    products = np.where(step.allowed, products, 0.0) * _scale(problem)
    return max(score_size(problem, step), largest(products), largest(step.lse))


def floor(problem: Problem) -> float:
    """What is allowed beside eager's error, in units: 4·max|score|.

    Few rows may by luck show little of eager's error. For those it is what sums of products and
    sums over the keys are rounded by.
    """
    step = problem.truth()
    if step.allowed.any(axis=-1).sum() >= 200:
        return 4 * score_size(problem, step)
    return 4 * exponent_size(problem) + math.sqrt(problem.n_keys)


def assert_right(
    what: str, found: Tensor, truth: Array, peer: Tensor, allowance: float, factor: float = 2.0
) -> None:
    """CONTRACT, "How right": at most `factor` times as wrong as eager, plus what is allowed."""
    wrong, limit = error(found, truth), factor * error(peer, truth) + allowance
    assert wrong <= limit, f"{what} is wrong by {wrong:.3g}; at most {limit:.3g} was allowed"


def assert_output_is_right(problem: Problem, output: Tensor) -> None:
    allowance = unit(problem.q.dtype) * floor(problem) * largest(problem.v)
    assert output.dtype == problem.q.dtype
    assert_right("output", output, problem.truth().output, problem.eager.output, allowance)


def assert_observation_is_right(problem: Problem, seen: regard.Observation, sight: Sight) -> None:
    """Each statistic against the reference, by the rule for the output with its own largest value
    in the place of max|v|."""
    step, peer = problem.truth(), problem.eager
    position, segments = problem.options.get("position"), problem.options.get("segments")
    dtype = torch.float64 if problem.q.dtype == torch.float64 else torch.float32
    truth = {
        "lse": step.lse,
        "entropy": reference.entropy(step.weights),
        "distance": reference.distance(step.weights, position, numbers(segments)),
        "received": reference.received(step.weights, sight.queries),
        "map": reference.pooled_map(
            step.weights, sight.map, allowed=step.allowed, queries=sight.queries
        ),
    }
    if sight.of_keys and sight.labels is not None:
        truth["spans"] = reference.spans(step.weights, sight.labels, sight.n_spans)
    if sight.of_keys:
        truth["max_logit"] = reference.max_logit(step.scaled, step.allowed)
    peers = {
        "lse": peer.lse,
        "max_logit": peer.max_logit,
        **_statistics(peer.weights, step.allowed, sight, position, segments),
    }
    online, later = unit(dtype) * floor(problem), 4 * unit(dtype) * exponent_size(problem)
    # A map is a mean over queries of sums over keys.
    allowances = {"received": later, "map": 3 * online}
    for name, expected in truth.items():
        found = getattr(seen, name)
        assert found.dtype == dtype
        allowance = allowances.get(name, online) * largest(expected)
        assert_right(name, found, expected, peers[name], allowance)
    assert_top_is_right(step, seen, sight.top, online + 2 * error(peer.weights, step.weights))
    if not sight.of_keys:
        return
    sizes, peers_sizes = (w * norms_of(problem) for w in (step.weights, numbers(peer.weights)))
    tolerance = online * largest(sizes) + 2 * float(np.abs(sizes - peers_sizes).max(initial=0.0))
    assert_contribution_is_right(problem, seen, sight.top, tolerance)


def norms_of(problem: Problem) -> Array:
    """‖v‖ by query head, (B, H, 1, Nk)."""
    norms = np.linalg.norm(numbers(problem.v).astype(np.float64), axis=-1)
    return np.repeat(norms, problem.heads // max(norms.shape[1], 1), axis=1)[:, :, None]


def assert_top_is_right(
    step: reference.Attention, seen: regard.Observation, count: int, tolerance: float
) -> None:
    """The strongest keys, and their weights."""
    assert seen.top_keys is not None
    assert seen.top_weights is not None
    named = seen.top_keys, seen.top_weights
    assert_largest_are_named(step.weights, step.allowed, *named, count, tolerance)


def assert_contribution_is_right(
    problem: Problem, seen: regard.Observation, count: int, tolerance: float
) -> None:
    """The keys that move the output most, and by how much."""
    assert seen.contribution_keys is not None
    assert seen.contribution is not None
    step, norms = problem.truth(), norms_of(problem)
    named = seen.contribution_keys, seen.contribution
    moving = step.allowed & (norms != 0)
    assert_largest_are_named(step.weights * norms, moving, *named, count, tolerance)


def assert_largest_are_named(
    sizes: Array,
    allowed: Array,
    top_keys: Tensor,
    top_weights: Tensor,
    count: int,
    tolerance: float,
) -> None:
    """Sorted, of keys that are allowed and named once, with their sizes, and none larger left
    out; −1 and 0 after them."""
    assert top_keys.dtype == torch.int64
    keys, weights = top_keys.numpy(), numbers(top_weights)
    assert keys.shape == weights.shape == (*sizes.shape[:-1], count)
    n_keys = sizes.shape[-1]
    named = keys >= 0
    expected = np.minimum(allowed.sum(axis=-1), count)[..., None]
    np.testing.assert_array_equal(named, np.arange(count) < expected)
    assert (keys[~named] == -1).all()
    assert (weights[~named] == 0).all()
    assert (keys < n_keys).all()
    assert (np.diff(weights, axis=-1) <= 0).all()
    if n_keys == 0:
        return
    place = np.where(named, keys, 0)
    of_keys = np.take_along_axis(sizes, place, axis=-1)
    assert np.take_along_axis(allowed, place, axis=-1)[named].all()
    assert np.abs(of_keys - weights)[named].max(initial=0.0) <= tolerance
    times = np.zeros(sizes.shape, dtype=np.int64)
    for rank in range(count):
        at = place[..., rank : rank + 1]
        before = np.take_along_axis(times, at, axis=-1)
        np.put_along_axis(times, at, before + named[..., rank : rank + 1], axis=-1)
    assert times.max(initial=0) <= 1
    strongest_left_out = np.where(allowed & (times == 0), sizes, 0.0).max(axis=-1)
    weakest_named = np.where(named, of_keys, np.inf).min(axis=-1, initial=np.inf)
    assert (strongest_left_out <= weakest_named + 2 * tolerance).all()


def assert_close(found: Tensor, expected: Tensor, problem: Problem, size: float = 1.0) -> None:
    """Two answers to the same question: equal but for rounding, of which each may have its own.

    `size` is that of the numbers that are compared, max|v| for outputs.
    """
    tolerance = 64 * unit(problem.q.dtype) * score_size(problem, problem.truth()) * max(size, 1.0)
    assert found.shape == expected.shape
    wrong = error(found, numbers(expected).astype(np.float64))
    assert wrong <= tolerance, f"differs by {wrong:.3g}; at most {tolerance:.3g} was allowed"


def assert_same_bits(found: Tensor, expected: Tensor) -> None:
    """Equal to the last bit; NaN equals NaN, and 0 equals −0."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    differ = (found != expected) & ~(found.isnan() & expected.isnan())
    assert not differ.any(), (
        f"{int(differ.sum())} of {found.numel()} numbers differ, "
        f"by up to {error(found, numbers(expected).astype(np.float64)):.3g}"
    )


def assert_same(backend: str, found: Tensor, expected: Tensor, problem: Problem) -> None:
    """CONTRACT, ★: bit for bit on the native backend, but for rounding on the torch backend."""
    if backend == "native":
        assert_same_bits(found, expected)
    else:
        assert_close(found, expected, problem, largest(problem.v))


SEEN = (
    *("lse", "entropy", "distance", "map", "received", "top_keys", "top_weights"),
    *("max_logit", "contribution_keys", "contribution"),
)  # and spans, where keys have labels


def parts(output: Tensor, seen: regard.Observation) -> dict[str, Tensor]:
    """Output and everything that was seen, by name."""
    found = {name: getattr(seen, name) for name in (*SEEN, "spans")}
    return {"output": output} | {name: x for name, x in found.items() if x is not None}
