"""The two metrics that decide claims about Fidel's pictures: total variation and recognisable channels."""

import numpy as np
import pytest

from leakbench.metrics.channels import channel_pearson
from leakbench.metrics.total_variation import total_variation, tv_ratio


def test_total_variation_of_a_ramp_and_a_checkerboard() -> None:
    ramp = np.tile(np.linspace(0, 1, 5), (5, 1))[None, None]
    board = (np.indices((4, 4)).sum(0) % 2)[None, None].astype(float)
    assert total_variation(ramp) == pytest.approx(0.25)
    assert total_variation(board) == pytest.approx(2.0)


def test_noise_raises_and_blur_lowers_the_ratio() -> None:
    rng = np.random.default_rng(0)
    image = rng.random((3, 1, 16, 16))
    blurred = (image + np.roll(image, 1, -1) + np.roll(image, 1, -2)) / 3
    noisy = np.clip(image * 0.5 + rng.random(image.shape) * 0.5, 0, 1)
    flat = np.full_like(image, 0.5)
    assert (tv_ratio(blurred, image) < 1).all()
    assert tv_ratio(image, image) == pytest.approx(1)
    assert (tv_ratio(image, blurred) > 1).all()
    assert (tv_ratio(flat, image) == 0).all()
    assert np.isnan(tv_ratio(noisy, flat)).all()


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
