"""Gradients with respect to weights, one for each trial of a batch, and differentiable once more."""

from typing import Any

import torch
from torch import Tensor, nn

from leakbench.matching.windows import fold, unfold

# Above this many multiply-adds per trial one convolution after another beats unfolding the images of all.
FUSED_BELOW = 4_000_000


class _ConvWeightGradient(torch.autograd.Function):
    """The weight gradient of one convolution; its own derivative is two more convolutions and no unfolded
    image."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, delta: Tensor, conv: nn.Conv2d) -> Tensor:
        ctx.save_for_backward(x, delta)
        ctx.conv = conv
        return _backward(delta, x, conv.weight, conv, (False, True))[1]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (v,) = cotangents
        x, delta = ctx.saved_tensors
        conv = ctx.conv
        wanted = ctx.needs_input_grad
        to_x = _backward(delta, x, v, conv, (True, False))[0] if wanted[0] else None
        to_delta = (
            nn.functional.conv2d(x, v, None, conv.stride, conv.padding, conv.dilation) if wanted[1] else None
        )
        return to_x, to_delta, None


def _backward(
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
        columns = unfold(x, conv).reshape(trials, -1, conv.weight[0].numel())
        rows = delta.permute(0, 2, 3, 1).reshape(trials, -1, len(conv.weight))
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


def outer(delta: Tensor, x: Tensor) -> Tensor:
    """Return a dense layer's weight gradient [trials, out, in] of slopes [trials, batch, out] and inputs
    [trials, batch, in]."""
    # A product of one column by one row is three times slower than what it is: a multiplication.
    return delta.mT * x if x.shape[1] == 1 else delta.mT @ x
