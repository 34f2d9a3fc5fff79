"""Integers for real numbers: exact rounding, and a bound that holds and is nearly reached."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbench.base.errors import UserError
from leakbench.defences.encryption import quantise


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
    st.sampled_from([2**32, 10**32, 7]),
    st.integers(1, 300),
)
def test_every_integer_is_within_half_of_what_it_stands_for(
    values: list[float], scale: int, pieces: int
) -> None:
    for value, found in zip(values, quantise.integers(np.array(values), scale, pieces), strict=True):
        assert abs(found - Fraction(value) * scale / pieces) <= Fraction(1, 2)


def test_a_weighted_sum_stays_within_the_bound_and_comes_near_it() -> None:
    rng = np.random.default_rng(0)
    values, shares, scale = rng.normal(size=(3, 4000)), [0.5, 0.3, 0.2], 2**10
    weights = quantise.weights(shares, 100)
    assert weights == [50, 30, 20]
    sums = np.array([quantise.integers(each, scale, 100) for each in values]).T @ np.array(weights)
    error = np.abs(quantise.values(sums.tolist(), scale) - np.array(shares) @ values)
    bound = quantise.bound(weights, scale)
    assert bound == 100 / 2**11
    assert 0.8 * bound < error.max() <= bound * (1 + 1e-9)


def test_rounded_weights_cost_what_their_bound_says() -> None:
    values, shares = np.array([[1.0, -2.0], [0.5, 4.0], [3.0, 1.0]]), [1 / 3] * 3
    weights = quantise.weights(shares, 10)
    assert sum(weights) == 9
    error = np.abs(np.array(weights) / 10 @ values - np.array(shares) @ values)
    # Each weight is within half a piece of the client's share.
    assert (error <= np.abs(values).sum(0) / 20).all()
    assert error.max() > 0


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(UserError, match="no finite number"):
        quantise.integers(np.array([1.0, np.nan]), 8, 1)
