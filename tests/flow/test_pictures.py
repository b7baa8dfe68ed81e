"""Pictures in blocks: the number of the largest size, the share of weights, to the last edge."""

from __future__ import annotations

import numpy as np
import pytest

from regard._flow.pictures import picture_of


@pytest.mark.parametrize("shape", [(1, 1), (63, 64), (65, 7), (131, 577)])
def test_a_block_has_the_number_of_the_largest_size(shape: tuple[int, int]) -> None:
    array = np.random.default_rng(5).normal(size=shape)
    values, (tall, wide) = picture_of(array)
    assert max(values.shape) <= 64
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            block = array[i * tall : (i + 1) * tall, j * wide : (j + 1) * wide].ravel()
            assert values[i, j] == np.float32(block[np.abs(block).argmax()])


def test_rows_of_weights_sum_to_1() -> None:
    weights = np.random.default_rng(7).dirichlet(np.ones(131), size=193)
    values, block = picture_of(weights, weights=True)
    assert block == (4, 3)
    np.testing.assert_allclose(values.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(values[2, 5], weights[8:12, 15:18].sum() / 4, rtol=1e-6)
    assert np.isclose(values[-1, -1], weights[192:, 129:].sum())


def test_a_block_is_masked_only_where_all_of_it_is() -> None:
    array = np.where(np.tri(131, dtype=bool), 2.0, -np.inf)
    values, (tall, _) = picture_of(array)
    assert tall == 3
    assert values[0, 0] == 2.0
    assert values[0, 1] == -np.inf
