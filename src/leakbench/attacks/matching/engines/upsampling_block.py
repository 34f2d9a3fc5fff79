"""GRNN's upsampling block for many generators at once: nearest ×2, a 3×3 convolution, batch norm and GLU.

Images are [trials, n, rows, columns, channels]: each trial has weights of its own, and the channels of a
pixel lie next to each other. Derivatives are written out: autograd's own take four times as many small steps.
"""

from typing import Any

import torch
from torch import Tensor

from leakbench.attacks.matching.engines.products import product

_EPS = 1e-5
# With fewer channels than a vector register holds, it is faster if the places are the last axis in memory.
NARROW = 16


def _spread(taps: Tensor) -> Tensor:
    """Add up the products with the three taps of a line, as a convolution behind nearest ×2 does."""
    before, here, after = taps.unbind(2)
    both = taps.new_empty(*taps.shape[:2], 2, *taps.shape[3:])
    torch.add(here, after, out=both[:, :, 0])
    torch.add(before, here, out=both[:, :, 1])
    both[:, 1:, 0].add_(before[:, :-1])
    both[:, :-1, 1].add_(after[:, 1:])
    return both


def _gathered(both: Tensor) -> Tensor:
    """Apply the adjoint of `_spread`: [many, places, 2, …] → [many, places, 3, …]."""
    first, second = both.unbind(2)
    taps = both.new_empty(*both.shape[:2], 3, *both.shape[3:])
    taps[:, :, 0], taps[:, :, 2] = second, first
    torch.add(first, second, out=taps[:, :, 1])
    taps[:, :-1, 0].add_(first[:, 1:])
    taps[:, 1:, 2].add_(second[:, :-1])
    return taps


class _UpsampledConvolution(torch.autograd.Function):
    """Nearest ×2 and a 3×3 convolution on the small image: 9 products a pixel, where the large one has 36."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        trials, n, rows, columns, _ = x.shape
        out = weight.shape[-1]
        products = product(x.flatten(1, 3), weight.flatten(2))
        lines = _spread(products.view(-1, rows, columns, 3, 3 * out).transpose(2, 3))
        return _spread(lines.view(-1, columns, 3, out)).view(trials, n, 2 * rows, 2 * columns, out)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor]:
        (slope,) = cotangents
        x, weight = ctx.saved_tensors
        trials, _, rows, columns, _ = x.shape
        out = weight.shape[-1]
        lines = _gathered(slope.reshape(-1, columns, 2, out))
        taps = _gathered(lines.view(-1, rows, 2, columns, 3 * out)).transpose(2, 3)
        products = taps.reshape(trials, -1, 9 * out)
        to_x = product(products, weight.flatten(2).mT)
        to_weight = product(x.flatten(1, 3).mT, products)
        return to_x.view_as(x), to_weight.view_as(weight)


def upsampled_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """Return nearest ×2, then a 3×3 convolution with padding 1, where each trial has its own weight."""
    return _UpsampledConvolution.apply(x, weight)


class _NormalisedGate(torch.autograd.Function):
    """Batch norm over the axis `places` of x [trials, a, b], where scale and shift have size 1, then GLU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, places: int) -> Tensor:
        normed = x - x.mean(places, keepdim=True)
        deviation = normed.square().mean(places, keepdim=True).add_(_EPS).rsqrt_()
        normed *= deviation
        gated = torch.addcmul(shift, normed, scale)
        ctx.save_for_backward(normed, deviation, scale, gated)
        ctx.places = places
        return torch.nn.functional.glu(gated, 3 - places)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        (slope,) = cotangents
        normed, deviation, scale, gated = ctx.saved_tensors
        g = torch.ops.aten.glu_backward(slope, gated, 3 - ctx.places)
        to_shift = g.sum(ctx.places, keepdim=True)
        to_scale = (g * normed).sum(ctx.places, keepdim=True)
        places = gated.shape[ctx.places]
        g -= to_shift / places
        g.addcmul_(normed, to_scale, value=-1 / places)
        g *= deviation * scale
        return g, to_scale, to_shift, None


def normalised_gate(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return batch norm in training mode, over each trial's own images, then GLU over the channels."""
    flat, size = x.flatten(1, 3), (*x.shape[:-1], x.shape[-1] // 2)
    if x.shape[-1] < NARROW:
        found = _NormalisedGate.apply(flat.mT.contiguous(), scale[:, :, None], shift[:, :, None], 2)
        return found.mT.unflatten(1, size[1:-1])
    found = _NormalisedGate.apply(flat, scale[:, None], shift[:, None], 1)
    return found.view(size)
