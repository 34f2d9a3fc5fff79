"""Links of layers without weights, each held to the layer itself."""

import torch

from leakbench.attacks.matching.engines.layers.without_weights import DROPOUT
from leakbench.networks.layers import Dropout


def test_dropouts_link_multiplies_by_the_masks_that_are_lent() -> None:
    layer = Dropout(0.5, 6)
    rng = torch.Generator().manual_seed(1)
    layer.keep = layer.draw((4,), rng)
    assert {0.0, 2.0} == set(layer.keep.flatten().tolist())
    x, slope = torch.rand((4, 6), generator=rng), torch.rand((4, 6), generator=rng)
    assert torch.equal(DROPOUT.forward(layer, x, 1)[0], layer(x))
    assert torch.equal(DROPOUT.backward(layer, (), x.shape, slope), slope * layer.keep)
