"""Convolutions of one small image, as products with its windows, against torch's own."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from leakbench.attacks.matching.engines.layers import unfolded
from leakbench.attacks.matching.engines.layers.convolution import derivatives

CL = torch.channels_last
SETTINGS = {
    "3x3": ((3, 1, 1), (8, 8)),
    "stride": ((3, 2, 1), (8, 8)),
    "stride that leaves a row": ((3, 2, 1), (7, 10)),
    "no padding": ((3, 1, 0), (9, 8)),
    "uneven": (((3, 2), (1, 2), (1, 0)), (8, 7)),
    "wide padding": ((2, 1, 2), (6, 6)),
}


def _case(setting: str) -> tuple[nn.Conv2d, Tensor, Tensor]:
    torch.manual_seed(0)
    (kernel, stride, padding), size = SETTINGS[setting]
    conv = nn.Conv2d(5, 6, kernel, stride, padding).double().to(memory_format=CL)
    x = torch.randn(1, 5, *size).double().to(memory_format=CL)
    return conv, x, torch.randn_like(conv(x)).to(memory_format=CL)


@pytest.mark.parametrize("setting", SETTINGS)
def test_forward_and_derivatives_are_torchs(setting: str) -> None:
    conv, x, slope = _case(setting)
    expected = conv2d(x, conv.weight, conv.bias, conv.stride, conv.padding)
    torch.testing.assert_close(unfolded.convolved(conv, x, conv.weight, conv.bias), expected)
    to_x, to_weight = derivatives(conv, slope, x, conv.weight, 1, (True, True))[:2]
    torch.testing.assert_close(unfolded.transposed(conv, slope, conv.weight, x.shape), to_x)
    torch.testing.assert_close(unfolded.weight_gradient(conv, slope, x), to_weight)


def test_what_is_made_lies_channels_last() -> None:
    conv, x, slope = _case("3x3")
    for found in (unfolded.convolved(conv, x, conv.weight, None), unfolded.weight_gradient(conv, slope, x)):
        assert found.is_contiguous(memory_format=CL)


def test_where_it_pays() -> None:
    wide = nn.Conv2d(256, 256, 3, 1, 1)
    assert unfolded.pays(wide, torch.empty(1, 256, 8, 8))
    others = {
        "two images": (wide, torch.empty(2, 256, 8, 8)),
        "a large image": (wide, torch.empty(1, 256, 16, 16)),
        "little to multiply": (nn.Conv2d(3, 8, 3), torch.empty(1, 3, 32, 32)),
        "double precision": (wide, torch.empty(1, 256, 8, 8).double()),
        "a large window": (nn.Conv2d(256, 256, 5, 1, 2), torch.empty(1, 256, 8, 8)),
        "dilation": (nn.Conv2d(256, 256, 3, 1, 2, dilation=2), torch.empty(1, 256, 8, 8)),
    }
    assert [name for name, case in others.items() if unfolded.pays(*case)] == []
