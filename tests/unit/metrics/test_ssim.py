"""SSIM against the formula of Wang et al. (2004) written out."""

import numpy as np
import pytest

from leakbench.metrics.ssim import ssim


def ssim_written_out(a: np.ndarray, b: np.ndarray) -> float:
    """SSIM of [C, H, W]: every 7×7 window that fits, sample (co)variances, K1 = 0.01, K2 = 0.03, range 1."""
    c1, c2 = 0.01**2, 0.03**2
    channels, height, width = a.shape
    scores = []
    for c in range(channels):
        for i in range(height - 6):
            for j in range(width - 6):
                x, y = a[c, i : i + 7, j : j + 7].ravel(), b[c, i : i + 7, j : j + 7].ravel()
                (xx, xy), (_, yy) = np.cov(x, y)
                mx, my = x.mean(), y.mean()
                luminance = (2 * mx * my + c1) / (mx**2 + my**2 + c1)
                scores.append(luminance * (2 * xy + c2) / (xx + yy + c2))
    return float(np.mean(scores))


@pytest.mark.parametrize("shape", [(1, 7, 7), (1, 12, 9), (3, 16, 16)])
def test_ssim_equals_the_formula(shape: tuple[int, ...], photographs: np.ndarray) -> None:
    truth = photographs[:, : shape[0], 20 : 20 + shape[1], 20 : 20 + shape[2]]
    noisy = np.clip(truth + np.random.default_rng(0).normal(0, 0.1, truth.shape), 0, 1)
    expected = [ssim_written_out(a, b) for a, b in zip(noisy, truth, strict=True)]
    assert ssim(noisy, truth) == pytest.approx(expected, abs=1e-9)


def test_identical_unrelated_and_inverted_images(photographs: np.ndarray) -> None:
    assert ssim(photographs, photographs) == pytest.approx([1.0] * 3)
    assert (ssim(np.random.default_rng(0).random(photographs.shape), photographs) < 0.1).all()
    assert (ssim(1 - photographs, photographs) < 0).all()


def test_more_noise_is_less_similar(photographs: np.ndarray) -> None:
    noise = np.random.default_rng(1).normal(0, 1, photographs.shape)
    scores = np.array([ssim(photographs + size * noise, photographs) for size in (0.02, 0.05, 0.1, 0.3)])
    assert (np.diff(scores, axis=0) < 0).all()


def test_images_smaller_than_the_window_are_refused_with_the_reason() -> None:
    small = np.zeros((1, 1, 6, 20))
    with pytest.raises(ValueError, match="6×20 are smaller than its 7×7 window"):
        ssim(small, small)


def test_a_diverged_image_is_nan_and_leaves_the_others_alone(photographs: np.ndarray) -> None:
    guess = photographs.copy()
    guess[1, 0, 0, 0] = np.nan
    assert np.isnan(ssim(guess, photographs)).tolist() == [False, True, False]
