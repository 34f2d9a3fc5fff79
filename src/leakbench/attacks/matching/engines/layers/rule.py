"""What the engines know of a type of layer: its `LayerRule`, and its `Link` in a chain."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.base.tensors import Tensors

Kept = Sequence[Tensor]


class Link(NamedTuple):
    """What a layer does in each of the four passes of a chain (`engines.chain` says what slopes and rates
    are).

    For y = W x the passes compute W x, Wᵀ slope, own x + W rate, and ownᵀ slope + Wᵀ rate, where own is the
    rate of W. In all of them `kept` is what `forward` kept, `read` the shape of what the layer read, `slope`
    the slope at what it returned, and `own` the rates of its own parameters, name → [trials, *shape].

    forward: (layer, x, trials) → what the layer returns, and a sequence of tensors that it keeps.
    backward: (layer, kept, read, slope) → the slope at what the layer read.
    rate: (layer, kept, read, rate, own, trials) → the rate of what the layer returns. `rate` is that of what
    it read, or None if that does not move.
    back: (layer, kept, read, slope, moved, rate, own) → the rate of what `backward` returns. `moved` is the
    rate of what the layer read, or None; `rate` is the rate of `slope`.
    gradients: (layer, kept, slope, trials) → name of a parameter → gradient [trials, *shape].
    kinked: whether the layer is linear except for kinks, as a ReLU or a max-pool is. With the pattern that it
    kept, `rate` is then also the layer itself.
    """

    forward: Callable[..., tuple[Tensor, Kept]]
    backward: Callable[..., Tensor]
    rate: Callable[..., Tensor]
    back: Callable[..., Tensor]
    gradients: Callable[..., Tensors] = lambda *_: {}
    kinked: bool = False


def by_autograd(layer: nn.Module, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    """Return a layer's weight gradients by torch's own derivative of the layer, trial by trial."""
    # The derivative in x of torch.func's weight gradients is wrong for layer, instance and batch norm.
    found = []
    again = torch.is_grad_enabled()
    for one, each in zip(*(value.unflatten(0, (trials, -1)) for value in (x, slope)), strict=True):
        own = {n: p.detach().requires_grad_() for n, p in layer.named_parameters(recurse=False)}
        with torch.enable_grad():
            returned = functional_call(layer, own, (one,))
        found.append(torch.autograd.grad(returned, list(own.values()), each, create_graph=again))
    return {name: torch.stack(values) for name, values in zip(own, zip(*found, strict=True), strict=True)}


class LayerRule(NamedTuple):
    """What the engines know of a layer whose output is linear in its weights.

    The gradients of such weights do not depend on the weights. In all functions `x` is what the layer read
    and `slope` the slope of the loss at what it returned, both [trials·batch, …].

    gradients: (layer, x, slope, trials, normed) → name of a parameter → gradient [trials, *shape],
    differentiable in x and slope. `normed` is a norm's input, normalised, if the norm kept it.
    operands: (layer, x, slope, n) → the two factors of the weight gradient for each of n parts of the batch,
    [n, places, inputs] and [n, places, outputs]. None if it is no product of two matrices.
    link: what the layer does in each pass of a chain. None if a chain cannot contain the layer.
    fits: (layer) → whether the rule covers the settings of the layer.
    """

    gradients: Callable[..., Tensors] = by_autograd
    operands: Callable[..., tuple[Tensor, Tensor]] | None = None
    link: Link | None = None
    fits: Callable[..., bool] = lambda layer: True
