"""Gradients with respect to weights, one for each trial of a batch, and differentiable once more."""

from typing import Any

import torch
from torch import Tensor, nn

# Above this many multiply-adds per trial one convolution after another beats unfolding the images of all.
FUSED_BELOW = 4_000_000


class _ConvWeightGradient(torch.autograd.Function):
    """The weight gradient of one convolution; its own derivative is two more convolutions and no unfolded image."""

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


def conv_weight(conv: nn.Conv2d, x: Tensor, delta: Tensor, trials: int) -> Tensor:
    """Return [trials, *conv.weight.shape]: the gradient for each trial's share of the batch.

    `x` [trials·batch, channels, rows, columns] went into the convolution, `delta` is the loss's gradient at its output.
    """
    batch = len(x) // trials
    work = batch * conv.weight.numel() * delta[0, 0].numel()
    if trials == 1:
        return _ConvWeightGradient.apply(x, delta, conv)[None]
    if work > FUSED_BELOW:
        pairs = zip(x.split(batch), delta.split(batch), strict=True)
        return torch.stack([_ConvWeightGradient.apply(a, d, conv) for a, d in pairs])
    assert not isinstance(conv.padding, str)
    columns = nn.functional.unfold(x, conv.kernel_size, conv.dilation, conv.padding, conv.stride)
    each = delta.flatten(2) @ columns.mT
    return each.unflatten(0, (trials, batch)).sum(1).unflatten(2, conv.weight.shape[1:])
