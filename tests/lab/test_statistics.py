"""Intervals contain the truth as often as they say, and judge as textbooks do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard import _statistics
from regard.lab import statistics

# The 97.5 % points of Student's t, from printed tables.
STUDENT = {
    1: 12.706,
    2: 4.303,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    10: 2.228,
    13: 2.160,
    30: 2.042,
    120: 1.980,
}


@pytest.mark.parametrize("freedom", STUDENT)
def test_students_points_are_those_of_the_tables(freedom: int) -> None:
    assert _statistics.student(freedom) == pytest.approx(STUDENT[freedom], abs=2e-3)


def test_intervals_of_means_and_slopes_contain_the_truth_in_19_of_20_cases() -> None:
    random = np.random.default_rng(7)
    x = np.arange(11.0)
    held = [0, 0]
    for _ in range(2000):
        held[0] += statistics.mean(random.normal(3.0, 2.0, 7)).contains(3.0)
        held[1] += statistics.slope(x, 1.5 * x + random.normal(0, 1.0, 11)).contains(1.5)
    assert all(0.935 <= count / 2000 <= 0.965 for count in held), held


def test_intervals_of_shares_contain_the_truth_about_as_often() -> None:
    random = np.random.default_rng(11)
    counts = random.binomial(37, 0.9, 2000)
    held = np.mean([statistics.share(int(count), 37).contains(0.9) for count in counts])
    assert 0.92 <= held <= 0.98


def test_a_share_of_none_or_all_is_not_certain() -> None:
    assert statistics.share(0, 23).low == 0.0
    assert 0.05 < statistics.share(0, 23).high < 0.2
    assert statistics.share(23, 23).high == 1.0
    assert math.isnan(statistics.share(0, 0).value)


def test_the_bootstrap_of_a_normal_sample_is_near_students_interval() -> None:
    sample = np.random.default_rng(13).normal(5.0, 1.0, 101)
    drawn, exact = statistics.bootstrap(sample), statistics.mean(sample)
    assert drawn.value == pytest.approx(exact.value)
    assert drawn.low == pytest.approx(exact.low, abs=0.05)
    assert drawn.high == pytest.approx(exact.high, abs=0.05)


def test_the_sign_test_counts_how_uneven_a_split_is() -> None:
    assert statistics.sign_test([1.0] * 10) == pytest.approx(2 / 1024)
    assert statistics.sign_test([1.0, -1.0] * 5) == 1.0
    assert statistics.sign_test([0.0, 0.0]) == 1.0


def test_a_power_law_has_its_exponent() -> None:
    x = np.array([2.0, 3.0, 5.0, 7.0])
    found = statistics.exponent(x, 11 * x**2.5)
    assert found.value == pytest.approx(2.5)
    assert found.high - found.low < 1e-9


def test_few_numbers_tell_nothing() -> None:
    assert statistics.mean([3.0]).high == math.inf
    assert statistics.slope([1, 2], [1, 2]).low == -math.inf
