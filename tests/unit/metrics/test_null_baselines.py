"""The attackers who know nothing."""

import numpy as np
import pytest

from leakbench.metrics.baselines import blank, dataset_mean, random_noise, unrelated_pairs
from leakbench.metrics.mse import mse
from leakbench.metrics.pearson import pearson


def test_noise_is_uniform_and_seeded() -> None:
    noise = random_noise((50, 3, 16, 16), np.random.default_rng(0))
    assert noise.shape == (50, 3, 16, 16)
    assert noise.min() >= 0
    assert noise.max() < 1
    assert noise.mean() == pytest.approx(0.5, abs=0.01)
    assert noise.var() == pytest.approx(1 / 12, abs=0.002)
    assert np.array_equal(noise, random_noise((50, 3, 16, 16), np.random.default_rng(0)))


def test_noise_against_noise_has_the_error_and_correlation_of_independence() -> None:
    a, b = random_noise((2, 40, 3, 32, 32), np.random.default_rng(1))
    assert mse(a, b).mean() == pytest.approx(1 / 6, abs=0.002)
    assert np.abs(pearson(a, b)).max() < 0.1


def test_the_mean_of_bytes_and_of_floats_is_one_image() -> None:
    stored = np.random.default_rng(2).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    mean = dataset_mean(stored)
    assert mean.shape == (3, 8, 8)
    assert mean.dtype == np.float32
    assert mean == pytest.approx(dataset_mean(stored / 255), abs=1e-6)
    assert mean[1, 2, 3] == pytest.approx(stored[:, 1, 2, 3].sum() / 30 / 255, abs=1e-6)
    with pytest.raises(ValueError, match="no images"):
        dataset_mean(stored[:0])


def test_no_constant_guess_has_less_squared_error_than_the_mean(photographs: np.ndarray) -> None:
    def error(guess: np.ndarray) -> float:
        return float(mse(np.broadcast_to(guess, photographs.shape), photographs).mean())

    least = error(dataset_mean(photographs))
    assert least < error(blank(photographs.shape[1:]))
    for other in photographs:
        assert least < error(other)


def test_blank_images_are_grey() -> None:
    assert (blank((2, 1, 3, 3)) == 0.5).all()


def test_unrelated_pairs_are_two_different_images_and_any_is_as_likely() -> None:
    pairs = unrelated_pairs(5, 40_000, np.random.default_rng(3))
    assert pairs.shape == (40_000, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = np.zeros((5, 5))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    # Twenty ordered pairs of 2000 each, give or take a standard deviation of 44.
    assert np.abs(counts[~np.eye(5, dtype=bool)] - 2000).max() < 220
    with pytest.raises(ValueError, match="1 images make no pair"):
        unrelated_pairs(1, 3, np.random.default_rng(0))
