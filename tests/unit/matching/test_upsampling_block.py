"""The upsampling block against torch's own layers, one trial after another, its derivatives against
differences."""

import pytest
import torch
from torch.nn.functional import batch_norm, conv2d, glu, interpolate

from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution


@pytest.mark.parametrize(
    ("rows", "columns", "n", "channels"),
    [(4, 4, 1, 5), (2, 5, 3, 5), (2, 3, 1, 20), (1, 2, 2, 9), (1, 1, 1, 1)],
)
def test_it_is_a_convolution_after_upsampling(rows: int, columns: int, n: int, channels: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, n, rows, columns, channels).double()
    weight = torch.randn(3, channels, 3, 3, 7).double()
    found = upsampled_convolution(x, weight)
    for trial in range(3):
        large = interpolate(x[trial].permute(0, 3, 1, 2), scale_factor=2)
        expected = conv2d(large, weight[trial].permute(3, 0, 1, 2), padding=1).permute(0, 2, 3, 1)
        torch.testing.assert_close(found[trial], expected)


@pytest.mark.parametrize("n", [1, 3])
def test_it_is_batch_norm_of_each_trials_own_images_and_a_gate(n: int) -> None:
    torch.manual_seed(0)
    x, scale, shift = (torch.randn(*size).double() for size in ((2, n, 3, 4, 6), (2, 6), (2, 6)))
    found = normalised_gate(x, scale, shift)
    for trial in range(2):
        normed = batch_norm(
            x[trial].permute(0, 3, 1, 2), None, None, scale[trial], shift[trial], training=True
        )
        torch.testing.assert_close(found[trial], glu(normed, 1).permute(0, 2, 3, 1))


def test_derivatives_are_those_of_differences() -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 3), (2, 3, 3, 3, 2)))
    assert torch.autograd.gradcheck(upsampled_convolution, (x, weight))
    x, scale, shift = (
        torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 4), (2, 4), (2, 4))
    )
    assert torch.autograd.gradcheck(normalised_gate, (x, scale, shift))
