"""Convolutions of all trials at once, with a group of channels, and so weights of its own, for each trial."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from leakbench.attacks.matching.engines.layers import narrow, unfolded
from leakbench.attacks.matching.engines.layers.narrow import NARROWEST, padding
from leakbench.attacks.matching.engines.layers.rule import Kept, LayerRule, Link
from leakbench.base.tensors import Tensors


def derivatives(
    conv: nn.Conv2d, slope: Tensor, x: Tensor, weight: Tensor, groups: int, mask: Sequence[bool]
) -> list[Tensor]:
    """Return the derivatives of a convolution with groups in what it read and in its weights."""
    return torch.ops.aten.convolution_backward(
        slope, x, weight, None, conv.stride, conv.padding, conv.dilation, False, [0, 0], groups,
        [*mask, False],
    )  # fmt: skip


def _convolved(conv: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    if groups == 1 and unfolded.pays(conv, x):
        return unfolded.convolved(conv, x, weight, bias)
    return conv2d(x, weight, bias, conv.stride, conv.padding, conv.dilation, groups)


def _transposed(conv: nn.Conv2d, slope: Tensor, x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Return the derivative of a convolution in what it read, x, of which only the shape matters."""
    if groups == 1 and unfolded.pays(conv, x):
        return unfolded.transposed(conv, slope, weight, x.shape)
    return derivatives(conv, slope, x, weight, groups, (True, False))[0]


def weight_gradients(conv: nn.Conv2d, x: Tensor, slope: Tensor, groups: int) -> Tensor:
    """Return the gradient of the weights of each group, [groups·out, in, rows, columns]."""
    weight = conv.weight.new_empty(1).expand(groups * len(conv.weight), *conv.weight.shape[1:])
    return derivatives(conv, slope, x, weight, groups, (False, True))[1]


class _WeightGradient(torch.autograd.Function):
    """The weight gradient of a convolution with groups. Its own derivative is two more convolutions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor, conv: nn.Conv2d, groups: int) -> Tensor:
        ctx.save_for_backward(x, slope)
        ctx.conv, ctx.groups = conv, groups
        return weight_gradients(conv, x, slope, groups)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (v,) = cotangents
        x, slope = ctx.saved_tensors
        conv, groups = ctx.conv, ctx.groups
        to_x = derivatives(conv, slope, x, v, groups, (True, False))[0] if ctx.needs_input_grad[0] else None
        to_slope = None
        if ctx.needs_input_grad[1]:
            to_slope = conv2d(x, v, None, conv.stride, conv.padding, conv.dilation, groups)
        return to_x, to_slope, None, None


def _gradients(conv: nn.Conv2d, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    beside = [value.unflatten(0, (trials, -1)).transpose(0, 1).flatten(1, 2) for value in (x, slope)]
    found = _WeightGradient.apply(*beside, conv, trials).unflatten(0, (trials, -1))
    if conv.bias is None:
        return {"weight": found}
    return {"weight": found, "bias": slope.unflatten(0, (trials, -1)).sum((1, 3, 4))}


def _operands(conv: nn.Conv2d, x: Tensor, slope: Tensor, n: int) -> tuple[Tensor, Tensor]:
    windows = nn.functional.unfold(x, conv.kernel_size, conv.dilation, padding(conv), conv.stride)
    inputs, slopes = (
        each.unflatten(0, (n, -1)).transpose(2, 3).flatten(1, 2) for each in (windows, slope.flatten(2))
    )
    return inputs, slopes


def _all(value: Tensor, trials: int) -> Tensor:
    """Repeat a bias, or a weight with the channels last, for each trial: [trials·out, …]."""
    if trials == 1 or value.dim() == 1:
        return value if trials == 1 else value.repeat(trials)
    return value.permute(0, 2, 3, 1).contiguous().repeat(trials, 1, 1, 1).permute(0, 3, 1, 2)


def _forward(conv: nn.Conv2d, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    weight = narrow.once(conv, "weight", trials, lambda: _all(conv.weight, trials))
    bias = None if conv.bias is None else _all(conv.bias, trials)
    return _convolved(conv, x, weight, bias, trials), (x, weight)


def _backward(conv: nn.Conv2d, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    x, weight = kept
    trials = weight.shape[0] // conv.out_channels
    if len(slope) * trials > 1 and narrow.turns(conv, read, slope.shape):
        return narrow.transposed(conv, slope, turned_once(conv, weight, trials), read, trials)
    return _transposed(conv, slope, x, weight, trials)


def turned_once(conv: nn.Conv2d, weight: Tensor, trials: int) -> Tensor:
    return narrow.once(conv, "turned", trials, lambda: narrow.turned(conv, weight, trials))


def _weights(conv: nn.Conv2d, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    x, weight = kept
    if trials == 1 and unfolded.pays(conv, x):
        found = unfolded.weight_gradient(conv, slope, x)[None]
    else:
        found = derivatives(conv, slope, x, weight, trials, (False, True))[1]
        found = found.view(trials, -1, *found.shape[1:])
    if conv.bias is None:
        return {"weight": found}
    return {"weight": found, "bias": slope.sum((0, 2, 3)).view(trials, -1)}


def _rate(
    conv: nn.Conv2d, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors, trials: int
) -> Tensor:
    x, weight = kept
    passed = None if rate is None else _convolved(conv, rate, weight, None, trials)
    if not own:
        assert passed is not None
        return passed
    bias = own["bias"].flatten() if "bias" in own else None
    found = _convolved(conv, x, own["weight"].flatten(0, 1), bias, trials)
    return found if passed is None else found.add_(passed)


def _back(
    conv: nn.Conv2d, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor | None,
    own: Tensors
) -> Tensor:  # fmt: skip
    moving, trials = own["weight"].flatten(0, 1), own["weight"].shape[0]
    if narrow.turns(conv, read, slope.shape, NARROWEST):
        found = narrow.transposed(conv, slope, narrow.turned(conv, moving, trials), read, trials)
    else:
        found = _transposed(conv, slope, kept[0], moving, trials)
    return found if rate is None else found.add_(_backward(conv, kept, read, rate))


def _known(conv: nn.Conv2d) -> bool:
    """Return whether a convolution reads zero-padded images, and all channels in each window."""
    return conv.groups == 1 and conv.padding_mode == "zeros" and not isinstance(conv.padding, str)


CONVOLUTION = LayerRule(_gradients, _operands, Link(_forward, _backward, _rate, _back, _weights), _known)
