"""Windows of a convolution: torch's own unfold, and its adjoint."""

from typing import Any

import pytest
import torch
from torch import nn

from leakbench.matching.windows import FEW, fold, unfold

CONVOLUTIONS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({"kernel_size": 5, "stride": 2, "padding": 2}, (32, 32)),
    ({"kernel_size": 5, "stride": 1, "padding": 2}, (8, 8)),
    ({"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}, (9, 11)),
    ({"kernel_size": 3, "stride": 4}, (11, 12)),
    ({"kernel_size": (1, 4), "stride": (3, 1), "padding": (0, 2), "dilation": (1, 3)}, (7, 10)),
    ({"kernel_size": 1, "stride": 2}, (5, 6)),
]


@pytest.mark.parametrize("channels", [1, FEW - 1, FEW])
@pytest.mark.parametrize(("options", "size"), CONVOLUTIONS)
def test_unfold_is_torchs_with_the_channels_last(
    options: dict[str, Any], size: tuple[int, int], channels: int
) -> None:
    conv = nn.Conv2d(channels, 2, **options)
    x = torch.rand(4, channels, *size)
    expected = nn.functional.unfold(x, conv.kernel_size, conv.dilation, conv.padding, conv.stride)  # type: ignore[arg-type]
    window = conv.kernel_size[0] * conv.kernel_size[1]
    expected = expected.view(4, channels, window, -1).permute(0, 3, 2, 1).flatten(2)
    assert torch.equal(unfold(x, conv), expected)
    last = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(unfold(last, conv), expected)


@pytest.mark.parametrize("taps", [False, True], ids=["windows", "taps"])
@pytest.mark.parametrize(("options", "size"), CONVOLUTIONS)
def test_fold_is_the_adjoint_of_unfold(options: dict[str, Any], size: tuple[int, int], taps: bool) -> None:
    conv = nn.Conv2d(3, 2, **options)
    x = torch.rand(4, 3, *size, dtype=torch.float64)
    read = torch.randn(unfold(x, conv).shape, dtype=torch.float64)
    read = read.mT.contiguous().mT if taps else read
    back = fold(read, x.shape, conv)
    assert back.shape == x.shape
    torch.testing.assert_close((read * unfold(x, conv)).sum(), (back * x).sum(), rtol=1e-12, atol=1e-12)
    window = conv.kernel_size[0] * conv.kernel_size[1]
    first = read.reshape(4, -1, window, 3).permute(0, 3, 2, 1).reshape(4, 3 * window, -1)
    expected = nn.functional.fold(first, size, conv.kernel_size, conv.dilation, conv.padding, conv.stride)  # type: ignore[arg-type]
    torch.testing.assert_close(back, expected, rtol=1e-12, atol=1e-12)
