"""Recognising an image among others by its reconstruction."""

import numpy as np

from leakbench.metrics.identification import identified

RNG = np.random.default_rng(0)
POOL = RNG.random((50, 3, 6, 6))


def test_a_reconstruction_nearest_to_its_own_image_is_identified() -> None:
    noisy = POOL[:5] + RNG.normal(0, 0.05, (5, 3, 6, 6))
    assert identified(noisy, POOL[:5], POOL).tolist() == [1] * 5
    assert identified(POOL[1:6], POOL[:5], POOL).tolist() == [0] * 5


def test_the_image_itself_need_not_be_in_the_pool() -> None:
    outside = RNG.random((2, 3, 6, 6))
    assert identified(outside, outside, POOL).tolist() == [1, 1]
    grey = np.full((2, 3, 6, 6), 0.5)
    distance = ((grey[0] - POOL) ** 2).mean((1, 2, 3)).min()
    own = ((grey - outside) ** 2).mean((1, 2, 3))
    assert identified(grey, outside, POOL).tolist() == (own <= distance).astype(float).tolist()


def test_chance_is_one_in_the_size_of_the_pool() -> None:
    noise, truths = RNG.random((400, 3, 6, 6)), POOL[RNG.integers(0, 50, 400)]
    assert 0 < identified(noise, truths, POOL).mean() < 0.1


def test_no_reconstruction_identifies_nothing() -> None:
    broken = POOL[:2].copy()
    broken[1, 0, 0, 0] = np.nan
    found = identified(broken, POOL[:2], POOL)
    assert found[0] == 1
    assert np.isnan(found[1])
