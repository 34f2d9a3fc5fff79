"""PSNR, and the two published numbers of that name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio

from leakbench.metrics.psnr import psnr, psnr_of_rmse, psnr_uint8_wrap

# The mean of d² mod 256 over all differences d of two bytes is 105.5.
FLOOR = 10 * np.log10(255**2 / 105.5)


def test_psnr_by_hand() -> None:
    truth = np.full((3, 1, 8, 8), 0.5)
    guess = truth + np.array([0.1, 0.01, 0.5])[:, None, None, None]
    assert psnr(guess, truth) == pytest.approx([20.0, 40.0, 20 * np.log10(2)])
    assert psnr_of_rmse(guess, truth) == pytest.approx(10 * np.log10([65025 / 25.5, 65025 / 2.55, 510]))


def test_psnr_equals_scikit_image(photographs: np.ndarray) -> None:
    noisy = np.clip(photographs + np.random.default_rng(0).normal(0, 0.1, photographs.shape), 0, 1)
    expected = [peak_signal_noise_ratio(b, a, data_range=1) for a, b in zip(noisy, photographs, strict=True)]
    assert psnr(noisy, photographs) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 1.0))
def test_true_psnr_is_twice_the_printed_one_less_48_dB_for_one_image(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random((1, 3, 8, 8))
    guess = np.clip(truth + size * (rng.random(truth.shape) - 0.5), 0, 1)
    printed = psnr_of_rmse(guess, truth)
    assert psnr(guess, truth) == pytest.approx(2 * printed - 20 * np.log10(255), abs=1e-9)
    assert psnr(guess, truth) == pytest.approx(2 * printed - 48.13, abs=0.001)


def test_the_relation_fails_for_a_mean_over_unequal_images() -> None:
    """Jensen: conventions cannot be converted after averaging, which is why both are computed per image."""
    truth = np.zeros((2, 1, 8, 8))
    guess = truth + np.array([1e-4, 0.9])[:, None, None, None]
    pooled = 10 * np.log10(1 / np.mean((guess - truth) ** 2))
    assert psnr(guess, truth).mean() > pooled + 30


def test_identical_images_are_infinitely_good_in_every_convention(photographs: np.ndarray) -> None:
    for metric in (psnr, psnr_of_rmse, psnr_uint8_wrap):
        assert metric(photographs, photographs).tolist() == [np.inf] * 3


def test_wrapped_squares_by_hand() -> None:
    truth = np.array([[[[0, 10, 200, 0]]], [[[0, 0, 0, 0]]]]) / 255
    guess = np.array([[[[15, 0, 10, 255]]], [[[16, 32, 128, 240]]]]) / 255
    # 15² = 225; (−10)² = 100; 190² = 36100 = 141·256 + 4; 255 = −1, squared 1. Multiples of 16 give 0.
    expected = 10 * np.log10(255**2 / np.mean([225, 100, 4, 1]))
    assert psnr_uint8_wrap(guess, truth) == pytest.approx([expected, np.inf])


def test_it_is_the_wrapped_square_that_matters_not_the_wrapped_difference(photographs: np.ndarray) -> None:
    a, b = np.rint(photographs * 255).astype(int), np.rint(photographs[::-1] * 255).astype(int)
    only_square_wraps = ((a - b) ** 2 % 256).mean(axis=(1, 2, 3))
    assert psnr_uint8_wrap(photographs, photographs[::-1])[0] == pytest.approx(
        10 * np.log10(255**2 / only_square_wraps[0])
    )


def test_unrelated_images_lie_on_the_floor_whatever_they_show(photographs: np.ndarray) -> None:
    assert pytest.approx(27.90, abs=0.005) == FLOOR
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 256, (2, 20, 3, 32, 32)) / 255
    assert psnr_uint8_wrap(noise[0], noise[1]) == pytest.approx(np.full(20, FLOOR), abs=0.3)
    assert psnr_uint8_wrap(noise[0], noise[1]).mean() == pytest.approx(FLOOR, abs=0.05)
    unrelated = psnr_uint8_wrap(photographs, photographs[[1, 2, 0]])
    assert unrelated == pytest.approx(np.full(3, FLOOR), abs=0.5)
    assert (psnr(photographs, photographs[[1, 2, 0]]) < 15).all()


def test_differences_below_16_levels_do_not_wrap(photographs: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    levels = np.clip(np.rint(photographs * 255) + rng.integers(-15, 16, photographs.shape), 0, 255) / 255
    assert psnr_uint8_wrap(levels, photographs) == pytest.approx(psnr(levels, photographs), abs=1e-9)


def test_a_diverged_image_has_no_psnr() -> None:
    truth = np.zeros((1, 1, 8, 8))
    for metric in (psnr, psnr_of_rmse, psnr_uint8_wrap):
        assert np.isnan(metric(np.full_like(truth, np.nan), truth)).all()
