"""Narrow convolutions: two sums as one, and transposes as convolutions, are what autograd has of each."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from leakbench.attacks.matching.engines.layers import narrow

TRIALS = 3
CL = torch.channels_last


def _wide(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double).to(memory_format=CL)


def _slow(conv: nn.Conv2d, slope: Tensor, weight: Tensor, read: Tensor) -> Tensor:
    """The transpose by autograd, trial by trial."""
    found: list[Tensor] = []
    for x, y, w in zip(read.chunk(TRIALS, 1), slope.chunk(TRIALS, 1), weight.chunk(TRIALS, 0), strict=True):
        x = x.detach().requires_grad_()
        found += torch.autograd.grad(conv2d(x, w, None, conv.stride, conv.padding), x, y)
    return torch.cat(found, 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"),
    [
        (5, 2, 2, (32, 32)),
        (5, 2, 2, (8, 12)),
        (3, 2, 0, (9, 7)),
        (5, (1, 2), (2, 2), (7, 8)),
        (4, 2, 0, (8, 6)),
    ],
)
def test_a_turned_convolution_is_the_transpose(
    kernel: int, stride: int | tuple[int, int], padding: int | tuple[int, int], size: tuple[int, int]
) -> None:
    conv = nn.Conv2d(3, 4, kernel, stride, padding).double()
    read, weight = _wide(2, TRIALS * 3, *size), _wide(TRIALS * 4, 3, kernel, kernel)
    slope = conv2d(read, weight, None, conv.stride, conv.padding, 1, TRIALS).to(memory_format=CL)
    assert narrow.turns(conv, read.shape, slope.shape)
    found = narrow.transposed(conv, slope, narrow.turned(conv, weight, TRIALS), read.shape, TRIALS)
    torch.testing.assert_close(found, _slow(conv, slope, weight, read))


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(16, 4, 5, 2, 2),
        nn.Conv2d(3, 4, 5, 1, 2),
        nn.Conv2d(3, 4, 3, 2, 1),
        nn.Conv2d(3, 4, 5, 2, 2, dilation=2),
    ],
    ids=["many channels", "no stride", "padding is no multiple", "dilation"],
)
def test_what_is_not_turned(conv: nn.Conv2d) -> None:
    read = torch.zeros(1, conv.in_channels, 16, 16)
    assert not narrow.turns(conv, read.shape, conv(read).shape)


def test_two_sums_are_one() -> None:
    x, y = _wide(2, TRIALS * 3, 6, 5), _wide(2, TRIALS * 3, 6, 5)
    v, w = _wide(TRIALS * 4, 3, 3, 3), _wide(TRIALS * 4, 3, 3, 3)
    both = conv2d(narrow.beside(x, y, TRIALS), narrow.reading_both(v, w), groups=TRIALS)
    torch.testing.assert_close(both, conv2d(x, v, groups=TRIALS) + conv2d(y, w, groups=TRIALS))


def test_two_transposes_are_one() -> None:
    conv, read = nn.Conv2d(3, 4, 3).double(), _wide(2, TRIALS * 3, 6, 5)
    a, b = _wide(2, TRIALS * 4, 4, 3), _wide(2, TRIALS * 4, 4, 3)
    v, w = _wide(TRIALS * 4, 3, 3, 3), _wide(TRIALS * 4, 3, 3, 3)
    found = torch.ops.aten.convolution_backward(
        narrow.beside(a, b, TRIALS), read, narrow.making_both(v, w, TRIALS), None, [1, 1], [0, 0], [1, 1],
        False, [0, 0], TRIALS, [True, False, False],
    )[0]  # fmt: skip
    torch.testing.assert_close(found, _slow(conv, a, v, read) + _slow(conv, b, w, read))


def test_what_is_made_of_weights_is_made_again_where_they_change() -> None:
    conv = nn.Conv2d(1, 1, 1).requires_grad_(False)

    def made() -> float:
        return float(narrow.once(conv, "double", 2, lambda: 2 * conv.weight.clone()))

    conv.weight.fill_(1)
    assert (made(), made()) == (2, 2)
    conv.weight.fill_(3)
    assert made() == 6
    conv.weight = nn.Parameter(torch.full((1, 1, 1, 1), 5.0), requires_grad=False)
    assert made() == 10
