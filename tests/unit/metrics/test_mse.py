"""MSE and RMSE against scikit-image and numbers worked out by hand."""

import numpy as np
import pytest
from skimage.metrics import mean_squared_error

from leakbench.metrics.mse import mse, mse_matrix, rmse_255


def test_mse_by_hand() -> None:
    black = np.zeros((2, 1, 2, 2))
    other = np.array([[[[0.0, 0.5], [0.5, 1.0]]], [[[0.1, 0.1], [0.1, 0.1]]]])
    assert mse(other, black) == pytest.approx([1.5 / 4, 0.01])
    assert rmse_255(other, black) == pytest.approx([255 * np.sqrt(0.375), 25.5])


def test_mse_equals_scikit_image_image_by_image(photographs: np.ndarray) -> None:
    shuffled = photographs[[1, 2, 0]]
    expected = [mean_squared_error(a, b) for a, b in zip(photographs, shuffled, strict=True)]
    assert mse(photographs, shuffled) == pytest.approx(expected, rel=1e-12)
    levels = [mean_squared_error(a * 255, b * 255) ** 0.5 for a, b in zip(photographs, shuffled, strict=True)]
    assert rmse_255(photographs, shuffled) == pytest.approx(levels, rel=1e-12)


def test_identical_images_and_bad_images() -> None:
    images = np.full((2, 3, 8, 8), 0.3, dtype=np.float32)
    assert mse(images, images).tolist() == [0.0, 0.0]
    broken = images.copy()
    broken[1, 0, 0, 0] = np.nan
    scores = mse(broken, images)
    assert scores[0] == 0.0
    assert np.isnan(scores[1])
    assert scores.dtype == np.float64


def test_matrix_holds_every_pair(photographs: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    guesses = rng.random((4, 3, 64, 64))
    matrix = mse_matrix(guesses, photographs)
    assert matrix.shape == (4, 3)
    expected = [[np.mean((guess - truth) ** 2) for truth in photographs] for guess in guesses]
    assert matrix == pytest.approx(np.array(expected), abs=1e-12)
    assert mse_matrix(guesses[:0], photographs).shape == (0, 3)


def test_matrix_is_never_negative_and_keeps_a_diverged_row_apart(photographs: np.ndarray) -> None:
    guesses = photographs.copy()
    guesses[1] = np.inf
    matrix = mse_matrix(guesses, photographs)
    assert np.isnan(matrix[1]).all()
    assert (matrix[[0, 2]] >= 0).all()
    assert matrix[0, 0] == pytest.approx(0, abs=1e-12)
