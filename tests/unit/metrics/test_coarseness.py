"""Coarse errors against planted waves, colours against plain means."""

import numpy as np
import pytest

from leakbench.metrics.coarseness import coarse_error, colour_error


def wave(down: int, across: int, size: int = 32) -> np.ndarray:
    """Return one cosine of the transform as an image [1, 1, size, size] around 0.5."""
    place = (np.arange(size) + 0.5) * np.pi / size
    return 0.5 + 0.3 * (np.cos(down * place)[:, None] * np.cos(across * place))[None, None]


@pytest.mark.parametrize(
    ("down", "across", "share"), [(0, 1, 1.0), (7, 7, 1.0), (8, 0, 0.0), (0, 8, 0.0), (20, 3, 0.0)]
)
def test_a_wave_is_coarse_or_fine(down: int, across: int, share: float) -> None:
    plain = np.full((1, 1, 32, 32), 0.5)
    assert coarse_error(wave(down, across), plain) == pytest.approx(share, abs=1e-12)


def test_shares_add_up_over_waves_and_channels() -> None:
    plain = np.full((1, 3, 32, 32), 0.5)
    waves = np.concatenate([wave(1, 1), wave(20, 20), wave(3, 25)], 1)
    assert coarse_error(waves, plain) == pytest.approx(1 / 3)


def test_no_error_has_no_share_and_no_image_no_value() -> None:
    images = np.random.default_rng(0).random((2, 3, 8, 8))
    assert np.isnan(coarse_error(images, images)).all()
    nothing = np.full_like(images, np.nan)
    assert np.isnan(coarse_error(nothing, images)).all()
    assert np.isnan(colour_error(nothing, images)).all()


def test_colours_are_means_of_channels() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 3, 8, 8)), rng.random((4, 3, 8, 8))
    for i, found in enumerate(colour_error(a, b)):
        assert found == pytest.approx(np.linalg.norm(a[i].mean((1, 2)) - b[i].mean((1, 2))))
    shuffled = rng.permutation(a.reshape(4, 3, -1), axis=2).reshape(a.shape)
    np.testing.assert_allclose(colour_error(shuffled, a), 0, atol=1e-12)
