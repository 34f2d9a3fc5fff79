"""Matching against every permutation."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbench.metrics.matching import best, match


def least_cost(cost: np.ndarray) -> float:
    n, k = cost.shape
    if n >= k:
        return min(
            sum(cost[row, column] for column, row in enumerate(rows)) for rows in permutations(range(n), k)
        )
    return least_cost(cost.T)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_permutation_is_cheaper(n: int, k: int, seed: int) -> None:
    cost = np.random.default_rng(seed).random((n, k))
    index = match(cost)
    assert index.shape == (k,)
    matched = np.flatnonzero(index >= 0)
    assert len(matched) == min(n, k)
    assert len(set(index[matched])) == len(matched)
    assert (index[index < 0] == -1).all()
    assert cost[index[matched], matched].sum() == pytest.approx(least_cost(cost), abs=1e-12)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_shuffled_batch_is_put_back_in_order(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    cost = np.abs(np.arange(n)[order][:, None] - np.arange(n)[None, :])
    assert np.array_equal(order[match(cost)], np.arange(n))


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.sampled_from([np.nan, np.inf]))
def test_a_diverged_reconstruction_gets_the_last_place(n: int, seed: int, bad: float) -> None:
    cost = np.random.default_rng(seed).random((n, n))
    cost[0] = bad
    index = match(cost)
    assert sorted(index) == list(range(n))
    good = index != 0
    assert cost[index[good], np.flatnonzero(good)].sum() == pytest.approx(least_cost(cost[1:]), abs=1e-12)
    spare = np.vstack([cost, np.random.default_rng(seed + 1).random((1, n)) + 10])
    assert 0 not in match(spare)


def test_batches_with_nothing_to_match() -> None:
    assert match(np.zeros((0, 3))).tolist() == [-1, -1, -1]
    assert match(np.zeros((3, 0))).tolist() == []
    assert sorted(match(np.full((2, 2), np.nan))) == [0, 1]
    with pytest.raises(ValueError, match=r"expected \[n, k\]"):
        match(np.zeros(3))


def test_best_chooses_for_each_image_on_its_own() -> None:
    similarity = np.array([[0.9, 0.8, np.nan, -0.5], [0.1, 0.2, np.nan, np.nan]])
    index, value = best(similarity)
    assert index.tolist() == [0, 0, -1, 0]
    assert value[[0, 1, 3]].tolist() == [0.9, 0.8, -0.5]
    assert np.isnan(value[2])


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_best_equals_a_loop_over_the_batch(n: int, k: int, seed: int) -> None:
    similarity = np.random.default_rng(seed).random((3, n, k))
    index, value = best(similarity)
    for batch in range(3):
        for column in range(k):
            values = similarity[batch, :, column].tolist()
            assert value[batch, column] == max(values)
            assert index[batch, column] == values.index(max(values))


def test_best_of_no_reconstructions() -> None:
    index, value = best(np.zeros((2, 0, 3)))
    assert index.tolist() == [[-1] * 3] * 2
    assert np.isnan(value).all()
