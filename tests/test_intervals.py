"""Intervals: they hold every value that can be reached, and are no wider than that."""

from __future__ import annotations

from itertools import product as choices

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.nn import functional

from regard import reference
from regard._intervals import (
    Intervals,
    bent,
    mixture,
    normalized_rows,
    product,
    rounded_or_full,
    softmax_rows,
    variance_rows,
)

ends = st.floats(-4, 4, width=32)


@st.composite
def intervals(draw: st.DrawFn, rows: int, columns: int) -> Intervals:
    low = draw(arrays(float, (rows, columns), elements=ends))
    width = draw(arrays(float, (rows, columns), elements=st.floats(0, 2, width=32)))
    return Intervals(low, low + width)


def corners(matrix: Intervals) -> list[np.ndarray]:
    cells = list(zip(matrix.low.ravel(), matrix.high.ravel(), strict=True))
    return [np.array(corner).reshape(matrix.shape) for corner in choices(*cells)]


@given(intervals(1, 3), intervals(3, 2))
def test_a_product_reaches_exactly_what_its_corners_reach(a: Intervals, b: Intervals) -> None:
    reached = np.stack([left @ right for left in corners(a) for right in corners(b)])
    result = product(a, b)
    np.testing.assert_allclose(result.low, reached.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.high, reached.max(axis=0), atol=1e-12)


@given(intervals(1, 5))
def test_a_softmax_reaches_exactly_what_its_corners_reach(scores: Intervals) -> None:
    reached = np.stack([reference.softmax(corner) for corner in corners(scores)])
    result = softmax_rows(scores)
    np.testing.assert_allclose(result.low, reached.min(axis=0), rtol=1e-12)
    np.testing.assert_allclose(result.high, reached.max(axis=0), rtol=1e-12)


def test_a_softmax_of_masked_scores_leaves_them_out() -> None:
    scores = np.array([[0.0, -np.inf, 1.0], [-np.inf, -np.inf, -np.inf]])
    result = softmax_rows(Intervals.exactly(scores))
    np.testing.assert_allclose(result.low, reference.softmax(scores))
    np.testing.assert_allclose(result.high, reference.softmax(scores))


@given(intervals(1, 3), intervals(3, 1), st.floats(0, 0.1), st.data())
def test_a_mixture_holds_all_weights_that_sum_to_one(
    scores: Intervals, values: Intervals, slack: float, data: st.DataObject
) -> None:
    weights = softmax_rows(scores)
    result = mixture(weights, values, np.array([slack]))
    place = data.draw(arrays(float, (1, 3), elements=st.floats(0, 1)))
    some = reference.softmax(scores.low + place * (scores.high - scores.low))
    where = data.draw(arrays(float, (3, 1), elements=st.floats(0, 1)))
    value = float((some @ (values.low + where * (values.high - values.low)))[0, 0])
    assert result.low[0, 0] - 1e-9 <= value <= result.high[0, 0] + 1e-9


@given(intervals(1, 3), intervals(3, 1), st.floats(0, 0.1))
def test_a_mixture_is_the_greatest_that_the_sum_allows(
    scores: Intervals, values: Intervals, slack: float
) -> None:
    """Two weights at an end of theirs, the third as large as the sum allows: the best is there."""
    weights = softmax_rows(scores)
    low, high, worth = weights.low[0], weights.high[0], values.high[:, 0]
    best = -np.inf
    for free in range(3):
        others = [j for j in range(3) if j != free]
        for pair in choices(*[(low[j], high[j]) for j in others]):
            for total in (1 - slack, 1 + slack):
                for last in (total - sum(pair), low[free], high[free]):
                    candidate = np.zeros(3)
                    candidate[others], candidate[free] = pair, last
                    inside = low[free] - 1e-12 <= last <= high[free] + 1e-12
                    if inside and abs(candidate.sum() - 1) <= slack + 1e-12:
                        best = max(best, float(candidate @ worth))
    result = mixture(weights, values, np.array([slack]))
    np.testing.assert_allclose(result.high[0, 0], best, atol=1e-9)


@given(st.floats(-9, 9), st.sampled_from([0.1, 0.01, 0.001]))
def test_a_value_is_carried_in_full_or_as_rounded(value: float, unit: float) -> None:
    result = rounded_or_full(Intervals.exactly(np.array([[value]])), np.array([[unit]]))
    digits = round(-np.log10(unit))
    for carried in (value, round(value, digits)):
        assert result.low[0, 0] - 1e-12 <= carried <= result.high[0, 0] + 1e-12
    is_tie = abs(value / unit % 1 - 0.5) < 1e-6
    assert result.high[0, 0] - result.low[0, 0] <= (unit if is_tie else unit / 2) + 1e-8


def test_a_tie_may_be_rounded_either_way_and_what_is_not_printed_is_not_rounded() -> None:
    values, units = np.array([[0.125, 0.125]]), np.array([[0.01, 0.0]])
    result = rounded_or_full(Intervals.exactly(values), units)
    np.testing.assert_allclose(result.low, [[0.12, 0.125]])
    np.testing.assert_allclose(result.high, [[0.13, 0.125]])


@given(intervals(1, 5), st.booleans(), st.sampled_from([0.0, 1e-6, 1e-5]), st.data())
def test_a_layer_norm_holds_all_that_its_row_can_be(
    x: Intervals, unbiased: bool, epsilon: float, data: st.DataObject
) -> None:
    share = data.draw(st.sampled_from([0.0, 1e-3, 0.05, 1.0]))
    x = Intervals(x.low, x.low + share * (x.high - x.low))
    place = data.draw(arrays(float, (1, 5), elements=st.floats(0, 1)))
    row = x.low + place * (x.high - x.low)
    variance = row.var(axis=1, ddof=int(unbiased), keepdims=True)
    bounds = variance_rows(x, unbiased=unbiased)
    assert (bounds.low <= variance + 1e-9).all()
    assert (variance <= bounds.high + 1e-9).all()
    assume(variance > 1e-6)
    z = (row - row.mean()) / np.sqrt(variance + epsilon)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = normalized_rows(x, 1e-5, unbiased=unbiased)
    assert (result.low <= z + 1e-7).all()
    assert (z <= result.high + 1e-7).all()


@given(arrays(float, (1, 5), elements=ends), st.sampled_from([0.005, 0.0005]))
def test_a_layer_norm_of_rounded_numbers_is_hardly_wider_than_its_corners(
    row: np.ndarray, half: float
) -> None:
    assume(row.std() > 0.5)
    x = Intervals(row - half, row + half)
    reached = np.stack([(c - c.mean()) / c.std() for c in corners(x)])
    result = normalized_rows(x, 0.0, unbiased=False)
    width, least = result.high - result.low, reached.max(axis=0) - reached.min(axis=0)
    assert (width <= 1.1 * least + 0.3 * half).all()


@given(intervals(1, 3), st.sampled_from(["ReLU", "GELU", "SiLU", "x·σ(1.702 x)"]), st.data())
def test_an_activation_holds_all_that_its_cells_can_be(
    x: Intervals, activation: str, data: st.DataObject
) -> None:
    place = data.draw(arrays(float, (1, 3), elements=st.floats(0, 1)))
    cells = torch.tensor(x.low + place * (x.high - x.low))
    reached = {
        "ReLU": [cells.relu()],
        "GELU": [functional.gelu(cells), functional.gelu(cells, approximate="tanh")],
        "SiLU": [functional.silu(cells)],
        "x·σ(1.702 x)": [cells * torch.sigmoid(1.702 * cells)],
    }[activation]
    result = bent(x, activation)
    for value in reached:
        assert (result.low <= value.numpy() + 1e-7).all()
        assert (value.numpy() <= result.high + 1e-7).all()


def test_nothing_is_known_of_a_layer_norm_if_a_number_of_its_row_is_not() -> None:
    x = Intervals.exactly(np.array([[1.0, np.nan, 6.0], [1.0, 2.0, 6.0]]))
    result = normalized_rows(x, 1e-5, unbiased=False)
    assert np.isnan(result.low[0] + result.high[0]).all()
    assert np.isfinite(result.low[1]).all()
