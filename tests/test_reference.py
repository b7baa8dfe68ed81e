"""`regard.reference` against numbers worked out by hand and against plain loops (`by_hand`)."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from helpers import by_hand
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from regard import reference

Array = NDArray[np.float64]
INF, NAN = math.inf, math.nan


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def close(found: Any, expected: Any) -> None:
    """Within the rounding of float64."""
    assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


# ── softmax ───────────────────────────────────────────────────────────────────────────────────


def softmax_in_decimals(row: list[float]) -> tuple[list[float], float]:
    """Weights and log-sum-exp in 60 digits, without taking anything out first."""
    with localcontext() as context:
        context.prec = 60
        exponentials = [Decimal(score).exp() for score in row]
        total = sum(exponentials, Decimal(0))
        return [float(e / total) for e in exponentials], float(total.ln())


def test_softmax_of_logarithms_gives_their_numbers_as_fractions() -> None:
    row = [math.log(1), math.log(2), math.log(5)]
    close(reference.softmax(row), [1 / 8, 2 / 8, 5 / 8])
    close(reference.logsumexp(row), math.log(8))


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4, 3e5, -3e5])
def test_softmax_of_large_logits_equals_sixty_digit_arithmetic(offset: float) -> None:
    row = [offset + 0.5, offset - 1.25, offset + 2.0, offset]
    weights, lse = softmax_in_decimals(row)
    assert_allclose(reference.softmax(row), weights, rtol=1e-14)
    assert_allclose(reference.logsumexp(row), lse, rtol=1e-15)


def test_logits_twenty_thousand_apart_give_all_the_weight_to_the_larger_one() -> None:
    assert_array_equal(reference.softmax([1e4, -1e4]), [1.0, 0.0])
    assert reference.logsumexp([1e4, -1e4]) == 1e4


@pytest.mark.parametrize("score", [1e15, 1e17, 1e300, -1e17, float(np.finfo(np.float64).min)])
def test_equal_scores_share_the_weight_equally_however_large_they_are(score: float) -> None:
    close(reference.softmax([score] * 3), [1 / 3] * 3)


def test_scores_as_far_apart_as_float64_allows_neither_overflow_nor_warn() -> None:
    assert_array_equal(reference.softmax([1.7e308, -1.7e308]), [1.0, 0.0])
    assert reference.logsumexp([1.7e308, -1.7e308]) == 1.7e308


def test_a_score_of_minus_infinity_gets_no_weight_and_the_others_share_it_all() -> None:
    close(reference.softmax([0.0, -INF, math.log(3)]), [0.25, 0.0, 0.75])
    close(reference.logsumexp([0.0, -INF, math.log(3)]), math.log(4))


def test_a_row_of_minus_infinities_has_weights_zero_and_lse_minus_infinity() -> None:
    assert_array_equal(reference.softmax([[-INF, -INF], [0.0, -INF]]), [[0.0, 0.0], [1.0, 0.0]])
    assert_array_equal(reference.logsumexp([[-INF, -INF], [0.0, -INF]]), [-INF, 0.0])


def test_softmax_of_nothing_is_nothing_and_its_lse_is_minus_infinity() -> None:
    assert reference.softmax(np.zeros((3, 0))).shape == (3, 0)
    assert reference.softmax(np.zeros((0, 5))).shape == (0, 5)
    assert_array_equal(reference.logsumexp(np.zeros((3, 0))), [-INF] * 3)
    assert reference.logsumexp(np.zeros((0, 5))).shape == (0,)


def test_softmax_works_along_the_last_axis_and_each_row_by_itself() -> None:
    scores = normal(2, 3, 5)
    for b, i in itertools.product(range(2), range(3)):
        weights, lse = softmax_in_decimals(scores[b, i].tolist())
        close(reference.softmax(scores)[b, i], weights)
        close(reference.logsumexp(scores)[b, i], lse)


def test_a_nan_among_the_scores_is_never_hidden() -> None:
    rows = [[NAN, 1.0, -INF], [2.0, 2.0, -INF]]
    assert np.isnan(reference.softmax(rows)[0]).all()
    assert np.isnan(reference.logsumexp(rows)[0])
    assert_array_equal(reference.softmax(rows)[1], [0.5, 0.5, 0.0])


# ── attention by hand ─────────────────────────────────────────────────────────────────────────


def test_attention_of_two_keys_has_the_weights_one_works_out_on_paper() -> None:
    # Scores 0 and √2·ln 3; scaled by 1/√2: 0 and ln 3; so 1/4 and 3/4.
    step = reference.attention([[1.0, 0.0]], [[0, 5], [math.sqrt(2) * math.log(3), 7]], [[4], [8]])
    close(step.scores, [[0, math.sqrt(2) * math.log(3)]])
    close(step.scaled, [[0, math.log(3)]])
    close(step.weights, [[0.25, 0.75]])
    close(step.lse, [math.log(4)])
    close(step.output, [[7.0]])
    assert step.allowed.all()


SIZES = {"B": 2, "H": 3, "Nq": 5, "Nk": 7, "D": 11, "Dv": 13}


def problem(
    seed: int = 0, *, shared: int | None = None, **changed: int
) -> tuple[Array, Array, Array]:
    size = SIZES | changed
    shared = size["H"] if shared is None else shared
    return (
        normal(size["B"], size["H"], size["Nq"], size["D"], seed=seed),
        normal(size["B"], shared, size["Nk"], size["D"], seed=seed + 1),
        normal(size["B"], shared, size["Nk"], size["Dv"], seed=seed + 2),
    )


def compare(q: Array, k: Array, v: Array, **options: Any) -> reference.Attention:
    found = reference.attention(q, k, v, **options)
    expected = by_hand.attention(q, k, v, **options)
    assert_array_equal(found.allowed, expected.allowed)
    for name in ("scores", "scaled", "lse", "weights", "output"):
        close(getattr(found, name), getattr(expected, name))
    return found


def masks(*shape: int, seed: int = 0) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random(shape) < 0.6


def biases(*shape: int, forbidden: bool = False) -> Array:
    bias = normal(*shape, seed=9)
    return np.where(masks(*shape, seed=3), bias, -INF) if forbidden else bias


OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "causal": {"causal": True},
    "window both sides": {"window": (2, 1)},
    "window open to the left": {"window": (None, 0)},
    "window open to the right": {"window": (1, None)},
    "window open on both sides": {"window": (None, None)},
    "window of the own position": {"window": (0, 0)},
    "window that starts before the query": {"window": (3, -1)},
    "mask": {"mask": masks(2, 3, 5, 7)},
    "mask of keys": {"mask": masks(7)},
    "mask of queries": {"mask": masks(5, 1)},
    "mask of queries and keys": {"mask": masks(5, 7)},
    "mask of each head": {"mask": masks(3, 1, 7)},
    "mask of each sequence": {"mask": masks(2, 1, 1, 7)},
    "bias": {"bias": biases(2, 3, 5, 7)},
    "bias of keys": {"bias": biases(7)},
    "bias of each head": {"bias": biases(3, 5, 7)},
    "bias of each sequence": {"bias": biases(2, 1, 1, 7)},
    "bias with minus infinity": {"bias": biases(2, 3, 5, 7, forbidden=True)},
    "bias of keys with minus infinity": {"bias": biases(7, forbidden=True)},
    "lengths": {"lengths": [3, 7]},
    "lengths of nothing and more than all": {"lengths": [0, 9]},
    "scale": {"scale": 0.7},
    "scale of zero": {"scale": 0.0},
    "scale below zero": {"scale": -0.3},
    "softcap": {"softcap": 1.5},
    "sinks": {"sinks": [0.3, -2.0, 4.0]},
    "causal and window": {"causal": True, "window": (2, 3)},
    "causal and lengths": {"causal": True, "lengths": [3, 6]},
    "softcap, then bias": {"softcap": 0.8, "bias": biases(2, 3, 5, 7)},
    "scale, then softcap": {"softcap": 0.8, "scale": 2.0},
    "sinks where some have no key": {"sinks": [0.3, -2.0, 4.0], "lengths": [0, 5]},
    "all of them": {
        "causal": True,
        "window": (4, 2),
        "mask": masks(5, 7),
        "bias": biases(2, 1, 5, 7, forbidden=True),
        "lengths": [5, 7],
        "scale": 0.9,
        "softcap": 2.0,
        "sinks": [0.1, 0.2, -0.3],
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_attention_equals_the_triple_loop(options: dict[str, Any]) -> None:
    compare(*problem(), **options)


@pytest.mark.parametrize("n_queries", [1, 2, 5, 7])
@pytest.mark.parametrize("n_keys", [1, 2, 5, 7])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"window": (1, 1)}, {"window": (2, None), "causal": True}],
    ids=["full", "causal", "window", "causal window"],
)
def test_attention_equals_the_triple_loop_with_any_number_of_queries_and_keys(
    n_queries: int, n_keys: int, options: dict[str, Any]
) -> None:
    compare(*problem(Nq=n_queries, Nk=n_keys, D=3, Dv=2), **options)


@pytest.mark.parametrize(("width", "value_width"), [(1, 1), (1, 5), (5, 1), (17, 3), (64, 64)])
def test_attention_equals_the_triple_loop_at_any_width(width: int, value_width: int) -> None:
    compare(*problem(D=width, Dv=value_width))


@pytest.mark.parametrize(("heads", "shared"), [(6, 6), (6, 3), (6, 2), (6, 1), (5, 1)])
def test_query_heads_share_key_heads_in_consecutive_groups(heads: int, shared: int) -> None:
    compare(*problem(H=heads, shared=shared, D=3, Dv=2), causal=True)


def test_attention_without_head_or_batch_axes_is_that_of_one_head() -> None:
    q, k, v = problem()
    whole = reference.attention(q, k, v, causal=True)
    by_head = reference.attention(q[1], k[1], v[1], causal=True)
    alone = reference.attention(q[1, 2], k[1, 2], v[1, 2], causal=True)
    for name in ("scores", "scaled", "allowed", "lse", "weights", "output"):
        close(getattr(by_head, name), getattr(whole, name)[1])
        close(getattr(alone, name), getattr(whole, name)[1, 2])


def test_keys_and_values_without_a_head_axis_serve_every_head() -> None:
    q, k, v = problem()
    shared = reference.attention(q[0], k[0, 0], v[0, 0])
    for h in range(3):
        close(shared.output[h], reference.attention(q[0, h], k[0, 0], v[0, 0]).output)


def test_leading_axes_broadcast() -> None:
    q, k, v = problem()
    found = reference.attention(q, k[:1], v[:1])
    close(found.output, reference.attention(q, k[[0, 0]], v[[0, 0]]).output)


def test_the_shapes_of_the_steps_are_those_of_the_docstring() -> None:
    step = reference.attention(*problem())
    assert step.scores.shape == step.scaled.shape == step.allowed.shape == (2, 3, 5, 7)
    assert step.weights.shape == (2, 3, 5, 7)
    assert step.lse.shape == (2, 3, 5)
    assert step.output.shape == (2, 3, 5, 13)


def test_integers_and_float32_are_computed_in_float64() -> None:
    q, k, v = (x.astype(np.float32) for x in problem())
    found = reference.attention(q, k, v)
    assert found.output.dtype == found.weights.dtype == found.lse.dtype == np.float64
    compare(*(x.astype(np.float64) for x in (q, k, v)))
    assert reference.attention([[1]], [[2]], [[3]]).output.dtype == np.float64


def test_attention_leaves_its_inputs_as_they_were_even_where_they_are_not_finite() -> None:
    q, k, v = problem()
    k[0, 0, 0], v[0, 0, 1] = NAN, INF
    given: dict[str, Any] = {
        "bias": biases(2, 3, 5, 7, forbidden=True),
        "mask": masks(5, 7),
        "sinks": np.array([1.0, 2, 3]),
        "lengths": np.array([3, 7]),
    }
    before = [x.copy() for x in (q, k, v, *given.values())]
    reference.attention(q, k, v, softcap=2.0, causal=True, **given)
    for array, copy in zip((q, k, v, *given.values()), before, strict=True):
        assert_array_equal(array, copy)


def test_strides_are_honoured() -> None:
    q, k, v = problem()
    other = [np.asfortranarray(q), k[..., ::-1].copy()[..., ::-1], np.swapaxes(v, 1, 2).copy()]
    other[2] = np.swapaxes(other[2], 1, 2)
    assert not any(x.flags.c_contiguous for x in other)
    close(reference.attention(*other).output, reference.attention(q, k, v).output)


# ── which keys a query may attend to ──────────────────────────────────────────────────────────


def picture(allowed: NDArray[np.bool_]) -> list[str]:
    return ["".join("x" if cell else "." for cell in row) for row in allowed]


def test_causal_with_more_keys_than_queries_puts_the_last_query_beside_the_last_key() -> None:
    assert picture(reference.allowed_keys(3, 5, causal=True)) == ["xxx..", "xxxx.", "xxxxx"]


def test_causal_with_more_queries_than_keys_leaves_the_first_queries_without_a_key() -> None:
    assert picture(reference.allowed_keys(5, 3, causal=True)) == ["...", "...", "x..", "xx.", "xxx"]


def test_a_window_counts_from_the_position_of_the_query_and_includes_both_ends() -> None:
    assert picture(reference.allowed_keys(3, 5, window=(1, 1))) == [".xxx.", "..xxx", "...xx"]
    assert picture(reference.allowed_keys(4, 4, window=(2, 0))) == ["x...", "xx..", "xxx.", ".xxx"]


def test_queries_may_stand_where_they_are_told() -> None:
    assert picture(reference.allowed_keys(3, 5, causal=True, position=0)) == [
        "x....",
        "xx...",
        "xxx..",
    ]
    assert picture(reference.allowed_keys(2, 3, window=(0, 0), position=-1)) == ["...", "x.."]
    assert_array_equal(reference.distance(np.eye(3), position=2), [2.0, 2.0, 2.0])


def test_none_leaves_a_side_of_the_window_open() -> None:
    assert picture(reference.allowed_keys(3, 4, window=(None, 0))) == ["xx..", "xxx.", "xxxx"]
    assert picture(reference.allowed_keys(3, 4, window=(0, None))) == [".xxx", "..xx", "...x"]
    assert picture(reference.allowed_keys(2, 3, window=(None, None))) == ["xxx", "xxx"]


def test_causal_and_window_compose() -> None:
    assert picture(reference.allowed_keys(4, 4, causal=True, window=(1, 2))) == [
        "x...",
        "xx..",
        ".xx.",
        "..xx",
    ]


def test_lengths_hide_keys_from_the_right_and_never_move_a_position() -> None:
    q, k, v = (np.ones((2, 1, 3, 2)) for _ in range(3))
    step = reference.attention(q, k, v, causal=True, lengths=[2, 3])
    assert picture(step.allowed[0, 0]) == ["x..", "xx.", "xx."]
    assert picture(step.allowed[1, 0]) == ["x..", "xx.", "xxx"]


# ── options by hand ───────────────────────────────────────────────────────────────────────────


def test_scale_is_one_over_the_root_of_the_width_unless_given() -> None:
    q, k, v = np.full((1, 9), 2.0), np.full((1, 9), 1.0), np.ones((1, 1))
    assert reference.attention(q, k, v).scaled == 6.0
    assert reference.attention(q, k, v, scale=0.5).scaled == 9.0
    assert reference.attention(q, k, v, scale=0.0).scaled == 0.0


def test_softcap_bends_the_scaled_score_before_the_bias_is_added() -> None:
    step = reference.attention([[3.0]], [[2.0]], [[1.0]], softcap=4.0, bias=[[100.0]])
    close(step.scaled, 4 * math.tanh(6 / 4) + 100)


def test_a_sink_takes_weight_gives_no_value_and_counts_in_lse() -> None:
    step = reference.attention([[[0.0]]], [[[1.0], [1.0]]], [[[6.0], [9.0]]], sinks=[math.log(3)])
    close(step.weights, [[[0.2, 0.2]]])
    close(step.output, [[[3.0]]])
    close(step.lse, [[math.log(5)]])


def test_a_sink_of_minus_infinity_is_no_sink() -> None:
    q, k, v = problem()
    found = reference.attention(q, k, v, sinks=[-INF] * 3)
    close(found.weights, reference.attention(q, k, v).weights)
    close(found.lse, reference.attention(q, k, v).lse)


def test_a_sink_far_above_every_score_takes_nearly_all_the_weight_without_overflow() -> None:
    step = reference.attention([[[0.0]]], [[[1.0]]], [[[1.0]]], sinks=[1e4])
    assert_array_equal(step.weights, [[[0.0]]])
    assert_array_equal(step.lse, [[1e4]])


def test_a_bias_as_low_as_floats_go_on_every_key_still_gives_weights_that_sum_to_one() -> None:
    lowest = float(np.finfo(np.float64).min)
    step = reference.attention([[1.0]], [[1.0]] * 3, [[1.0]] * 3, bias=[[lowest] * 3])
    close(step.weights, [[1 / 3] * 3])


# ── queries without a key, and sizes of zero ──────────────────────────────────────────────────

WAYS_TO_FORBID: dict[str, dict[str, Any]] = {
    "mask": {"mask": False},
    "bias": {"bias": -INF},
    "lengths": {"lengths": [0, 0]},
    "window": {"window": (0, -1)},
    "window beyond the keys": {"window": (None, -99)},
    "bias and sinks": {"bias": -INF, "sinks": [1.0, 2.0, 3.0]},
    "lengths and softcap": {"lengths": [0, 0], "softcap": 3.0},
}


@pytest.mark.parametrize("options", WAYS_TO_FORBID.values(), ids=WAYS_TO_FORBID.keys())
@pytest.mark.parametrize("content", [1.0, NAN, INF, 1e308])
def test_a_query_without_a_key_gets_output_zero_weights_zero_and_lse_minus_infinity(
    options: dict[str, Any], content: float
) -> None:
    q, k, v = (np.full_like(x, content) for x in problem())
    step = reference.attention(q, k, v, **options)
    assert not step.allowed.any()
    assert_array_equal(step.weights, np.zeros((2, 3, 5, 7)))
    assert_array_equal(step.output, np.zeros((2, 3, 5, 13)))
    assert_array_equal(step.lse, np.full((2, 3, 5), -INF))
    assert_array_equal(reference.entropy(step.weights), np.zeros((2, 3, 5)))
    keys, strongest = reference.top(step.weights, 2, step.allowed)
    assert_array_equal(keys, np.full((2, 3, 5, 2), -1))
    assert_array_equal(strongest, np.zeros((2, 3, 5, 2)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize("empty", ["B", "H", "Nq", "Nk", "Dv"])
def test_sizes_of_zero_give_well_shaped_empty_or_zero_results(
    empty: str, with_sinks: bool, causal: bool
) -> None:
    size = SIZES | {empty: 0}
    sinks = np.ones(size["H"]) if with_sinks else None
    step = reference.attention(*problem(**{empty: 0}), causal=causal, sinks=sinks)
    assert step.output.shape == (size["B"], size["H"], size["Nq"], size["Dv"])
    assert step.weights.shape == (size["B"], size["H"], size["Nq"], size["Nk"])
    assert step.lse.shape == (size["B"], size["H"], size["Nq"])
    if empty == "Nk":
        assert_array_equal(step.output, np.zeros_like(step.output))
        assert_array_equal(step.lse, np.full_like(step.lse, -INF))
    assert reference.entropy(step.weights).shape == step.lse.shape
    assert reference.distance(step.weights).shape == step.lse.shape
    assert reference.received(step.weights).shape == (size["B"], size["H"], size["Nk"])
    keys, strongest = reference.top(step.weights, 3, step.allowed)
    assert keys.shape == strongest.shape == (*step.lse.shape, 3)
    pooled = reference.pooled_map(step.weights, (2, 3), allowed=step.allowed)
    assert pooled.shape == (size["B"], size["H"], 2, 3)


def test_options_of_size_zero_fit_an_empty_batch() -> None:
    q, k, v = problem(B=0)
    step = reference.attention(q, k, v, lengths=[], mask=np.ones((0, 1, 1, 7), dtype=bool))
    assert step.output.shape == (0, 3, 5, 13)


# ── what is not finite ────────────────────────────────────────────────────────────────────────

NOT_FINITE = [
    *itertools.product(["key", "value", "query"], [NAN, INF, -INF]),
    *itertools.product(["bias"], [NAN, INF]),  # a bias of −inf is a mask
]


@pytest.mark.parametrize(("where", "content"), NOT_FINITE)
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"sinks": [0.0, 1.0, 2.0]}])
def test_what_is_not_finite_is_never_hidden_from_those_who_see_it_nor_shown_to_others(
    where: str, content: float, options: dict[str, Any]
) -> None:
    q, k, v = problem(Nq=5, Nk=5)
    bias = np.zeros((2, 3, 5, 5))
    clean = reference.attention(q, k, v, causal=True, bias=bias, **options)
    sees = np.zeros((2, 3, 5), dtype=bool)
    if where == "key":
        k[1, 2, 3, 4], sees[1, 2, 3:] = content, True
    elif where == "value":
        v[1, 2, 3, 4], sees[1, 2, 3:] = content, True
    elif where == "query":
        q[1, 2, 3, 4], sees[1, 2, 3] = content, True
    else:
        bias[1, 2, 3, 2], sees[1, 2, 3] = content, True
    found = reference.attention(q, k, v, causal=True, bias=bias, **options)
    hit = ~np.isfinite(found.output)
    assert_array_equal(hit.any(axis=-1), sees)
    if where == "value":
        assert_array_equal(hit.any(axis=(0, 1, 2)), np.arange(13) == 4)
        assert_array_equal(found.weights, clean.weights)
    else:
        assert np.isnan(found.lse[sees]).all()
        assert np.isnan(found.weights[sees & clean.allowed.any(axis=-1)]).any()
    for name in ("output", "weights", "lse"):
        assert_array_equal(getattr(found, name)[~sees], getattr(clean, name)[~sees])


def test_a_score_of_minus_infinity_from_an_infinite_key_is_not_taken_for_a_mask() -> None:
    step = reference.attention([[-1.0]], [[INF], [1.0]], [[1.0], [2.0]])
    assert step.scores[0, 0] == -INF
    assert np.isnan(step.output).all()


def test_a_score_that_overflows_only_when_scaled_is_not_taken_for_a_mask() -> None:
    step = reference.attention([[1.0]], [[1e308], [1.0]], [[1.0], [2.0]], scale=-10.0)
    assert np.isnan(step.output).all()


def test_an_infinite_key_is_not_hidden_by_a_scale_of_zero() -> None:
    assert np.isnan(reference.attention([[1.0]], [[INF], [1.0]], [[1.0], [2.0]], scale=0.0).output)


def test_an_infinite_value_is_not_hidden_by_a_weight_that_underflows() -> None:
    step = reference.attention([[1.0]], [[-1e4], [1e4]], [[INF], [2.0]])
    assert step.weights[0, 0] == 0.0
    assert not np.isfinite(step.output).any()


def test_an_infinite_value_gives_an_infinite_output_and_two_opposite_ones_a_nan() -> None:
    q, k = [[0.0]], [[0.0], [0.0], [0.0]]
    assert reference.attention(q, k, [[INF], [1.0], [2.0]]).output == INF
    assert reference.attention(q, k, [[-INF], [1.0], [-INF]]).output == -INF
    assert np.isnan(reference.attention(q, k, [[INF], [1.0], [-INF]]).output)


def test_a_query_that_is_not_finite_still_has_weight_zero_on_what_it_may_not_see() -> None:
    q, k, v = problem(Nk=5)
    q[0, 0, 1] = NAN
    row = reference.attention(q, k, v, causal=True).weights[0, 0, 1]
    assert np.isnan(row[:2]).all()
    assert_array_equal(row[2:], np.zeros(3))


# Five queries on seven keys stand at 2 … 6. Each of these hides the sixth key from all of them.
HIDING_KEY_FIVE: dict[str, dict[str, Any]] = {
    "mask": {"mask": np.arange(7) != 5},
    "bias": {"bias": np.where(np.arange(7) == 5, -INF, 0.0)},
    "lengths": {"lengths": [5, 2]},
    "window": {"window": (None, -2)},
    "causal window": {"causal": True, "window": (3, -2)},
}


@pytest.mark.parametrize("content", [NAN, INF, -INF, 1e38, 1e308, -1e308])
@pytest.mark.parametrize("where", ["key", "value", "key and value"])
@pytest.mark.parametrize("options", HIDING_KEY_FIVE.values(), ids=HIDING_KEY_FIVE.keys())
def test_what_may_not_be_seen_has_no_effect_at_all(
    options: dict[str, Any], where: str, content: float
) -> None:
    q, k, v = problem()
    clean = reference.attention(q, k, v, **options)
    assert not clean.allowed[..., 5].any()
    if "key" in where:
        k[:, :, 5] = content
    if "value" in where:
        v[:, :, 5] = content
    found = reference.attention(q, k, v, **options)
    for name in ("scaled", "lse", "weights", "output"):
        assert_array_equal(getattr(found, name), getattr(clean, name))


def test_a_bias_that_is_not_finite_has_no_effect_where_the_mask_forbids_the_key() -> None:
    q, k, v = problem()
    mask = np.arange(7) != 3
    for content in (NAN, INF, -INF):
        found = reference.attention(q, k, v, mask=mask, bias=np.where(mask, 0.5, content))
        clean = reference.attention(q, k, v, mask=mask, bias=np.where(mask, 0.5, 0.0))
        assert_array_equal(found.output, clean.output)


# ── errors ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("q", "k", "v", "message"),
    [
        ((5,), (7, 3), (7, 3), r"two axes or more.*got q \(5,\), k \(7, 3\), v \(7, 3\)"),
        ((5, 3), (3,), (7, 3), "two axes or more"),
        ((5, 3), (7, 3), (), "two axes or more"),
        ((5, 3), (7, 4), (7, 3), "last axis of q and k must be equal"),
        ((5, 3), (7, 3), (6, 3), "same number of keys"),
        ((6, 5, 3), (4, 7, 3), (4, 7, 3), "H must be a multiple of Hkv"),
        ((2, 5, 3), (6, 7, 3), (6, 7, 3), "H must be a multiple of Hkv"),
        ((6, 5, 3), (0, 7, 3), (0, 7, 3), "H must be a multiple of Hkv"),
        ((5, 3), (2, 7, 3), (2, 7, 3), "H must be a multiple of Hkv"),
        ((6, 5, 3), (3, 7, 3), (2, 7, 3), "same number of heads"),
        ((6, 5, 3), (3, 7, 3), (7, 3), "same number of heads"),
        ((2, 3, 5, 4), (5, 3, 7, 4), (5, 3, 7, 4), "leading axes do not broadcast"),
        ((2, 3, 5, 4), (2, 3, 7, 4), (5, 3, 7, 4), "leading axes do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit_raise_a_value_error_that_names_them(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"^attention\(\): .*{message}"):
        reference.attention(np.zeros(q), np.zeros(k), np.zeros(v))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": np.ones((4, 7), dtype=bool)}, r"mask must broadcast.*\(2, 3, 5, 7\).*\(4, 7\)"),
        ({"mask": np.ones((1, 2, 3, 5, 7), dtype=bool)}, "mask must broadcast"),
        ({"mask": np.zeros((5, 7))}, "mask must be boolean.*float64.*bias"),
        ({"mask": np.ones((5, 7), dtype=int)}, "mask must be boolean"),
        ({"bias": np.zeros((7, 5))}, r"bias must broadcast.*\(2, 3, 5, 7\).*\(7, 5\)"),
        ({"bias": np.zeros((4, 2, 3, 5, 7))}, "bias must broadcast"),
        ({"lengths": [1, 2, 3]}, r"lengths must be \(B,\).*\(3,\)"),
        ({"lengths": 3}, "lengths must be"),
        ({"lengths": [3]}, "lengths must be"),
        ({"sinks": [0.0, 0.0]}, r"sinks must be \(H,\).*\(2,\)"),
        ({"sinks": 0.0}, "sinks must be"),
        ({"softcap": 0.0}, "softcap must be greater than 0"),
        ({"softcap": -1.0}, "softcap must be greater than 0"),
        ({"softcap": NAN}, "softcap must be greater than 0"),
    ],
)
def test_options_that_do_not_fit_raise_a_value_error_that_says_what_would(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"^attention\(\): .*{message}"):
        reference.attention(*problem(), **options)


def test_lengths_and_sinks_need_the_axes_that_they_speak_of() -> None:
    q, k, v = (x[0, 0] for x in problem(Nk=5))
    with pytest.raises(ValueError, match="lengths must be"):
        reference.attention(q, k, v, lengths=[1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="sinks must be"):
        reference.attention(q, k, v, sinks=[1.0])


# ── statistics ────────────────────────────────────────────────────────────────────────────────


def test_entropy_is_zero_for_one_key_and_the_logarithm_of_their_number_for_equal_ones() -> None:
    rows = [[1.0, 0, 0, 0], [0.25] * 4, [0.5, 0.25, 0.25, 0], [0, 0, 0, 0]]
    close(reference.entropy(rows), [0, math.log(4), 1.5 * math.log(2), 0])
    assert math.copysign(1, reference.entropy(rows)[0]) == 1


def test_top_gives_the_strongest_keys_in_order_and_the_first_of_equal_ones() -> None:
    keys, strongest = reference.top([[0.1, 0.4, 0.2, 0.3], [0.25] * 4], 3)
    assert_array_equal(keys, [[1, 3, 2], [0, 1, 2]])
    assert_array_equal(strongest, [[0.4, 0.3, 0.2], [0.25] * 3])


def test_top_fills_with_minus_one_and_zero_where_a_row_has_fewer_keys() -> None:
    weights = [[0.3, 0.0, 0.7], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    allowed = [[True, False, True], [True, True, False], [False] * 3]
    keys, strongest = reference.top(weights, 4, allowed)
    assert_array_equal(keys, [[2, 0, -1, -1], [1, 0, -1, -1], [-1] * 4])
    assert_array_equal(strongest, [[0.7, 0.3, 0, 0], [1, 0, 0, 0], [0] * 4])
    assert keys.dtype == np.int64


def test_top_of_more_keys_than_there_are_names_each_of_them_once() -> None:
    keys, strongest = reference.top([[0.3, 0.7]], 5)
    assert_array_equal(keys, [[1, 0, -1, -1, -1]])
    assert_array_equal(strongest, [[0.7, 0.3, 0, 0, 0]])


def test_top_broadcasts_what_is_allowed_over_the_leading_axes() -> None:
    weights = reference.softmax(normal(2, 3, 5, 7))
    allowed = masks(5, 7)
    found = reference.top(weights, 3, allowed)
    for b, h, i in itertools.product(range(2), range(3), range(5)):
        best = sorted((-float(weights[b, h, i, j]), j) for j in range(7) if allowed[i, j])[:3]
        best += [(-0.0, -1)] * (3 - len(best))
        assert_array_equal(found[0][b, h, i], [j for _, j in best])
        assert_array_equal(found[1][b, h, i], [-weight for weight, _ in best])


def test_top_shows_a_nan_and_does_not_take_it_for_a_row_without_keys() -> None:
    keys, strongest = reference.top([[NAN, NAN, 0.0]], 2, [[True, True, False]])
    assert_array_equal(keys, [[0, 1]])
    assert np.isnan(strongest).all()


def pooled_by_loops(
    weights: Array, rows: int, columns: int, counts: NDArray[np.bool_]
) -> list[list[float]]:
    """Of one head: query i is in row ⌊i·R/Nq⌋, key j in column ⌊j·C/Nk⌋."""
    n_queries, n_keys = weights.shape
    pooled: list[list[float]] = []
    for r in range(rows):
        queries = [i for i in range(n_queries) if i * rows // n_queries == r and counts[i]]
        pooled.append(
            [
                math.fsum(
                    float(weights[i, j])
                    for i in queries
                    for j in range(n_keys)
                    if j * columns // n_keys == c
                )
                / max(len(queries), 1)
                for c in range(columns)
            ]
        )
    return pooled


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 7), (3, 2), (11, 3), (2, 13), (11, 13)])
@pytest.mark.parametrize("with_queries", [False, True])
@pytest.mark.parametrize("with_allowed", [False, True])
def test_a_pooled_map_equals_the_loops(
    shape: tuple[int, int], with_queries: bool, with_allowed: bool
) -> None:
    mask = masks(2, 1, 5, 7, seed=5)
    mask[0, 0, 2] = False
    step = reference.attention(*problem(), mask=mask)
    queries = masks(2, 1, 5, seed=6) if with_queries else None
    allowed = step.allowed if with_allowed else None
    found = reference.pooled_map(step.weights, shape, allowed=allowed, queries=queries)
    counts = np.ones((2, 3, 5), dtype=bool)
    if queries is not None:
        counts &= queries
    if allowed is not None:
        counts &= allowed.any(axis=-1)
    for b, h in itertools.product(range(2), range(3)):
        close(found[b, h], pooled_by_loops(step.weights[b, h], *shape, counts[b, h]))


def test_a_map_larger_than_the_weights_leaves_rows_and_columns_empty_between_them() -> None:
    found = reference.pooled_map([[0.25, 0.75], [1.0, 0.0]], (4, 3))
    assert_array_equal(found, [[0.25, 0.75, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]])


def test_a_map_as_large_as_the_weights_is_the_weights() -> None:
    weights = reference.softmax(normal(5, 7))
    assert_array_equal(reference.pooled_map(weights, (5, 7)), weights)


def test_a_query_that_does_not_count_or_has_no_key_does_not_thin_out_its_row_of_the_map() -> None:
    weights = [[0.5, 0.5], [0.0, 0.0], [0.1, 0.9]]
    allowed = [[True, True], [False, False], [True, True]]
    assert_array_equal(reference.pooled_map(weights, (1, 2), allowed=allowed), [[0.3, 0.7]])
    only_first = reference.pooled_map(weights, (1, 2), queries=[True, False, False])
    assert_array_equal(only_first, [[0.5, 0.5]])


def test_a_nan_stays_in_the_cells_of_the_map_that_it_belongs_to() -> None:
    found = reference.pooled_map([[NAN, 1.0], [0.5, 0.5], [NAN, NAN]], (3, 2))
    assert_array_equal(found, [[NAN, 1.0], [0.5, 0.5], [NAN, NAN]])
    uncounted = reference.pooled_map([[NAN, 1.0], [0.5, 0.5]], (1, 2), queries=[False, True])
    assert_array_equal(uncounted, [[0.5, 0.5]])


def test_received_adds_up_each_column_over_the_queries_that_count() -> None:
    weights = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]
    assert_array_equal(reference.received(weights), [0.75, 0.75, 0.5])
    assert_array_equal(reference.received(weights, [False, True]), [0.25, 0.25, 0.5])
    assert_array_equal(reference.received([[NAN], [1.0]], [False, True]), [1.0])


def test_received_equals_the_loops_and_keeps_the_leading_axes() -> None:
    weights, queries = reference.softmax(normal(2, 3, 5, 7)), masks(2, 1, 5)
    found = reference.received(weights, queries)
    for b, h, j in itertools.product(range(2), range(3), range(7)):
        close(found[b, h, j], math.fsum(weights[b, h, i, j] for i in range(5) if queries[b, 0, i]))


def test_distance_counts_from_a_position_aligned_to_the_end_of_the_keys() -> None:
    # Two queries on four keys stand at 2 and 3; four on two at −2, −1, 0 and 1.
    assert_array_equal(reference.distance([[1, 0, 0, 0], [0.5, 0, 0, 0.5]]), [2.0, 1.5])
    assert_array_equal(reference.distance([[1, 0], [1, 0], [0, 1], [0, 1]]), [2, 1, 1, 0])
    assert_array_equal(reference.distance([[0, 0, 1], [0, 1, 0], [1, 0, 0]]), [2, 0, 2])


def test_distance_equals_the_loops_and_keeps_the_leading_axes() -> None:
    weights = reference.softmax(normal(2, 3, 5, 7))
    for b, h, i in itertools.product(range(2), range(3), range(5)):
        expected = math.fsum(weights[b, h, i, j] * abs(i + 2 - j) for j in range(7))
        close(reference.distance(weights)[b, h, i], expected)


# ── several heads ─────────────────────────────────────────────────────────────────────────────


def heads_by_loops(
    x: Array, context: Array, matrices: list[Array], w_o: Array, split: str, **options: Any
) -> Array:
    n_heads, d_in = matrices[0].shape[:2]
    outputs: list[Array] = []
    for h in range(n_heads):
        columns = slice(h * d_in, (h + 1) * d_in) if split == "slice" else slice(None)
        q = by_hand.product(x[:, columns], matrices[0][h])
        k, v = (by_hand.product(context[:, columns], w[h]) for w in matrices[1:])
        outputs.append(by_hand.attention(q[None, None], k[None, None], v[None, None], **options)[5])
    side_by_side = [
        [cell for head in outputs for cell in head[0, 0, i].tolist()] for i in range(len(x))
    ]
    return by_hand.product(np.array(side_by_side), w_o)


@pytest.mark.parametrize("split", ["project", "slice"])
@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"scale": 0.4}], ids=["full", "causal", "scale"]
)
def test_multi_head_attention_equals_the_loops(
    split: Any, crossed: bool, options: dict[str, Any]
) -> None:
    n_heads, d_model, width, value_width = 3, 6, 5, 7
    d_in = d_model if split == "project" else d_model // n_heads
    x = normal(4, d_model)
    context = normal(11, d_model) if crossed else None
    matrices = [
        normal(n_heads, d_in, width, seed=1),
        normal(n_heads, d_in, width, seed=2),
        normal(n_heads, d_in, value_width, seed=3),
    ]
    w_o = normal(n_heads * value_width, d_model)
    w_q, w_k, w_v = matrices
    found = reference.multi_head(x, w_q, w_k, w_v, w_o, context=context, split=split, **options)
    expected = heads_by_loops(x, x if context is None else context, matrices, w_o, split, **options)
    close(found.output, expected)
    n_context = 11 if crossed else 4
    assert found.query.shape == (3, 4, 5)
    assert found.key.shape == (3, n_context, 5)
    assert found.value.shape == (3, n_context, 7)
    assert found.heads.weights.shape == (3, 4, n_context)
    assert found.concatenated.shape == (4, 21)
    assert_array_equal(found.concatenated[:, 7:14], found.heads.output[1])


def test_multi_head_passes_its_mask_on() -> None:
    x, w, mask = normal(5, 4), normal(2, 4, 3), masks(5, 5)
    found = reference.multi_head(x, w, w, w, np.eye(6), mask=mask)
    assert_array_equal(found.heads.allowed, np.broadcast_to(mask, (2, 5, 5)))


def test_multi_head_with_one_matrix_too_many_or_too_few_is_refused() -> None:
    x, two, three = np.ones((5, 4)), np.ones((2, 4, 4)), np.ones((3, 4, 4))
    for given in ((two, three, two), (three, two, three), (two, two, three)):
        with pytest.raises(ValueError, match=r"multi_head\(\): w_q, w_k and w_v must have"):
            reference.multi_head(x, *given, np.ones((8, 4)))


def test_multi_head_refuses_a_split_that_it_does_not_know_or_cannot_make() -> None:
    x, w = np.ones((5, 4)), np.ones((3, 4, 4))
    with pytest.raises(ValueError, match="'project' or 'slice'; got 'halves'"):
        reference.multi_head(x, w, w, w, np.ones((12, 4)), split="halves")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 heads cannot share 4 columns equally"):
        reference.multi_head(x, w, w, w, np.ones((12, 4)), split="slice")


def test_a_low_rank_value_is_the_product_of_its_three_matrices() -> None:
    x, down, up = normal(5, 7), normal(7, 2), normal(2, 7)
    found = reference.low_rank_value(x, down, up)
    close(found, by_hand.product(by_hand.product(x, down), up))
    assert found.shape == (5, 7)
    assert np.linalg.matrix_rank(found) == 2
    assert_array_equal(reference.low_rank_value([[1, 2]], [[3], [4]], [[5, 6]]), [[55, 66]])


# ── what stands around attention ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("width", "base"), [(1, 1e4), (2, 1e4), (7, 1e4), (8, 1e4), (6, 100.0)])
def test_sinusoidal_positions_equal_the_formula(width: int, base: float) -> None:
    found = reference.sinusoidal(11, width, base)
    assert found.shape == (11, width)
    for p, column in itertools.product(range(11), range(width)):
        angle = p / base ** ((column - column % 2) / width)
        wave = math.cos(angle) if column % 2 else math.sin(angle)
        assert_allclose(found[p, column], wave, rtol=1e-12, atol=1e-15)


def test_the_first_position_is_zero_and_one_in_turn() -> None:
    assert_array_equal(reference.sinusoidal(1, 5), [[0, 1, 0, 1, 0]])
    assert reference.sinusoidal(0, 4).shape == (0, 4)


def test_layer_norm_equals_the_formula_with_gain_shift_and_epsilon() -> None:
    x, gain, shift = normal(5, 7), normal(7, seed=1), normal(7, seed=2)
    found = reference.layer_norm(x, gain, shift, epsilon=0.25)
    for i in range(5):
        mean = math.fsum(x[i]) / 7
        variance = math.fsum((cell - mean) ** 2 for cell in x[i]) / 7
        for d in range(7):
            expected = (x[i, d] - mean) / math.sqrt(variance + 0.25) * gain[d] + shift[d]
            close(found[i, d], expected)


def test_layer_norm_of_a_constant_row_is_zero_and_epsilon_is_a_hundred_thousandth() -> None:
    assert_array_equal(reference.layer_norm([3.0, 3.0, 3.0]), [0, 0, 0])
    end = 0.01 / math.sqrt(0.0001 + 0.00001)
    close(reference.layer_norm([0.0, 0.02]), [-end, end])


def test_the_feed_forward_layer_equals_the_loops() -> None:
    x, w_in, b_in, w_out, b_out = (
        normal(5, 3),
        normal(3, 11),
        normal(11),
        normal(11, 3, seed=1),
        normal(3),
    )
    hidden = by_hand.product(x, w_in)
    for i, j in itertools.product(range(5), range(11)):
        hidden[i, j] = max(0.0, hidden[i, j] + b_in[j])
    expected = by_hand.product(hidden, w_out)
    for i, j in itertools.product(range(5), range(3)):
        expected[i, j] += b_out[j]
    close(reference.feed_forward(x, w_in, b_in, w_out, b_out), expected)


def test_the_feed_forward_layer_cuts_off_below_zero_only() -> None:
    found = reference.feed_forward([[2.0, -3.0]], np.eye(2), [-1.0, 1.0], [[10.0], [10.0]], 0.5)
    assert_array_equal(found, [[10.5]])


def triple(x: Array) -> Array:
    return 3 * x


def less_five(x: Array) -> Array:
    return x - 5


def half(x: Array) -> Array:
    return x / 2


def double_and_one(x: Array) -> Array:
    return 2 * x + 1


def square(x: Array) -> Array:
    return x * x


@pytest.mark.parametrize(
    ("arrangement", "expected"),
    [
        ("post", 457),  # h = 3·(2 + 5) = 21; (21 + 21²) − 5
        ("pre", 115),  # h = 2 + (2·6 + 1) = 15; 15 + (15 − 5)²
        ("notes", 90),  # a = 5; 3·(5² + 5)
    ],
)
def test_an_encoder_layer_equals_its_formula(arrangement: Any, expected: float) -> None:
    found = reference.encoder_layer(
        [[2.0]], double_and_one, square, arrangement=arrangement, norms=(triple, less_five)
    )
    assert_array_equal(found, [[expected]])


@pytest.mark.parametrize(
    ("arrangement", "expected"),
    [
        # h = 3·(1 + 3) = 12; h = 12 + (10·12 + 7) − 5 = 134; (134 + 134²) / 2
        ("post", 9045),
        # h = 1 + (2·3 + 1) = 8; h = 8 + (10·(8 − 5) + 7) = 45; 45 + (45 / 2)²
        ("pre", 551.25),
    ],
)
def test_a_decoder_layer_equals_its_formula(arrangement: Any, expected: float) -> None:
    def attend_memory(h: Array, memory: Array) -> Array:
        return 10 * h + memory

    found = reference.decoder_layer(
        [[1.0]],
        [[7.0]],
        double_and_one,
        attend_memory,
        square,
        arrangement=arrangement,
        norms=(triple, less_five, half),
    )
    assert_array_equal(found, [[expected]])


def test_layers_are_post_norm_with_layer_norm_unless_told_otherwise() -> None:
    x, memory = normal(5, 4), normal(7, 4)

    def norm(rows: Array) -> Array:
        centred = rows - rows.mean(axis=1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)

    def attend_memory(h: Array, memory: Array) -> Array:
        return h * memory.sum()

    h = norm(x + double_and_one(x))
    close(reference.encoder_layer(x, double_and_one, square), norm(h + square(h)))
    h = norm(h + h * memory.sum())
    found = reference.decoder_layer(x, memory, double_and_one, attend_memory, square)
    close(found, norm(h + square(h)))


def test_a_layer_refuses_an_arrangement_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="'post', 'pre' or 'notes'; got 'sandwich'"):
        reference.encoder_layer([[1.0]], half, half, arrangement="sandwich")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'post' or 'pre'; got 'notes'"):
        reference.decoder_layer([[1.0]], [[1.0]], half, triple, half, arrangement="notes")  # type: ignore[arg-type]


def test_which_queries_count_is_said_for_each_sequence_and_all_heads_alike() -> None:
    weights = np.arange(2 * 2 * 3 * 5, dtype=float).reshape(2, 2, 3, 5)
    queries = np.array([[True, True, False], [False, True, True]])
    for sequence in range(2):
        for head in range(2):
            alone = weights[sequence, head][queries[sequence]]
            np.testing.assert_allclose(
                reference.received(weights, queries)[sequence, head], alone.sum(axis=0)
            )
            pooled = reference.pooled_map(weights, (1, 5), queries=queries)[sequence, head, 0]
            np.testing.assert_allclose(pooled, alone.mean(axis=0))
