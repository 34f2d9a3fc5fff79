"""Batch norms outside of PyTorch's own layers."""

import pytest
import torch
from torch import nn

from leakbench.networks.batch_statistics import normalised


@pytest.mark.parametrize("running", [True, False])
def test_a_channel_is_standardised_as_pytorchs_batch_norm_does(running: bool) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3, affine=False, track_running_stats=running)
    if running:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2 * 4, 3, 5, 5)
    # Each of two trials has the statistics of its own batch.
    expected = torch.cat([norm.eval()(each) for each in x.split(4)])
    torch.testing.assert_close(normalised(norm, x, 2), expected)
