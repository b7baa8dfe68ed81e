"""The laws of attention, which hold for any numbers: `regard.reference` under Hypothesis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from helpers import by_hand
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from regard import reference
from regard.reference import Attention, attention

Array = NDArray[np.float64]
PRIMES = (1, 2, 5, 7, 11, 13)
BATCH, HEADS = 2, 3


def close(found: Any, expected: Any, size: float = 1.0) -> None:
    """Within the rounding of float64, for numbers of about `size`."""
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * size)


@dataclass(frozen=True)
class Problem:
    """Inputs of attention and the options that go with them."""

    q: Array
    k: Array
    v: Array
    options: dict[str, Any]
    random: np.random.Generator

    @property
    def n_queries(self) -> int:
        return self.q.shape[-2]

    @property
    def n_keys(self) -> int:
        return self.k.shape[-2]

    def solve(self, **changed: Any) -> Attention:
        return attention(self.q, self.k, self.v, **(self.options | changed))


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    positional: bool = True,
    by_key: bool = True,
    sinks: bool = False,
    square: bool = False,
    n_keys: int | None = None,
    anywhere: bool = False,
    magnitudes: tuple[float, ...] = (0.1, 1.0, 6.0),
) -> Problem:
    """`positional`: causal and window may be drawn; `by_key`: mask, bias and lengths may be;
    `anywhere`: the queries may stand elsewhere than at the end of the keys."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_queries = draw(st.sampled_from(PRIMES))
    if n_keys is None:
        n_keys = n_queries if square else draw(st.sampled_from(PRIMES))
    width, value_width = draw(st.sampled_from((1, 2, 17))), draw(st.sampled_from((1, 3)))
    shared = draw(st.sampled_from((HEADS, 1)))
    size = draw(st.sampled_from(magnitudes))
    options: dict[str, Any] = {}
    if positional:
        side = st.none() | st.integers(-1, 14)
        options["causal"] = draw(st.booleans())
        options["window"] = draw(st.none() | st.tuples(side, side))
    if anywhere:
        options["position"] = draw(st.none() | st.integers(-5, 14))
    if by_key:
        shape = (BATCH, HEADS, n_queries, n_keys)
        if draw(st.booleans()):
            options["mask"] = random.random(shape) < draw(st.sampled_from((0.2, 0.8)))
        if draw(st.booleans()):
            bias = random.normal(size=shape)
            options["bias"] = np.where(random.random(shape) < 0.2, -np.inf, bias)
        if draw(st.booleans()):
            options["lengths"] = random.integers(0, n_keys + 2, size=BATCH)
    if draw(st.booleans()):
        options["softcap"] = draw(st.sampled_from((0.5, 5.0)))
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from((-0.5, 0.0, 1.0)))
    if sinks:
        options["sinks"] = random.normal(size=HEADS)
    return Problem(
        q=random.normal(size=(BATCH, HEADS, n_queries, width)) * size,
        k=random.normal(size=(BATCH, shared, n_keys, width)),
        v=random.normal(size=(BATCH, shared, n_keys, value_width)),
        options=options,
        random=random,
    )


def rows_with_a_key(step: Attention) -> NDArray[np.bool_]:
    return np.asarray(step.allowed.any(axis=-1))


def values_by_head(problem: Problem) -> Array:
    """(B, H, Nk, Dv): a shared head repeated for each that uses it."""
    return np.broadcast_to(problem.v, (BATCH, HEADS, *problem.v.shape[-2:]))


# ── against the loops ─────────────────────────────────────────────────────────────────────────


@given(problem=problems(sinks=True) | problems(anywhere=True))
def test_any_options_together_equal_the_triple_loop(problem: Problem) -> None:
    found = problem.solve()
    expected = by_hand.attention(problem.q, problem.k, problem.v, **problem.options)
    assert_array_equal(found.allowed, expected.allowed)
    close(found.scaled, expected.scaled, 10)
    close(found.lse, expected.lse, 10)
    close(found.weights, expected.weights)
    close(found.output, expected.output, 10)


# ── weights ───────────────────────────────────────────────────────────────────────────────────


@given(problem=problems(magnitudes=(0.1, 1.0, 1e3, 1e8)))
def test_rows_sum_to_one_or_are_exactly_zero(problem: Problem) -> None:
    step = problem.solve()
    has_key = rows_with_a_key(step)
    assert_allclose(step.weights.sum(axis=-1)[has_key], 1.0, rtol=1e-14)
    assert not step.weights[~has_key].any()
    assert not step.output[~has_key].any()
    assert np.isneginf(step.lse[~has_key]).all()
    assert np.isfinite(step.lse[has_key]).all()
    assert (step.weights >= 0).all()
    assert not step.weights[~step.allowed].any()


@given(problem=problems(sinks=True))
def test_with_a_sink_rows_sum_to_one_less_its_share(problem: Problem) -> None:
    step = problem.solve()
    share = np.exp(problem.options["sinks"][:, None] - step.lse)
    has_key = rows_with_a_key(step)
    close((step.weights.sum(axis=-1) + share)[has_key], 1.0)


@given(
    scores=st.lists(st.floats(-30, 30), min_size=1, max_size=7),
    constant=st.floats(-1e4, 1e4),
)
def test_adding_a_constant_to_a_row_of_scores_changes_no_weight(
    scores: list[float], constant: float
) -> None:
    moved = np.array(scores) + constant
    # The sum rounds at ±1e4, so that each score moves by up to 1e-12.
    assert_allclose(reference.softmax(moved), reference.softmax(scores), rtol=1e-11)
    assert_allclose(reference.logsumexp(moved), reference.logsumexp(scores) + constant, atol=1e-11)


@given(problem=problems())
def test_adding_a_bias_that_is_the_same_for_all_keys_changes_no_output(problem: Problem) -> None:
    constant = problem.random.normal(size=(BATCH, HEADS, problem.n_queries, 1)) * 10
    bias = problem.options.get("bias", 0.0) + constant
    before, after = problem.solve(), problem.solve(bias=bias)
    close(after.weights, before.weights)
    close(after.output, before.output)
    close(after.lse, before.lse + constant[..., 0], 10)


@given(problem=problems(magnitudes=(1.0,), positional=False, by_key=False))
def test_logits_of_ten_thousand_stay_finite(problem: Problem) -> None:
    scores = problem.solve(scale=1.0, softcap=None).scores
    scale = 1e4 / np.abs(scores).max()
    for signed in (scale, -scale):
        step = problem.solve(scale=signed, softcap=None)
        for array in (step.scaled, step.lse, step.weights, step.output):
            assert np.isfinite(array).all()
        assert_allclose(step.weights.sum(axis=-1), 1.0, rtol=1e-14)


# ── values ────────────────────────────────────────────────────────────────────────────────────


@given(problem=problems())
def test_outputs_lie_in_the_hull_of_the_allowed_values(problem: Problem) -> None:
    step = problem.solve()
    seen = step.allowed[..., None]
    values = values_by_head(problem)[:, :, None]
    lowest = np.where(seen, values, np.inf).min(axis=-2)
    highest = np.where(seen, values, -np.inf).max(axis=-2)
    has_key = rows_with_a_key(step)
    assert (step.output[has_key] >= lowest[has_key] - 1e-12).all()
    assert (step.output[has_key] <= highest[has_key] + 1e-12).all()


@given(problem=problems(sinks=True), a=st.floats(-3, 3), b=st.floats(-3, 3))
def test_the_output_is_linear_in_the_values(problem: Problem, a: float, b: float) -> None:
    other = replace(problem, v=problem.random.normal(size=problem.v.shape))
    mixed = replace(problem, v=a * problem.v + b * other.v)
    expected = a * problem.solve().output + b * other.solve().output
    close(mixed.solve().output, expected, 10)


@given(problem=problems(), constant=st.floats(-1e6, 1e6))
def test_a_constant_value_comes_out_as_it_is(problem: Problem, constant: float) -> None:
    step = replace(problem, v=np.full_like(problem.v, constant)).solve()
    expected = np.where(rows_with_a_key(step)[..., None], constant, 0.0)
    expected = np.broadcast_to(expected, step.output.shape)
    assert_allclose(step.output, expected, rtol=1e-13, atol=1e-300)


@given(problem=problems())
def test_keys_of_zero_give_the_mean_of_the_allowed_values(problem: Problem) -> None:
    bias = problem.options.get("bias")
    options = {} if bias is None else {"bias": np.where(np.isneginf(bias), -np.inf, 0.0)}
    step = replace(problem, k=np.zeros_like(problem.k)).solve(**options)
    number = step.allowed.sum(axis=-1, keepdims=True)
    total = np.where(step.allowed[..., None], values_by_head(problem)[:, :, None], 0.0).sum(axis=-2)
    close(step.output, total / np.maximum(number, 1))


@given(problem=problems(by_key=False, n_keys=1))
def test_one_key_alone_returns_its_value_exactly(problem: Problem) -> None:
    step = problem.solve(causal=False, window=None)
    expected = np.broadcast_to(values_by_head(problem), step.output.shape)
    assert_array_equal(step.output, expected)


# ── order and independence ────────────────────────────────────────────────────────────────────


@given(problem=problems(positional=False))
def test_permuting_queries_permutes_outputs(problem: Problem) -> None:
    order = problem.random.permutation(problem.n_queries)
    options = dict(problem.options)
    for name in ("mask", "bias"):
        if name in options:
            options[name] = options[name][:, :, order]
    permuted = replace(problem, q=problem.q[:, :, order], options=options).solve()
    whole = problem.solve()
    close(permuted.output, whole.output[:, :, order])
    close(permuted.lse, whole.lse[:, :, order])


@given(problem=problems(positional=False, sinks=True))
def test_permuting_keys_and_values_together_changes_nothing(problem: Problem) -> None:
    whole = problem.solve(lengths=None)
    order = problem.random.permutation(problem.n_keys)
    options: dict[str, Any] = {**problem.options, "lengths": None}
    for name in ("mask", "bias"):
        if name in options:
            options[name] = options[name][..., order]
    k, v = problem.k[:, :, order], problem.v[:, :, order]
    permuted = replace(problem, k=k, v=v, options=options).solve()
    close(permuted.output, whole.output)
    close(permuted.lse, whole.lse)
    close(permuted.weights, whole.weights[..., order])


@given(
    seed=st.integers(0, 2**32 - 1),
    arrangement=st.sampled_from(("post", "pre", "notes")),
    split=st.sampled_from(("project", "slice")),
)
def test_an_encoder_is_permutation_equivariant_without_positions_and_only_without(
    seed: int, arrangement: Any, split: Any
) -> None:
    random = np.random.default_rng(seed)
    n, heads, d_model = 7, 3, 6
    d_in = d_model if split == "project" else d_model // heads
    w = random.normal(size=(3, heads, d_in, 2))
    w_o = random.normal(size=(heads * 2, d_model))
    w_in, w_out = random.normal(size=(d_model, 11)), random.normal(size=(11, d_model))

    def encode(x: Array) -> Array:
        for _ in range(2):
            x = reference.encoder_layer(
                x,
                lambda h: reference.multi_head(h, w[0], w[1], w[2], w_o, split=split).output,
                lambda h: reference.feed_forward(h, w_in, 0.1, w_out, -0.1),
                arrangement=arrangement,
            )
        return x

    x, order = random.normal(size=(n, d_model)), np.roll(np.arange(n), 1)
    assert_allclose(encode(x[order]), encode(x)[order], rtol=1e-8, atol=1e-8)
    positions = reference.sinusoidal(n, d_model)
    difference = encode(x[order] + positions) - encode(x + positions)[order]
    assert np.abs(difference).max() > 1e-6


@given(problem=problems(square=True), place=st.integers(0, 12))
def test_with_causal_a_later_token_changes_no_earlier_output(problem: Problem, place: int) -> None:
    j = place % problem.n_keys
    before = problem.solve(causal=True)
    q, k, v = problem.q.copy(), problem.k.copy(), problem.v.copy()
    for array in (q, k, v):
        array[:, :, j] = problem.random.normal(size=array[:, :, j].shape) * 1e3
    after = replace(problem, q=q, k=k, v=v).solve(causal=True)
    for name in ("output", "lse", "weights"):
        assert_array_equal(getattr(after, name)[:, :, :j], getattr(before, name)[:, :, :j])


@given(
    problem=problems(sinks=True) | problems(),
    content=st.sampled_from((1e38, -1e38, 1e308, math.nan, math.inf, -math.inf)),
)
def test_a_key_that_no_query_may_see_may_hold_anything(problem: Problem, content: float) -> None:
    hidden = problem.random.random(problem.n_keys) < 0.4
    bias = np.where(hidden, -np.inf, problem.options.get("bias", 0.0))
    before = problem.solve(bias=bias)
    k, v = problem.k.copy(), problem.v.copy()
    k[:, :, hidden], v[:, :, hidden] = content, content
    after = replace(problem, k=k, v=v).solve(bias=bias)
    for name in ("output", "lse", "weights"):
        assert_array_equal(getattr(after, name), getattr(before, name))


@given(problem=problems(), content=st.sampled_from((math.nan, math.inf, -math.inf)))
def test_exactly_the_queries_that_may_see_a_value_that_is_not_finite_show_it(
    problem: Problem, content: float
) -> None:
    j = int(problem.random.integers(problem.n_keys))
    before = problem.solve()
    v = problem.v.copy()
    v[:, :, j] = content
    after = replace(problem, v=v).solve()
    sees = before.allowed[..., j]
    assert_array_equal(np.isfinite(after.output).all(axis=-1), ~sees)
    assert_array_equal(after.output[~sees], before.output[~sees])


@given(problem=problems(), b=st.integers(0, BATCH - 1), h=st.integers(0, HEADS - 1))
def test_sequences_and_heads_do_not_know_of_each_other(problem: Problem, b: int, h: int) -> None:
    whole = problem.solve()
    shared = 0 if problem.k.shape[1] == 1 else h
    options = dict(problem.options)
    for name in ("mask", "bias"):
        if name in options:
            options[name] = options[name][b : b + 1, h : h + 1]
    if "lengths" in options:
        options["lengths"] = options["lengths"][b : b + 1]
    alone = attention(
        problem.q[b : b + 1, h : h + 1],
        problem.k[b : b + 1, shared : shared + 1],
        problem.v[b : b + 1, shared : shared + 1],
        **options,
    )
    close(alone.output[0, 0], whole.output[b, h])
    close(alone.lse[0, 0], whole.lse[b, h])
    q = problem.q.copy()
    q[b, h] = np.nan
    others = np.ones((BATCH, HEADS), dtype=bool)
    others[b, h] = False
    changed = replace(problem, q=q).solve()
    assert_array_equal(changed.output[others], whole.output[others])


# ── the same thing said in two ways ───────────────────────────────────────────────────────────


@given(problem=problems())
def test_a_boolean_mask_is_a_bias_of_zero_and_minus_infinity(problem: Problem) -> None:
    mask = problem.random.random((HEADS, 1, problem.n_keys)) < 0.6
    own = np.asarray(problem.options.get("mask", True), dtype=bool)
    bias = problem.options.get("bias", 0.0) + np.where(mask, 0.0, -np.inf)
    as_mask, as_bias = problem.solve(mask=own & mask), problem.solve(bias=bias)
    for name in ("allowed", "scaled", "lse", "weights", "output"):
        assert_array_equal(getattr(as_mask, name), getattr(as_bias, name))


@given(
    problem=problems(by_key=False),
    window=st.none() | st.tuples(*[st.none() | st.integers(-2, 14)] * 2),
)
def test_causal_and_window_are_an_explicit_mask(
    problem: Problem, window: tuple[int | None, int | None] | None
) -> None:
    n_queries, n_keys = problem.n_queries, problem.n_keys
    mask = np.array(
        [
            [by_hand.may_attend(i, j, n_queries, n_keys, True, window) for j in range(n_keys)]
            for i in range(n_queries)
        ]
    )
    flagged = problem.solve(causal=True, window=window)
    masked = problem.solve(causal=False, window=None, mask=mask)
    assert_array_equal(flagged.allowed, masked.allowed)
    assert_array_equal(flagged.output, masked.output)


@given(problem=problems(), beyond=st.integers(0, 5))
def test_a_window_of_all_positions_is_no_window(problem: Problem, beyond: int) -> None:
    reach = max(problem.n_queries, problem.n_keys) + beyond
    full = problem.solve(causal=False, window=None)
    assert_array_equal(problem.solve(causal=False, window=(reach, reach)).output, full.output)
    causal = problem.solve(causal=True, window=None)
    for window in ((reach, 0), (None, 0), (reach, None), (None, reach)):
        assert_array_equal(problem.solve(causal=True, window=window).output, causal.output)
    assert_array_equal(problem.solve(causal=False, window=(reach, 0)).output, causal.output)


@given(problem=problems(), group=st.sampled_from((1, 2, 3)))
def test_grouped_heads_are_repeated_keys_and_values(problem: Problem, group: int) -> None:
    options = {
        name: given for name, given in problem.options.items() if name not in ("mask", "bias")
    }
    shared = problem.k.shape[1]
    q = problem.random.normal(size=(BATCH, shared * group, *problem.q.shape[-2:]))
    grouped = attention(q, problem.k, problem.v, **options)
    heads = [h // group for h in range(shared * group)]
    repeated = attention(q, problem.k[:, heads], problem.v[:, heads], **options)
    for name in ("scores", "lse", "weights", "output"):
        assert_array_equal(getattr(grouped, name), getattr(repeated, name))


@given(problem=problems(positional=False), parts=st.integers(1, 4))
def test_keys_split_in_any_way_and_merged_by_lse_are_the_whole(
    problem: Problem, parts: int
) -> None:
    whole = problem.solve()
    part_of = problem.random.integers(parts, size=problem.n_keys)
    lse = np.full_like(whole.lse, -np.inf)
    output = np.zeros_like(whole.output)
    for part in problem.random.permutation(parts):
        mask = problem.options.get("mask", True) & (part_of == part)
        piece = problem.solve(mask=np.asarray(mask))
        merged = np.logaddexp(lse, piece.lse)
        some = ~np.isneginf(merged)
        old, new = (
            np.exp(np.subtract(x, merged, out=np.full_like(x, -np.inf), where=some))[..., None]
            for x in (lse, piece.lse)
        )
        output, lse = old * output + new * piece.output, merged
    close(lse, whole.lse, 10)
    close(output, whole.output)


@given(problem=problems(by_key=False, square=True), seed=st.integers(0, 2**32 - 1))
def test_queries_in_chunks_on_the_keys_so_far_are_causal_attention_at_once(
    problem: Problem, seed: int
) -> None:
    whole = problem.solve(causal=True)
    random = np.random.default_rng(seed)
    start = 0
    while start < problem.n_queries:
        end = int(random.integers(start, problem.n_queries)) + 1
        chunk = replace(
            problem,
            q=problem.q[:, :, start:end],
            k=problem.k[:, :, :end],
            v=problem.v[:, :, :end],
        ).solve(causal=True)
        close(chunk.output, whole.output[:, :, start:end])
        close(chunk.lse, whole.lse[:, :, start:end], 10)
        start = end


@given(problem=problems(by_key=False), padding=st.integers(1, 5))
def test_padding_on_either_side_changes_nothing(problem: Problem, padding: int) -> None:
    def filler(x: Array) -> Array:
        return problem.random.normal(size=(BATCH, x.shape[1], padding, x.shape[3])) * 100

    on_the_left = replace(
        problem,
        k=np.concatenate([filler(problem.k), problem.k], axis=2),
        v=np.concatenate([filler(problem.v), problem.v], axis=2),
    )
    real = np.arange(padding + problem.n_keys) >= padding
    found = on_the_left.solve(mask=np.broadcast_to(real, (BATCH, 1, 1, len(real))))
    close(found.output, problem.solve().output)
    close(found.lse, problem.solve().lse, 10)
    on_the_right = replace(
        problem,
        k=np.concatenate([problem.k, filler(problem.k)], axis=2),
        v=np.concatenate([problem.v, filler(problem.v)], axis=2),
    )
    found = on_the_right.solve(lengths=[problem.n_keys] * BATCH, causal=False, window=None)
    close(found.output, problem.solve(causal=False, window=None).output)


@given(problem=problems())
def test_strides_do_not_matter(problem: Problem) -> None:
    def strided(x: Array) -> Array:
        return np.swapaxes(np.swapaxes(np.repeat(x, 2, axis=-1), 0, 2).copy(), 0, 2)[..., ::2]

    other = replace(problem, q=strided(problem.q), k=strided(problem.k), v=strided(problem.v))
    close(other.solve().output, problem.solve().output)


@given(seed=st.integers(0, 2**32 - 1), heads=st.sampled_from((1, 2, 3)))
def test_slicing_the_input_is_projecting_it_with_zeros_elsewhere(seed: int, heads: int) -> None:
    random = np.random.default_rng(seed)
    own, n = 2, 5
    x = random.normal(size=(n, heads * own))
    sliced = random.normal(size=(3, heads, own, 3))
    whole = np.zeros((3, heads, heads * own, 3))
    for h in range(heads):
        whole[:, h, h * own : (h + 1) * own] = sliced[:, h]
    w_o = random.normal(size=(heads * 3, heads * own))
    by_slice = reference.multi_head(x, sliced[0], sliced[1], sliced[2], w_o, split="slice")
    by_projection = reference.multi_head(x, whole[0], whole[1], whole[2], w_o)
    close(by_slice.output, by_projection.output, 10)


# ── what attention did ────────────────────────────────────────────────────────────────────────


@given(problem=problems())
def test_all_that_is_received_is_the_number_of_queries_with_a_key(problem: Problem) -> None:
    step = problem.solve()
    total = reference.received(step.weights).sum(axis=-1)
    close(total, rows_with_a_key(step).sum(axis=-1))
    counting = problem.random.random((BATCH, 1, problem.n_queries)) < 0.5
    total = reference.received(step.weights, counting).sum(axis=-1)
    close(total, (rows_with_a_key(step) & counting).sum(axis=-1))


@given(problem=problems(), rows=st.integers(1, 14), columns=st.integers(1, 14))
def test_rows_of_a_map_sum_to_one_or_are_exactly_zero(
    problem: Problem, rows: int, columns: int
) -> None:
    step = problem.solve()
    counting = problem.random.random((BATCH, 1, problem.n_queries)) < 0.5
    pooled = reference.pooled_map(
        step.weights, (rows, columns), allowed=step.allowed, queries=counting
    )
    row_of_query = np.arange(problem.n_queries) * rows // problem.n_queries
    counted = rows_with_a_key(step) & counting
    for r in range(rows):
        some = counted[..., row_of_query == r].any(axis=-1)
        close(pooled[..., r, :].sum(axis=-1), some.astype(float))
        assert not pooled[..., r, :][~some].any()
    assert pooled.shape == (BATCH, HEADS, rows, columns)


@given(problem=problems(), count=st.integers(0, 14))
def test_top_is_sorted_names_its_keys_and_leaves_out_none_that_is_stronger(
    problem: Problem, count: int
) -> None:
    step = problem.solve()
    keys, strongest = reference.top(step.weights, count, step.allowed)
    assert keys.shape == strongest.shape == (BATCH, HEADS, problem.n_queries, count)
    assert (np.diff(strongest, axis=-1) <= 0).all()
    for place in np.ndindex(BATCH, HEADS, problem.n_queries):
        named = [j for j in keys[place].tolist() if j >= 0]
        allowed = np.flatnonzero(step.allowed[place]).tolist()
        assert len(named) == len(set(named)) == min(count, len(allowed))
        assert set(named) <= set(allowed)
        assert keys[place].tolist() == named + [-1] * (count - len(named))
        expected = [*step.weights[place][named].tolist(), *[0.0] * (count - len(named))]
        assert strongest[place].tolist() == expected
        left_out = set(allowed) - set(named)
        if named and left_out:
            assert max(step.weights[place][j] for j in left_out) <= min(expected)


@given(problem=problems(magnitudes=(0.1, 1.0, 1e3)))
def test_entropy_is_between_zero_and_the_logarithm_of_the_number_of_allowed_keys(
    problem: Problem,
) -> None:
    step = problem.solve()
    entropy = reference.entropy(step.weights)
    assert (entropy >= 0).all()
    assert (entropy <= np.log(np.maximum(step.allowed.sum(axis=-1), 1)) + 1e-12).all()


@given(problem=problems())
def test_entropy_is_lse_less_the_mean_of_the_scaled_scores(problem: Problem) -> None:
    step = problem.solve()
    scaled = np.where(step.allowed, step.scaled, 0.0)
    lse = np.where(rows_with_a_key(step), step.lse, 0.0)
    close(reference.entropy(step.weights), lse - (step.weights * scaled).sum(axis=-1), 100)


@given(problem=problems())
def test_distance_is_no_longer_than_the_longest_way_to_an_allowed_key(problem: Problem) -> None:
    step = problem.solve()
    position = np.arange(problem.n_queries)[:, None] + problem.n_keys - problem.n_queries
    away = np.abs(position - np.arange(problem.n_keys))
    farthest = np.where(step.allowed, away, 0).max(axis=-1)
    nearest = np.where(step.allowed, away, np.inf).min(axis=-1)
    found = reference.distance(step.weights)
    assert (found <= farthest + 1e-9).all()
    assert (found >= np.where(rows_with_a_key(step), nearest, 0.0) - 1e-9).all()
