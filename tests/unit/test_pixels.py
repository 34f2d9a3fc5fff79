"""Stored images become what networks and metrics see: the same numbers from an array and from a tensor."""

import numpy as np
import torch

from leakbench.base.pixels import pixels

STORED = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 6, 3), dtype=np.uint8)


def test_channels_move_before_rows_and_levels_become_shares() -> None:
    stored = np.zeros((1, 4, 5, 3), dtype=np.uint8)
    stored[0, 2, 3] = (255, 0, 51)
    found = pixels(stored)
    assert (found.shape, found.dtype) == ((1, 3, 4, 5), np.float32)
    assert found[0, :, 2, 3].tolist() == [1, 0, np.float32(0.2)]
    assert np.count_nonzero(found) == 2


def test_leading_axes_stay_as_they_are() -> None:
    whole = pixels(STORED)
    assert whole.shape == (2, 4, 3, 5, 6)
    assert all(np.array_equal(whole[i], pixels(STORED[i])) for i in range(2))


def test_a_tensor_gives_the_same_numbers_in_the_same_order_in_memory() -> None:
    """A convolution's last bits depend on both."""
    found = pixels(torch.from_numpy(STORED))
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), pixels(STORED))
    plain = torch.from_numpy(STORED).permute(0, 1, 4, 2, 3).float() / 255
    assert torch.equal(found, plain)
    assert found.stride() == plain.stride()
