"""Metrics of images, each against its formula, another library or numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr
from skimage.metrics import mean_squared_error, peak_signal_noise_ratio

from leakbench.metrics import pearson as room
from leakbench.metrics.channels import channel_pearson
from leakbench.metrics.coarseness import coarse_error, colour_error
from leakbench.metrics.images import displayed, to_uint8, undisplayable
from leakbench.metrics.mse import mse, mse_matrix, rmse_255
from leakbench.metrics.pearson import THRESHOLD, pearson, pearson_matrix, revealed
from leakbench.metrics.psnr import psnr, psnr_of_rmse, psnr_uint8_wrap
from leakbench.metrics.ssim import ssim
from leakbench.metrics.total_variation import total_variation, tv_ratio


def test_values_outside_the_range_are_clamped_and_bad_images_become_nan_whole() -> None:
    images = np.full((3, 1, 2, 2), 0.25)
    images[0, 0, 0] = (-3.0, 7.0)
    images[1, 0, 1, 1] = np.inf
    shown = displayed(images)
    assert shown[0, 0].tolist() == [[0.0, 1.0], [0.25, 0.25]]
    assert np.isnan(shown[1]).all()
    assert undisplayable(shown, displayed(np.zeros((3, 1, 2, 2)))).tolist() == [False, True, False]
    levels = np.array([-4.0, 0.4, 0.6, 99.4, 99.6, 254.6, 300.0, np.nan])
    assert to_uint8(levels / 255).tolist() == [0, 0, 1, 99, 100, 255, 255, 0]


def test_errors_equal_scikit_images_image_by_image(photographs: np.ndarray) -> None:
    shuffled = photographs[[1, 2, 0]]
    pairs = list(zip(photographs, shuffled, strict=True))
    assert mse(photographs, shuffled) == pytest.approx(
        [mean_squared_error(*pair) for pair in pairs], rel=1e-12
    )
    levels = [mean_squared_error(a * 255, b * 255) ** 0.5 for a, b in pairs]
    assert rmse_255(photographs, shuffled) == pytest.approx(levels, rel=1e-12)
    ratios = [peak_signal_noise_ratio(*pair, data_range=1) for pair in pairs]
    assert psnr(photographs, shuffled) == pytest.approx(ratios, rel=1e-12)
    for metric in (psnr, psnr_of_rmse, psnr_uint8_wrap):
        assert metric(photographs, photographs).tolist() == [np.inf] * 3
    assert mse(photographs, photographs).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "metric", [mse, rmse_255, psnr, psnr_of_rmse, psnr_uint8_wrap, ssim, coarse_error, colour_error]
)
def test_a_diverged_image_is_no_number_and_harms_no_other(metric: Any, photographs: np.ndarray) -> None:
    guess = photographs + 0.1 * np.random.default_rng(0).random(photographs.shape)
    sound = metric(guess, photographs)
    guess[1, 0, 0, 0] = np.nan
    found = metric(guess, photographs)
    assert found.dtype == np.float64
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == sound[[0, 2]].tolist()


def test_a_matrix_holds_every_pair_and_keeps_a_diverged_row_apart(photographs: np.ndarray) -> None:
    guesses = np.random.default_rng(1).random((5, 3, 64, 64))
    guesses[3], guesses[4] = photographs[0], np.inf
    matrix = mse_matrix(guesses, photographs)
    expected = [[np.mean((guess - truth) ** 2) for truth in photographs] for guess in guesses[:4]]
    assert matrix[:4] == pytest.approx(np.array(expected), abs=1e-12)
    assert (matrix[:4] >= 0).all()
    assert np.isnan(matrix[4]).all()
    assert mse_matrix(guesses[:0], photographs).shape == (0, 3)


# The mean of d² mod 256 over all differences d of two bytes is 105.5.
FLOOR = 10 * np.log10(255**2 / 105.5)


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 1.0))
def test_true_psnr_is_twice_the_printed_one_less_48_dB_for_one_image(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random((1, 3, 8, 8))
    guess = np.clip(truth + size * (rng.random(truth.shape) - 0.5), 0, 1)
    printed = psnr_of_rmse(guess, truth)
    assert psnr(guess, truth) == pytest.approx(2 * printed - 20 * np.log10(255), abs=1e-9)
    assert psnr(guess, truth) == pytest.approx(2 * printed - 48.13, abs=0.001)


def test_wrapped_squares_by_hand() -> None:
    truth = np.array([[[[0, 10, 200, 0]]], [[[0, 0, 0, 0]]]]) / 255
    guess = np.array([[[[15, 0, 10, 255]]], [[[16, 32, 128, 240]]]]) / 255
    # 15² = 225; (−10)² = 100; 190² = 36100 = 141·256 + 4; 255 = −1, squared 1. Multiples of 16 give 0.
    expected = 10 * np.log10(255**2 / np.mean([225, 100, 4, 1]))
    assert psnr_uint8_wrap(guess, truth) == pytest.approx([expected, np.inf])


def test_unrelated_images_lie_on_the_floor_whatever_they_show(photographs: np.ndarray) -> None:
    assert pytest.approx(27.90, abs=0.005) == FLOOR
    noise = np.random.default_rng(3).integers(0, 256, (2, 20, 3, 32, 32)) / 255
    assert psnr_uint8_wrap(*noise).mean() == pytest.approx(FLOOR, abs=0.05)
    others = photographs[[1, 2, 0]]
    assert psnr_uint8_wrap(photographs, others) == pytest.approx(np.full(3, FLOOR), abs=0.5)
    assert (psnr(photographs, others) < 15).all()


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


def wave(down: int, across: int, size: int = 32) -> np.ndarray:
    """Return one cosine of the transform as an image [1, 1, size, size] around 0.5."""
    place = (np.arange(size) + 0.5) * np.pi / size
    return 0.5 + 0.3 * (np.cos(down * place)[:, None] * np.cos(across * place))[None, None]


def test_a_wave_is_coarse_or_fine_and_shares_add_up() -> None:
    plain = np.full((1, 3, 32, 32), 0.5)
    for place, share in (((0, 1), 1.0), ((7, 7), 1.0), ((8, 0), 0.0), ((0, 8), 0.0), ((20, 3), 0.0)):
        assert coarse_error(wave(*place), plain[:, :1]) == pytest.approx(share, abs=1e-12)
    waves = np.concatenate([wave(1, 1), wave(20, 20), wave(3, 25)], 1)
    assert coarse_error(waves, plain) == pytest.approx(1 / 3)
    assert np.isnan(coarse_error(waves, waves)).all()


def test_colours_are_means_of_channels() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 3, 8, 8)), rng.random((4, 3, 8, 8))
    for i, found in enumerate(colour_error(a, b)):
        assert found == pytest.approx(np.linalg.norm(a[i].mean((1, 2)) - b[i].mean((1, 2))))
    shuffled = rng.permutation(a.reshape(4, 3, -1), axis=2).reshape(a.shape)
    np.testing.assert_allclose(colour_error(shuffled, a), 0, atol=1e-12)


def test_noise_raises_and_blur_lowers_the_total_variation() -> None:
    ramp = np.tile(np.linspace(0, 1, 5), (5, 1))[None, None]
    board = (np.indices((4, 4)).sum(0) % 2)[None, None].astype(float)
    assert [total_variation(each) for each in (ramp, board)] == [pytest.approx(0.25), pytest.approx(2.0)]
    image = np.random.default_rng(0).random((3, 1, 16, 16))
    blurred, flat = (image + np.roll(image, 1, -1) + np.roll(image, 1, -2)) / 3, np.full_like(image, 0.5)
    assert (tv_ratio(blurred, image) < 1).all()
    assert tv_ratio(image, image) == pytest.approx(1)
    assert (tv_ratio(image, blurred) > 1).all()
    assert (tv_ratio(flat, image) == 0).all()
    assert np.isnan(tv_ratio(image, flat)).all()


def test_channels_that_copy_or_invert_the_image_show_it() -> None:
    rng = np.random.default_rng(0)
    image = np.kron(rng.random((2, 1, 7, 7)), np.ones((1, 1, 2, 2)))
    small = image[..., ::2, ::2]
    both = np.concatenate([small, 1 - small], axis=1)
    half = np.concatenate([small, np.zeros_like(small)], axis=1)
    other = rng.random(both.shape)
    assert (channel_pearson(both, image) > 0.9).all()
    assert channel_pearson(half, image) == pytest.approx(channel_pearson(small, image) / 2)
    assert (channel_pearson(other, image) < 0.5).all()


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(seeds, st.integers(2, 40), st.floats(0, 1))
def test_pairs_equal_scipy(seed: int, values: int, mixing: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random((3, values))
    guess = mixing * truth + (1 - mixing) * rng.random((3, values))
    expected = [pearsonr(a, b).statistic for a, b in zip(guess, truth, strict=True)]
    assert pearson(guess, truth) == pytest.approx(expected, abs=1e-7)


@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from([(), (3,), (2, 2)]))
def test_matrix_equals_scipy_for_every_pair_of_every_batch(seed: int, leading: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((*leading, n, 30), dtype=np.float32) for n in (4, 3))
    before = a.copy(), b.copy()
    r = pearson_matrix(a, b)
    assert (r.shape, r.dtype) == ((*leading, 4, 3), np.float32)
    for where in np.ndindex(*r.shape):
        *batch, n, k = where
        expected = pearsonr(a[(*batch, n)].astype(float), b[(*batch, k)].astype(float)).statistic
        assert r[where] == pytest.approx(expected, abs=1e-5)
    assert all(np.array_equal(*pair) for pair in zip((a, b), before, strict=True))


@settings(deadline=None)
@given(seeds, st.floats(-6, 6), st.floats(-100, 100), st.sampled_from([-1.0, 1.0]))
def test_scale_and_shift_change_at_most_the_sign(seed: int, power: float, shift: float, sign: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((5, 50)), rng.standard_normal((4, 50))
    scale = sign * 10.0**power
    moved = scale * (a + shift)
    assert pearson_matrix(moved, b) == pytest.approx(sign * pearson_matrix(a, b), abs=1e-4)
    assert pearson(moved[:4], b) == pytest.approx(sign * pearson(a[:4], b), abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_without_a_correlation_are_zero(dtype: type) -> None:
    rng = np.random.default_rng(0)
    b = rng.random((2, 784)).astype(dtype)
    a = np.stack([b[0], np.full(784, 0.1), np.zeros(784), b[0], b[0]]).astype(dtype)
    a[3, 5] = np.nan
    a[4, 5] = np.inf
    r = pearson_matrix(a, b)
    assert r[0, 0] == pytest.approx(1)
    assert (r[1:] == 0).all()
    assert pearson(a, b[[0] * 5])[1:].tolist() == [0.0] * 4
    assert (pearson_matrix(b, a)[:, 1:] == 0).all()


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e36])
def test_float32_rows_whose_squares_overflow_or_vanish_keep_their_correlation(scale: float) -> None:
    rng = np.random.default_rng(1)
    b = rng.random((3, 100), dtype=np.float32)
    assert np.diag(pearson_matrix(b * np.float32(scale), b)) == pytest.approx(np.ones(3), abs=1e-5)


def test_rows_far_from_zero_are_centred_again() -> None:
    """A mean of 1000 rounds to 3e-5 in float32: left in both rows it would pass for correlation."""
    b = np.random.default_rng(3).standard_normal((8, 784))
    for rows in (b + 1e6, (1000.3 + b).astype(np.float32), (1000.3 + 1e-3 * b).astype(np.float32)):
        assert pearson_matrix(rows, rows) == pytest.approx(np.corrcoef(rows.astype(float)), abs=2e-5)


def test_odd_rows_beside_usual_ones_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a row's neighbours are, and however many rows are taken at once, r is that of float64."""
    rng = np.random.default_rng(4)
    truth = rng.random((3, 5, 200), dtype=np.float32)
    rows = np.concatenate([truth, rng.standard_normal((3, 3, 200), dtype=np.float32)], 1)
    rows[:, 1] = 0
    rows[:, 2] *= np.float32(1e-25)
    rows[1, 3] *= np.float32(1e30)
    rows[2, 4] = 1000 + 1e-2 * rows[2, 4]
    rows[0, 5] = 0.1
    expected = np.zeros((3, 8, 5))
    for batch, row, image in np.ndindex(*expected.shape):
        if row != 1 and (batch, row) != (0, 5):
            pair = rows[batch, row].astype(float), truth[batch, image].astype(float)
            expected[batch, row, image] = np.corrcoef(*pair)[0, 1]
    assert pearson_matrix(rows, truth) == pytest.approx(expected, abs=2e-6)
    monkeypatch.setattr(room, "_CACHED_FLOATS", 10**6)
    assert pearson_matrix(rows, truth) == pytest.approx(expected, abs=2e-6)


def test_images_and_flat_rows_agree_and_bytes_are_accepted(photographs: np.ndarray) -> None:
    others = photographs[[1, 2, 0]]
    expected = [pearsonr(a.ravel(), b.ravel()).statistic for a, b in zip(photographs, others, strict=True)]
    assert pearson(photographs, others) == pytest.approx(expected, abs=1e-12)
    flat = np.rint(photographs * 255).astype(np.uint8).reshape(3, -1)
    assert np.diag(pearson_matrix(flat, photographs.reshape(3, -1))) == pytest.approx(np.ones(3), abs=1e-6)
    assert pearson(photographs[:0], photographs[:0]).shape == (0,)
    assert pearson_matrix(np.zeros((2, 0, 9)), np.ones((2, 4, 9))).shape == (2, 0, 4)
    # Rounding alone would take some copies beyond one.
    rows = np.random.default_rng(0).random((100, 784), dtype=np.float32)
    assert (pearson_matrix(rows, rows).max(), pearson_matrix(rows, -rows).min()) == (1, -1)


def test_an_image_is_revealed_once_and_only_at_the_threshold() -> None:
    r = np.array([[[0.99, 0.5, -0.99], [0.985, 0.9799, 0.0]], [[0.98, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    assert revealed(r).tolist() == [[True, False, False], [True, True, False]]
    assert revealed(r).sum(axis=-1).tolist() == [1, 2]
    assert revealed(np.zeros((0, 2))).tolist() == [False, False]
    assert THRESHOLD == 0.98
