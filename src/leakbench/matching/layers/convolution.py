"""Convolutions: the weight gradient of each trial, as a convolution or as a product of unfolded images.

In a chain, whose convolutions are small, all is unfolded: activations and their slopes are [n, …] for all
trials' images, weights' rates [trials, *shape].
"""

from typing import Any

import torch
from torch import Tensor, nn

from leakbench.matching.fixed_convolution import transposed
from leakbench.matching.layers.rule import Kept, Link, Rule
from leakbench.matching.windows import FEW, fold, places, unfold
from leakbench.tensors import Tensors

# Above this many multiply-adds per trial one convolution after another beats unfolding the images of all.
FUSED_BELOW = 4_000_000
# Fewer outputs than a vector register holds: then the places are better the columns of a product.
NARROW = 16


class _ConvWeightGradient(torch.autograd.Function):
    """The weight gradient of one convolution; its own derivative is two more convolutions and no unfolded
    image."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, delta: Tensor, conv: nn.Conv2d) -> Tensor:
        ctx.save_for_backward(x, delta)
        ctx.conv = conv
        return _derivatives(delta, x, conv.weight, conv, (False, True))[1]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (v,) = cotangents
        x, delta = ctx.saved_tensors
        conv = ctx.conv
        wanted = ctx.needs_input_grad
        to_x = _derivatives(delta, x, v, conv, (True, False))[0] if wanted[0] else None
        to_delta = (
            nn.functional.conv2d(x, v, None, conv.stride, conv.padding, conv.dilation) if wanted[1] else None
        )
        return to_x, to_delta, None


def _derivatives(
    delta: Tensor, x: Tensor, weight: Tensor, conv: nn.Conv2d, mask: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    found = torch.ops.aten.convolution_backward(
        delta, x, weight, None, conv.stride, conv.padding, conv.dilation, False, [0, 0], 1, [*mask, False]
    )
    return found[0], found[1]


class _UnfoldedWeightGradient(torch.autograd.Function):
    """The weight gradients of many small convolutions, as products of unfolded images, and their derivative
    once.

    Images are unfolded with the channels last, where each row of a kernel's window is one run of memory.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, delta: Tensor, conv: nn.Conv2d, trials: int) -> Tensor:
        columns, rows = _operands(conv, x, delta, trials)
        ctx.save_for_backward(columns, rows)
        ctx.conv, ctx.read = conv, x.shape
        ctx.returned = delta.shape
        out, channels, *window = conv.weight.shape
        return (rows.mT @ columns).view(trials, out, *window, channels).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (v,) = cotangents
        columns, rows = ctx.saved_tensors
        conv, batch = ctx.conv, ctx.read[0] // len(v)
        last = v.permute(0, 1, 3, 4, 2).flatten(2)
        to_x = to_delta = None
        if ctx.needs_input_grad[0]:
            to_x = fold((rows @ last).view(len(v) * batch, -1, columns.shape[2]), ctx.read, conv)
        if ctx.needs_input_grad[1]:
            size = ctx.returned
            to_delta = (columns @ last.mT).view(size[0], *size[2:], size[1]).permute(0, 3, 1, 2)
        return to_x, to_delta, None, None


def conv_weight(conv: nn.Conv2d, x: Tensor, delta: Tensor, trials: int) -> Tensor:
    """Return [trials, *conv.weight.shape]: the gradient for each trial's share of the batch.

    `x` [trials·batch, channels, rows, columns] went into the convolution, `delta` is the loss's gradient at
    its output.
    """
    batch = len(x) // trials
    work = batch * conv.weight.numel() * delta[0, 0].numel()
    if trials == 1:
        return _ConvWeightGradient.apply(x, delta, conv)[None]
    if work > FUSED_BELOW:
        pairs = zip(x.split(batch), delta.split(batch), strict=True)
        return torch.stack([_ConvWeightGradient.apply(a, d, conv) for a, d in pairs])
    return _UnfoldedWeightGradient.apply(x, delta, conv, trials)


def _gradients(conv: nn.Conv2d, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    found = {"weight": conv_weight(conv, x, slope, trials)}
    if conv.bias is not None:
        found["bias"] = slope.unflatten(0, (trials, -1)).sum((1, 3, 4))
    return found


def _operands(conv: nn.Conv2d, x: Tensor, slope: Tensor, n: int) -> tuple[Tensor, Tensor]:
    inputs, outputs = conv.weight[0].numel(), len(conv.weight)
    return unfold(x, conv).reshape(n, -1, inputs), _rows(slope).reshape(n, -1, outputs)


def _rows(slope: Tensor) -> Tensor:
    """Return slopes at a convolution's outputs [n, out, rows, columns] by place: [n, places, out]."""
    return slope.permute(0, 2, 3, 1).flatten(1, 2)


def _by_window(weight: Tensor, n: int) -> Tensor:
    """Return weights [trials or not, out, channels, tall, wide] for each of n images, as `unfold` reads
    windows: [n, out, window]."""
    flat = weight.movedim(-3, -1).flatten(-3)
    if flat.dim() == 2:
        return flat.expand(n, -1, -1)
    return flat if len(flat) == n else flat.repeat_interleave(n // len(flat), 0)


def _convolved(columns: Tensor, weight: Tensor, bias: Tensor | None, size: tuple[int, int]) -> Tensor:
    """Return [n, out, *size] of windows [n, places, window] and weights [n, out, window], bias […, out]."""
    narrow = weight.shape[1] < NARROW
    found = weight @ columns.mT if narrow else (columns @ weight.mT).mT
    if bias is not None:
        found += bias[..., None]
    return found.unflatten(2, size)


def _forward(conv: nn.Conv2d, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    columns, size = unfold(x, conv), places(conv, *x.shape[2:])
    return _convolved(columns, _by_window(conv.weight, len(x)), conv.bias, size), (columns,)


def _chained(conv: nn.Conv2d, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    rows = _rows(slope)
    each = (rows.mT @ kept[0]).unflatten(0, (trials, -1)).sum(1)
    out, channels, *window = conv.weight.shape
    weight = each.view(trials, out, *window, channels).movedim(-1, 2)
    if conv.bias is None:
        return {"weight": weight}
    return {"weight": weight, "bias": rows.unflatten(0, (trials, -1)).sum((1, 2))}


def _rate(conv: nn.Conv2d, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    bias = own["bias"].repeat_interleave(read[0] // len(own["bias"]), 0) if "bias" in own else None
    found = _convolved(kept[0], _by_window(own["weight"], read[0]), bias, places(conv, *read[2:]))
    if rate is not None:
        found += nn.functional.conv2d(rate, conv.weight, None, conv.stride, conv.padding, conv.dilation)
    return found


def _back(
    conv: nn.Conv2d, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    rates, slopes = _rows(rate), _rows(slope)
    fixed, moving = (_by_window(weight, read[0]) for weight in (conv.weight, own["weight"]))
    if read[1] < FEW:
        taps = (fixed.mT @ rates.mT).baddbmm_(moving.mT, slopes.mT)
        return fold(taps.mT, read, conv)
    return fold((rates @ fixed).baddbmm_(slopes, moving), read, conv)


def _unfoldable(conv: nn.Conv2d) -> bool:
    """Return whether a convolution reads windows of zero-padded images, all channels in each."""
    return conv.groups == 1 and conv.padding_mode == "zeros" and not isinstance(conv.padding, str)


CONVOLUTION = Rule(
    _gradients,
    _operands,
    Link(
        _forward,
        lambda conv, kept, read, slope: transposed(slope, conv.weight, conv, read),
        _rate,
        _back,
        _chained,
    ),
    _unfoldable,
)
