"""Pearson correlation against SciPy, and its invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr

from leakbench.metrics import pearson as room
from leakbench.metrics.pearson import THRESHOLD, pearson, pearson_matrix, revealed

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
