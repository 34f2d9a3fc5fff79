"""Convolutions whose weights do not change, as linear maps: each is the derivative of its transpose.

Autograd's own second derivative also computes the part of the weights, whether it is wanted or not.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import fold

# A transposed convolution onto fewer channels than this fills no vector register. A matrix product does.
NARROW = 8


def padding(conv: nn.Conv2d) -> tuple[int, int]:
    """Return the padding of rows and of columns, where it is a number."""
    assert not isinstance(conv.padding, str)
    down, across = conv.padding
    return down, across


def transposed(y: Tensor, weight: Tensor, conv: nn.Conv2d, read: torch.Size) -> Tensor:
    """Return the transpose of a convolution: from the slope at its output to the slope at its input."""
    if read[1] < NARROW:
        windows = weight.flatten(1).T @ y.flatten(2)
        return fold(windows, read[2:], conv.kernel_size, conv.dilation, padding(conv), conv.stride)
    return torch.ops.aten.convolution_backward(
        y, y.new_empty(1).expand(read), weight, None, conv.stride, conv.padding, conv.dilation, False, [0, 0],
        1, [True, False, False],
    )[0]  # fmt: skip


class FixedConv2d(nn.Conv2d):
    """A convolution that computes a derivative in its weights only if they require one."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if (
            weight.requires_grad
            or self.padding_mode != "zeros"
            or self.groups > 1
            or isinstance(self.padding, str)
        ):
            return super()._conv_forward(input, weight, bias)
        return _Map.apply(input, weight, bias, self)


def fix_convolutions(model: nn.Module) -> nn.Module:
    """Make every convolution of `model` a FixedConv2d, in place; its name, weights and hooks stay."""
    for layer in model.modules():
        if type(layer) is nn.Conv2d:
            layer.__class__ = FixedConv2d
    return model


class _Map(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, conv: nn.Conv2d) -> Tensor:
        ctx.weight, ctx.conv, ctx.read = weight, conv, x.shape
        return nn.functional.conv2d(x, weight, bias, conv.stride, conv.padding, conv.dilation)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None, None]:
        return _Transpose.apply(*cotangents, ctx.weight, ctx.conv, ctx.read), None, None, None


class _Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, conv: nn.Conv2d, read: torch.Size) -> Tensor:
        ctx.weight, ctx.conv = weight, conv
        return transposed(y, weight, conv, read)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None, None]:
        return _Map.apply(*cotangents, ctx.weight, None, ctx.conv), None, None, None
