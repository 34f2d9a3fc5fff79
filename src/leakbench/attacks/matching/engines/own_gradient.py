"""The weight gradients of one layer, for trials whose samples lie behind each other in a batch.

Let x be what the layer read, S the slope of the loss at what it returned, g the gradient of its weights and o
the observed one. An attack needs g's inner products with o and itself, and what the layer does with the
weights V = along · o + across · g, the derivative of a distance: V x is the rate of what the layer returns,
and Vᵀ S that of the slope at what it read.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from leakbench.attacks.matching.distances import laid_out, products
from leakbench.attacks.matching.engines.chain import Step
from leakbench.attacks.matching.engines.layers.rule import Kept
from leakbench.base.tensors import Tensors, over


def _batch(shape: torch.Size) -> int:
    """Return the axis of the samples: the first, or behind a flattening the second."""
    return 0 if len(shape) == 4 else 1


class OwnGradient:
    """The gradients of a layer's own parameters, trial by trial.

    kept: what the layer kept in the forward pass, first what it read.
    slope: the slope of the losses at what the layer returned.
    observed: name of a parameter → the observed gradient, [trials, *shape], laid out as the layer's own.
    """

    lay = staticmethod(laid_out)

    def __init__(self, step: Step, kept: Kept, slope: Tensor, observed: Tensors) -> None:
        self.layer, self.link, self.observed = step.layer, step.link, observed
        self.trials = len(next(iter(observed.values())))
        self.reads, self.slopes = (each.chunk(self.trials, _batch(each.shape)) for each in (kept[0], slope))
        self.kept = [(read, *kept[1:]) for read in self.reads]
        self.gradients = [
            self.link.gradients(self.layer, *each, 1) for each in zip(self.kept, self.slopes, strict=True)
        ]
        self.moving: list[Tensors] = [{} for _ in range(self.trials)]

    def _stacked(self, name: str) -> Tensor:
        return torch.cat([own[name] for own in self.gradients])

    def products(self, of: Sequence[str]) -> dict[str, Tensors]:
        """Return name of a parameter → name of a product in `of` (`matching.terms.Distance`) → [trials]."""
        return {n: products(of, {n: self._stacked(n)}, {n: o}) for n, o in self.observed.items()}

    def move(self, along: Tensors, across: Tensors) -> None:
        """Set V of each parameter by its two factors, name → [trials]."""
        for name, o in self.observed.items():
            first, second = (over(each[name], o) for each in (along, across))
            values = (o * first).addcmul_(self._stacked(name), second)
            for moving, value in zip(self.moving, values, strict=True):
                moving[name] = value[None]

    def rate(self) -> Tensor:
        """Return V x, in the shape of what the layer returned."""
        found = [
            self.link.rate(self.layer, kept, read.shape, None, own, 1)
            for kept, read, own in zip(self.kept, self.reads, self.moving, strict=True)
        ]
        return torch.cat(found, _batch(found[0].shape))

    def back(self) -> Tensor:
        """Return Vᵀ S, in the shape of what the layer read."""
        each = zip(self.kept, self.reads, self.slopes, self.moving, strict=True)
        found = [
            self.link.back(self.layer, kept, read.shape, slope, None, None, own)
            for kept, read, slope, own in each
        ]
        return torch.cat(found, _batch(found[0].shape))
