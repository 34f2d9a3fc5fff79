"""Outcomes of two kinds, and the interval of a median."""

import math

import numpy as np
import pytest

from leakbench.papers.verdicts.sample import median_interval, two_groups


def test_the_widest_gap_separates_two_groups() -> None:
    assert two_groups([50.0, 3.0, 52.0, 4.0], 4.5) == ([3.0, 4.0], [50.0, 52.0])
    assert two_groups([50.0, 51.0, 3.0], 4.5) == ([3.0], [50.0, 51.0])


# In two of them the gap is too narrow, for the metric or for the wider group.
ALIKE = [[], [1.0], 3 * [5.0], [1.0, 1.0, 5.0, 5.0], [0.0, 6.0, 18.0, 23.0], [1.0, math.inf, 50.0]]


@pytest.mark.parametrize("values", ALIKE)
def test_other_trials_are_of_one_kind(values: list[float]) -> None:
    assert two_groups(values, 4.5) is None


def test_samples_of_one_kind_seldom_look_like_two() -> None:
    rng = np.random.default_rng(0)
    for n, most in ((5, 0.2), (10, 0.03), (20, 0.01)):
        samples = rng.normal(0, 1, (2000, n))
        assert np.mean([two_groups(each.tolist(), 0.0) is not None for each in samples]) <= most


@pytest.mark.parametrize(("n", "low", "high"), [(6, 0, 5), (10, 1, 8), (20, 5, 14), (50, 17, 32)])
def test_the_interval_of_a_median_is_of_order_statistics(n: int, low: int, high: int) -> None:
    values = [float(place) for place in range(n)]
    assert median_interval(values[::-1]) == ((n - 1) / 2, low, high)


def test_five_trials_have_no_interval_of_the_median() -> None:
    median, *ends = median_interval([3.0, 1.0, 2.0, 9.0, 8.0])
    assert median == 3.0
    assert all(map(math.isnan, ends))


def test_the_interval_covers_the_median() -> None:
    rng = np.random.default_rng(1)
    for n in (6, 10, 25):
        found = [median_interval(each.tolist()) for each in rng.exponential(1, (2000, n))]
        assert np.mean([low <= math.log(2) <= high for _, low, high in found]) >= 0.94
