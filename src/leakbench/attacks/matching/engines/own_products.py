"""The weight gradients of one layer for all trials, whose samples lie behind each other in a batch.

Let x be what the layer read, S the slope of the loss at what it returned, g the gradient of its weights and o
the observed one. An attack needs g's inner products with o and itself, and what the layer does with the
weights V = along · o + across · g, the derivative of a distance: V x is the rate of what the layer returns,
and Vᵀ S that of the slope at what it read. Each is one operation for all trials, on copies of the windows
that a convolution reads, because a GPU would wait for each small step to be launched.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import fold, pad

from leakbench.attacks.matching.distances import factors, inner
from leakbench.attacks.matching.engines.chain import Hop
from leakbench.attacks.matching.engines.layers.narrow import padding
from leakbench.attacks.matching.engines.layers.rule import Kept
from leakbench.base.tensors import Tensors, over

# The types of layers whose products are known here.
PRODUCTS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)


def windows(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the windows of images that a convolution reads, [n, in·taps, places]."""
    (down, across), (height, width), (s, t) = padding(conv), conv.kernel_size, conv.stride
    padded = pad(x, (across, across, down, down)) if down or across else x
    seen = padded.unfold(2, height, s).unfold(3, width, t)
    return seen.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, math.prod(seen.shape[2:4]))


class OwnProducts:
    """The gradients of a layer's own parameters, for a layer of a type in `PRODUCTS`.

    kept: what the layer kept in the forward pass, first what it read.
    slope: the slope of the losses at what the layer returned.
    observed: name of a parameter → the observed gradient, [trials, *shape].

    Inputs and slopes of a convolution or a dense layer are matrices [trials, parts, inputs, places] and
    [trials, parts, outputs, places], with a part for each image of a convolution. A batch norm multiplies
    number by number, [trials, batch, channels, rows, columns].
    """

    def __init__(self, step: Hop, kept: Kept, slope: Tensor, observed: Tensors) -> None:
        self.layer, self.observed, self.slope = step.layer, observed, slope
        self.read, self.trials = kept[0].shape, len(next(iter(observed.values())))
        if isinstance(self.layer, nn.Conv2d):
            x, s = windows(self.layer, kept[0]), slope.flatten(2)
            self.inputs, self.slopes = (each.unflatten(0, (self.trials, -1)) for each in (x, s))
        elif isinstance(self.layer, nn.Linear):
            matrices = (each.view(self.trials, -1, each.shape[-1]).mT for each in (kept[0], slope))
            self.inputs, self.slopes = (each.unsqueeze(1) for each in matrices)
        else:
            x, scale, _, mean = kept
            self.scale = scale
            self.inputs, self.slopes = (
                each.unflatten(0, (self.trials, -1)) for each in ((x - mean) * scale, slope)
            )
        self.gradients = self._gradients()
        self.moving: Tensors = {}

    @property
    def _elementwise(self) -> bool:
        return not isinstance(self.layer, nn.Conv2d | nn.Linear)

    def _gradients(self) -> Tensors:
        if self._elementwise:
            weight = (self.slopes * self.inputs).sum((1, 3, 4))
        else:
            weight = (self.slopes @ self.inputs.mT).sum(1)
        found = {"weight": weight.view_as(self.observed["weight"])}
        if "bias" in self.observed:
            found["bias"] = self.slopes.sum((1, *range(3, self.slopes.dim())))
        return found

    def products(self, of: Sequence[str]) -> dict[str, Tensors]:
        """Return name of a parameter → name of a product in `of` (`matching.terms.Distance`) → [trials]."""
        found = {}
        for name, o in self.observed.items():
            both = factors(of, self.gradients[name], o)
            found[name] = {kind: inner(*both[kind]) for kind in of}
        return found

    def move(self, along: Tensors, across: Tensors) -> None:
        """Set V of each parameter by its two factors, name → [trials]."""
        for name, o in self.observed.items():
            first, second = (over(each[name], o) for each in (along, across))
            self.moving[name] = (o * first).addcmul_(self.gradients[name], second)

    def _v(self) -> Tensor:
        """Return V of the weights: a matrix [trials, 1, outputs, inputs], or [trials, 1, channels, 1, 1]."""
        v = self.moving["weight"]
        return v[:, None, :, None, None] if self._elementwise else v.flatten(2)[:, None]

    def rate(self) -> Tensor:
        """Return V x, in the shape of what the layer returned."""
        found = self.inputs * self._v() if self._elementwise else self._v() @ self.inputs
        if "bias" in self.moving:
            shape = [self.trials, 1, -1, *[1] * (found.dim() - 3)]
            found += self.moving["bias"].view(shape)
        return self._returned(found, self.slope.shape)

    def back(self) -> Tensor:
        """Return Vᵀ S, in the shape of what the layer read."""
        if self._elementwise:
            return (self.slopes * (self._v() * self.scale)).flatten(0, 1)
        found = self._v().mT @ self.slopes
        if isinstance(self.layer, nn.Conv2d):
            conv, pixels = self.layer, self.read[2:]
            return fold(found.flatten(0, 1), pixels, conv.kernel_size, 1, padding(conv), conv.stride)
        return self._returned(found, self.read)

    def _returned(self, found: Tensor, shape: torch.Size) -> Tensor:
        return (found.mT if isinstance(self.layer, nn.Linear) else found).reshape(shape)
