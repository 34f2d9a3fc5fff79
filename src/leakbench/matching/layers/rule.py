"""What the engines know of a type of layer."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.tensors import Tensors

Kept = Sequence[Tensor]


class Link(NamedTuple):
    """What a layer does in each of the four passes of a chain; `read` is the shape of what it read, `kept`
    what `forward` keeps.

    forward(layer, x, trials) → what it returns, kept. backward(layer, kept, read, slope) → the loss's slope
    at what it read. rate(layer, kept, read, rate, own, trials) → the rate of what it returns, of that of what
    it reads (None: it does not move) and of those of its own parameters, [trials, *shape]. back(layer, kept,
    read, slope, moved, rate, own) → the rate of `backward`, of that of `slope`; `moved` is the rate of what
    it read. gradients(layer, kept, slope, trials) → parameter → [trials, *shape]. kinked: whether it is
    linear but for kinks, so that `rate` is what it does with the pattern it has kept.
    """

    forward: Callable[..., tuple[Tensor, Kept]]
    backward: Callable[..., Tensor]
    rate: Callable[..., Tensor]
    back: Callable[..., Tensor]
    gradients: Callable[..., Tensors] = lambda *_: {}
    kinked: bool = False


def by_autograd(layer: nn.Module, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    """Return a layer's gradients [trials, *shape] by its own derivative, trial by trial.

    torch.func would take all trials at once, but what it gives of layer, instance and batch norm has a wrong
    derivative in x.
    """
    found = []
    again = torch.is_grad_enabled()
    for one, each in zip(*(value.unflatten(0, (trials, -1)) for value in (x, slope)), strict=True):
        own = {n: p.detach().requires_grad_() for n, p in layer.named_parameters(recurse=False)}
        with torch.enable_grad():
            returned = functional_call(layer, own, (one,))
        found.append(torch.autograd.grad(returned, list(own.values()), each, create_graph=again))
    return {name: torch.stack(values) for name, values in zip(own, zip(*found, strict=True), strict=True)}


class Rule(NamedTuple):
    """A layer whose output is linear in its weights, so that their gradients do not depend on these.

    gradients(layer, x, slope, trials, normed) → parameter → [trials, *shape], differentiable in x and slope:
    what it read and the loss's slope at what it returned, [trials·batch, …]; `normed`: a norm's input,
    normalised, if it kept it. operands(layer, x, slope, n) → what makes the weight gradient of each of n
    parts as a product, [n, places, inputs] and [n, places, outputs]; none: it is no product. link: what the
    layer does in a chain; none: it breaks it. fits(layer): whether all this holds for the layer as it is set.
    """

    gradients: Callable[..., Tensors] = by_autograd
    operands: Callable[..., tuple[Tensor, Tensor]] | None = None
    link: Link | None = None
    fits: Callable[..., bool] = lambda layer: True
