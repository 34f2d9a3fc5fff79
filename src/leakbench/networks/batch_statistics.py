"""Normalisation by the mean and deviation of each trial's images, with its first two derivatives.

Batch norm in training mode does the same with one batch. Here many trials go through a network together and
yet do not affect each other.

Let x be the N numbers of one trial and channel. The normalised numbers are x̂ = s (x − mean), where s = 1 /
√(variance + ε). The derivative of x̂ in x is the linear map s P, where P u = u − mean(u) − x̂ mean(u x̂). The
map is its own transpose, so it is used in forward and backward passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from leakbench.networks.layers import RandomLayer


def _mean(each: Tensor) -> Tensor:
    return each.mean((1, 3, 4), keepdim=True)


def standardise(x: Tensor, trials: int, eps: float) -> tuple[Tensor, Tensor]:
    """Normalise x by the statistics of each trial."""
    each = x.unflatten(0, (trials, -1))
    apart = each - _mean(each)
    scale = (_mean(apart.square()) + eps).rsqrt()
    return (apart * scale).flatten(0, 1), scale


def pulled(u: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Apply the derivative of x̂ to u: return s P u, in the shape of x."""
    u, normed = (value.unflatten(0, (len(scale), -1)) for value in (u, normed))
    found = (u - _mean(u)).addcmul_(normed, _mean(u * normed), value=-1)
    return found.mul_(scale).flatten(0, 1)


def bent(u: Tensor, v: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Return the derivative of the inner product <v, s P u> in x, in the shape of x."""
    u, v, normed = (value.unflatten(0, (len(scale), -1)) for value in (u, v, normed))
    along_u, along_v = _mean(u * normed), _mean(v * normed)
    both = _mean(u * v) - _mean(u) * _mean(v) - along_u * along_v
    mixed = (v * along_u).addcmul_(u, along_v).flatten(0, 1)
    found = pulled(mixed, normed.flatten(0, 1), scale).unflatten(0, (len(scale), -1))
    return found.addcmul_(normed, both * scale).mul_(-scale).flatten(0, 1)


class _Standardise(torch.autograd.Function):
    """The normalised x̂ as a function that autograd can differentiate twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, trials: int, eps: float) -> Tensor:
        normed, scale = standardise(x, trials, eps)
        ctx.save_for_backward(x, normed.detach(), scale)
        return normed

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        return _Pull.apply(*cotangents, *ctx.saved_tensors), None, None


class _Pull(torch.autograd.Function):
    """The derivative of x̂ applied to u, which autograd can differentiate once more in u and x."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, x: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(u, normed, scale)
        return pulled(u, normed, scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (v,), (u, normed, scale) = cotangents, ctx.saved_tensors
        return pulled(v, normed, scale), bent(u, v, normed, scale), None, None


def standardised(x: Tensor, trials: int, eps: float) -> Tensor:
    """Return x̂ of x [trials·batch, channels, rows, columns], twice differentiable."""
    found: Tensor = _Standardise.apply(x, trials, eps)
    return found


class Norm(Protocol):
    """The attributes of a batch norm that the normalisation reads."""

    running_mean: Tensor | None
    running_var: Tensor | None
    eps: float


def normalised(norm: Norm, x: Tensor, trials: int) -> Tensor:
    """Return x as a batch norm normalises it, before scale and shift."""
    if norm.running_mean is None or norm.running_var is None:
        return standardised(x, trials, norm.eps)
    scale = (norm.running_var + norm.eps).rsqrt()
    return (x - norm.running_mean[:, None, None]) * scale[:, None, None]


class _ByTrial(nn.BatchNorm2d):
    """A batch norm that takes the images of each trial for a batch; `normed` is its last x̂."""

    trials: int
    normed: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.normed = standardised(x, self.trials, self.eps)
        if not self.affine:
            return self.normed
        return self.normed * self.weight[:, None, None] + self.bias[:, None, None]


@contextmanager
def by_trial(model: nn.Module, trials: int) -> Iterator[None]:
    """Let layers that draw or depend on the batch treat the images of each trial as a batch of its own."""
    drawing = [layer for layer in model.modules() if isinstance(layer, RandomLayer)]
    for layer in drawing:
        layer.trials = trials
    norms = [norm for norm in model.modules() if type(norm) is nn.BatchNorm2d and norm.running_mean is None]
    for norm in norms:
        norm.__class__ = _ByTrial
        norm.trials = trials  # type: ignore[assignment]
    try:
        yield
    finally:
        for layer in drawing:
            layer.trials = 1
        for norm in norms:
            norm.__class__ = nn.BatchNorm2d
            norm.__dict__.pop("normed", None)
