"""The weight gradients of one layer for all trials, as products of three or four matrices at a time.

`own_gradient` goes trial by trial. A GPU would wait for each small step to be launched, so here each step is
one operation for all trials, on copies of the windows that a convolution reads. Names are as there.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import fold, pad

from leakbench.attacks.matching.distances import factors, inner
from leakbench.attacks.matching.engines.chain import Step
from leakbench.attacks.matching.engines.fixed_convolution import FixedConv2d, padding
from leakbench.attacks.matching.engines.layers.rule import Kept
from leakbench.base.tensors import Tensors, over

# The types of layers whose products are known here.
PRODUCTS = (nn.Conv2d, FixedConv2d, nn.Linear, nn.BatchNorm2d)


def windows(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the windows of images that a convolution reads, [n, in·taps, places]."""
    (down, across), (height, width), (s, t) = padding(conv), conv.kernel_size, conv.stride
    padded = pad(x, (across, across, down, down)) if down or across else x
    seen = padded.unfold(2, height, s).unfold(3, width, t)
    return seen.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, math.prod(seen.shape[2:4]))


class OwnProducts:
    """The gradients of a layer's own parameters, for all trials at once; arguments are those of
    `OwnGradient`.

    The layer is of a type in `PRODUCTS`. Inputs and slopes of a convolution or a dense layer are matrices
    [trials, parts, inputs, places] and [trials, parts, outputs, places], with a part for each image of a
    convolution. A batch norm multiplies number by number, [trials, batch, channels, rows, columns].
    """

    lay = staticmethod(Tensor.contiguous)

    def __init__(self, step: Step, kept: Kept, slope: Tensor, observed: Tensors) -> None:
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
        found = {}
        for name, o in self.observed.items():
            both = factors(of, self.gradients[name], o)
            found[name] = {kind: inner(*both[kind]) for kind in of}
        return found

    def move(self, along: Tensors, across: Tensors) -> None:
        for name, o in self.observed.items():
            first, second = (over(each[name], o) for each in (along, across))
            self.moving[name] = (o * first).addcmul_(self.gradients[name], second)

    def _v(self) -> Tensor:
        """Return V of the weights: a matrix [trials, 1, outputs, inputs], or [trials, 1, channels, 1, 1]."""
        v = self.moving["weight"]
        return v[:, None, :, None, None] if self._elementwise else v.flatten(2)[:, None]

    def rate(self) -> Tensor:
        found = self.inputs * self._v() if self._elementwise else self._v() @ self.inputs
        if "bias" in self.moving:
            shape = [self.trials, 1, -1, *[1] * (found.dim() - 3)]
            found += self.moving["bias"].view(shape)
        return self._returned(found, self.slope.shape)

    def back(self) -> Tensor:
        if self._elementwise:
            return (self.slopes * (self._v() * self.scale)).flatten(0, 1)
        found = self._v().mT @ self.slopes
        if isinstance(self.layer, nn.Conv2d):
            conv, pixels = self.layer, self.read[2:]
            return fold(found.flatten(0, 1), pixels, conv.kernel_size, 1, padding(conv), conv.stride)
        return self._returned(found, self.read)

    def _returned(self, found: Tensor, shape: torch.Size) -> Tensor:
        return (found.mT if isinstance(self.layer, nn.Linear) else found).reshape(shape)
