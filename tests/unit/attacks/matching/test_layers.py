"""Layers and products by hand, each held to torch's own where the networks of test_engines are too small."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from leakbench.attacks.matching.engines import products
from leakbench.attacks.matching.engines.layers import narrow, unfolded
from leakbench.attacks.matching.engines.layers.convolution import derivatives
from leakbench.attacks.matching.engines.layers.without_weights import DROPOUT
from leakbench.attacks.matching.engines.products import WORTH, product
from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution
from leakbench.networks.layers import Dropout

SMALL = int(WORTH ** (1 / 3)) - 1


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize(
    ("side", "kind", "taken"),
    [(170, torch.float32, True), (SMALL, torch.float32, False), (170, torch.float64, False)],
)
@pytest.mark.parametrize("across", [False, True])
def test_large_products_in_single_precision_are_onednns(
    side: int, kind: torch.dtype, taken: bool, across: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, ...]] = []
    linear = products._linear
    monkeypatch.setattr(
        products, "_linear", lambda a, b: (sizes.append((*a.shape, b.shape[1])), linear(a, b))[1]
    )
    torch.manual_seed(0)
    many, deep, wide = (side, side, side) if not taken else (180, side, 190)
    a, b = torch.randn(3, many, deep, dtype=kind), torch.randn(3, deep, wide, dtype=kind)
    if across:
        a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    torch.testing.assert_close(product(a, b), a @ b)
    torch.testing.assert_close(product(a[0], b[0]), a[0] @ b[0])
    assert sizes == [(many, deep, wide)] * (4 if taken else 0)


CL = torch.channels_last


@pytest.mark.parametrize(
    ("window", "size"),
    [
        ((3, 1, 1), (8, 8)),
        ((3, 2, 1), (8, 8)),
        # The stride leaves a row.
        ((3, 2, 1), (7, 10)),
        ((3, 1, 0), (9, 8)),
        (((3, 2), (1, 2), (1, 0)), (8, 7)),
        ((2, 1, 2), (6, 6)),
    ],
)
def test_unfolded_convolutions_are_torchs(window: tuple[int, int, int], size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(5, 6, *window).double().to(memory_format=CL)
    x = torch.randn(1, 5, *size).double().to(memory_format=CL)
    slope = torch.randn_like(conv(x)).to(memory_format=CL)
    found = unfolded.convolved(conv, x, conv.weight, conv.bias)
    assert found.is_contiguous(memory_format=CL)
    torch.testing.assert_close(found, conv2d(x, conv.weight, conv.bias, conv.stride, conv.padding))
    to_x, to_weight = derivatives(conv, slope, x, conv.weight, 1, (True, True))[:2]
    torch.testing.assert_close(unfolded.transposed(conv, slope, conv.weight, x.shape), to_x)
    torch.testing.assert_close(unfolded.weight_gradient(conv, slope, x), to_weight)


WIDE = nn.Conv2d(256, 256, 3, 1, 1)


@pytest.mark.parametrize(
    ("conv", "read", "pays"),
    [(WIDE, torch.empty(1, 256, 8, 8), True), (WIDE, torch.empty(2, 256, 8, 8), False),
     (WIDE, torch.empty(1, 256, 16, 16), False), (nn.Conv2d(3, 8, 3), torch.empty(1, 3, 32, 32), False),
     (WIDE, torch.empty(1, 256, 8, 8).double(), False),
     (nn.Conv2d(256, 256, 5, 1, 2), torch.empty(1, 256, 8, 8), False),
     (nn.Conv2d(256, 256, 3, 1, 2, dilation=2), torch.empty(1, 256, 8, 8), False)],
)  # fmt: skip
def test_unfolding_pays_for_a_small_image_of_many_channels(conv: nn.Conv2d, read: Tensor, pays: bool) -> None:
    assert unfolded.pays(conv, read) == pays


@pytest.mark.parametrize(
    "conv",
    [nn.Conv2d(16, 4, 5, 2, 2), nn.Conv2d(3, 4, 5, 1, 2), nn.Conv2d(3, 4, 3, 2, 1),
     nn.Conv2d(3, 4, 5, 2, 2, dilation=2), nn.Conv2d(3, 4, 2, 3, 0)],
    ids=["many channels", "no stride", "padding is no multiple", "dilation", "a last pixel that none reads"],
)  # fmt: skip
def test_what_is_not_turned(conv: nn.Conv2d) -> None:
    read = torch.zeros(1, conv.in_channels, 16, 16)
    assert not narrow.turns(conv, read.shape, conv(read).shape)


def test_dropouts_link_multiplies_by_the_masks_that_are_lent() -> None:
    layer, rng = Dropout(0.5, 6), torch.Generator().manual_seed(1)
    layer.keep = layer.draw((4,), rng)
    x, slope = torch.rand((4, 6), generator=rng), torch.rand((4, 6), generator=rng)
    assert torch.equal(DROPOUT.forward(layer, x, 1)[0], layer(x))
    assert torch.equal(DROPOUT.backward(layer, (), x.shape, slope), slope * layer.keep)


def test_derivatives_of_upsampling_blocks_are_those_of_differences() -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 3), (2, 3, 3, 3, 2)))
    assert torch.autograd.gradcheck(upsampled_convolution, (x, weight))
    x, scale, shift = (
        torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 4), (2, 4), (2, 4))
    )
    assert torch.autograd.gradcheck(normalised_gate, (x, scale, shift))
