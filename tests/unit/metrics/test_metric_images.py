"""The common form of images."""

import numpy as np
import pytest

from leakbench.base.pixels import pixels
from leakbench.metrics.images import displayed, pair, to_uint8, undisplayable


def test_values_outside_the_range_are_clamped_and_bad_images_become_nan_whole() -> None:
    images = np.full((3, 1, 2, 2), 0.25)
    images[0, 0, 0] = (-3.0, 7.0)
    images[1, 0, 1, 1] = np.inf
    shown = displayed(images)
    assert shown[0, 0].tolist() == [[0.0, 1.0], [0.25, 0.25]]
    assert np.isnan(shown[1]).all()
    assert undisplayable(shown, displayed(np.zeros((3, 1, 2, 2)))).tolist() == [False, True, False]


@pytest.mark.parametrize("shape", [(4, 8, 8), (2, 8, 8, 3), (8,), (2, 2, 8, 8)])
def test_a_batch_that_is_not_channel_first_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected \[N, C, H, W\]"):
        displayed(np.zeros(shape))


def test_nothing_is_broadcast() -> None:
    with pytest.raises(ValueError, match="truths"):
        pair(np.zeros((1, 3, 8, 8)), np.zeros((2, 3, 8, 8)))


def test_all_256_levels_survive_the_way_to_float_and_back() -> None:
    stored = np.arange(256, dtype=np.uint8).reshape(2, 8, 16, 1)
    images = pixels(stored)
    assert images.shape == (2, 1, 8, 16)
    assert images.dtype == np.float32
    assert np.array_equal(to_uint8(images)[:, 0], stored[..., 0])


def test_bytes_are_rounded_to_the_nearest_level() -> None:
    levels = np.array([-4.0, 0.4, 0.6, 99.4, 99.6, 254.6, 300.0, np.nan])
    assert to_uint8(levels / 255).tolist() == [0, 0, 1, 99, 100, 255, 255, 0]
