"""The weight gradients of one layer for all trials, whose samples lie behind each other in a batch.

Let x be what the layer read, S the slope of the loss at what it returned, g the gradient of its weights and o
the observed one. An attack needs g's inner products with o and itself, and what the layer does with the
weights V = along · o + across · g, the derivative of a distance: V x is the rate of what the layer returns,
and Vᵀ S that of the slope at what it read. Each is one operation for all trials, because a GPU would wait for
each small step to be launched.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, fold, pad

from leakbench.attacks.matching.distances import factors, inner, laid_out
from leakbench.attacks.matching.engines.chain import Hop, as_channels
from leakbench.attacks.matching.engines.layers import narrow
from leakbench.attacks.matching.engines.layers.convolution import derivatives, turned_once, weight_gradients
from leakbench.attacks.matching.engines.layers.dense import outer
from leakbench.attacks.matching.engines.layers.narrow import NARROW, NARROWEST, padding
from leakbench.attacks.matching.engines.layers.rule import Kept
from leakbench.base.tensors import Tensors, over


class OwnProducts:
    """The gradients of a layer's own parameters.

    kept: what the layer kept in the forward pass, first what it read.
    slope: the slope of the losses at what the layer returned.
    observed: name of a parameter → the observed gradient (`seen`).
    of: the products that are asked (`matching.terms.Distance`).
    """

    def __init__(self, step: Hop, kept: Kept, slope: Tensor, observed: Tensors, of: tuple[str, ...]) -> None:
        self.of, self.step, self.kept = of, step, kept
        self.layer: Any = step.layer
        self.slope, self.observed = slope, observed
        self.read, self.trials = kept[0].shape, len(next(iter(observed.values())))
        self.moving: Tensors = {}
        self.gradients = self._gradients()

    def _gradients(self) -> Tensors:
        """Return the gradients that are written down, name → [trials, *shape]."""
        raise NotImplementedError

    def products(self) -> dict[str, Tensors]:
        """Return name of a parameter → name of a product in `of` → [trials]."""
        found = {}
        for name, g in self.gradients.items():
            both = factors(self.of, g, self.observed[name][:, : g.shape[1]])
            found[name] = {kind: inner(*both[kind]) for kind in self.of}
        return found

    def move(self, along: Tensors, across: Tensors) -> None:
        """Set V of each parameter by its two factors, name → [trials]."""
        for name, g in self.gradients.items():
            o, first, second = self.observed[name], *(over(each[name], g) for each in (along, across))
            if self.of == ("gap",):
                # The difference itself loses less to rounding than the sum of two multiples.
                v = o.neg()
                v[:, : g.shape[1]].add_(g)
                v *= second
            else:
                v = o * first
                v[:, : g.shape[1]].addcmul_(g, second)
            self.moving[name] = v

    def rate(self) -> Tensor:
        """Return V x, in the shape of what the layer returned."""
        raise NotImplementedError

    def back(self, rate: Tensor) -> Tensor:
        """Return Vᵀ S + Wᵀ rate, in the shape of what the layer read."""
        return self._back().add_(self.step.link.backward(self.layer, self.kept, self.read, rate))

    def _back(self) -> Tensor:
        raise NotImplementedError

    def _by_trial(self, value: Tensor) -> Tensor:
        return value.view(self.trials, -1, *value.shape[1:])


class _Scales(OwnProducts):
    """A batch norm, which multiplies number by number: [trials, batch, channels, rows, columns]."""

    def _gradients(self) -> Tensors:
        x, self.scale, _, mean = self.kept
        self.inputs, self.slopes = self._by_trial((x - mean) * self.scale), self._by_trial(self.slope)
        return {"weight": (self.slopes * self.inputs).sum((1, 3, 4)), "bias": self.slopes.sum((1, 3, 4))}

    def rate(self) -> Tensor:
        weight, bias = (self.moving[name][:, None, :, None, None] for name in ("weight", "bias"))
        return (self.inputs * weight).add_(bias).flatten(0, 1)

    def _back(self) -> Tensor:
        return (self.slopes * (self.moving["weight"][:, None, :, None, None] * self.scale)).flatten(0, 1)


def _windows(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the windows of images that a convolution reads, [n, in·taps, places]."""
    (down, across), (height, width), (s, t) = padding(conv), conv.kernel_size, conv.stride
    padded = pad(x, (across, across, down, down)) if down or across else x
    seen = padded.unfold(2, height, s).unfold(3, width, t)
    return seen.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, math.prod(seen.shape[2:4]))


class _Windows(OwnProducts):
    """A convolution as products with copies of the windows that it reads.

    Inputs and slopes are [trials, batch, inputs, places] and [trials, batch, outputs, places].
    """

    def _gradients(self) -> Tensors:
        self.inputs = self._by_trial(_windows(self.layer, self.kept[0]))
        self.slopes = self._by_trial(self.slope.flatten(2))
        weight = (self.slopes @ self.inputs.mT).sum(1).view_as(self.observed["weight"])
        return {"weight": weight} | ({"bias": self.slopes.sum((1, 3))} if "bias" in self.observed else {})

    def rate(self) -> Tensor:
        found = self.moving["weight"].flatten(2)[:, None] @ self.inputs
        if "bias" in self.moving:
            found += self.moving["bias"][:, None, :, None]
        return found.reshape(self.slope.shape)

    def _back(self) -> Tensor:
        conv, found = self.layer, self.moving["weight"].flatten(2)[:, None].mT @ self.slopes
        return fold(found.flatten(0, 1), self.read[2:], conv.kernel_size, 1, padding(conv), conv.stride)


class _Groups(OwnProducts):
    """A convolution of few channels, with a group of channels for each trial.

    What a group returns is padded to the numbers that a register holds, which takes half of the time.
    """

    def _beside(self, value: Tensor, channels: int) -> Tensor:
        """Lay the images of all trials next to each other as channels, with zeros up to so many channels."""
        _, count, rows, columns = value.shape
        if count == channels < NARROWEST:
            return as_channels(self._by_trial(value))
        found = (
            value.permute(0, 2, 3, 1).reshape(self.trials, -1, rows, columns, count).permute(1, 2, 3, 0, 4)
        )
        found = pad(found, (0, channels - count)) if channels > count else found.contiguous()
        return found.flatten(3).permute(0, 3, 1, 2)

    def _apart(self, value: Tensor, shape: torch.Size) -> Tensor:
        """Undo `_beside`: return images of this shape."""
        (n, _, rows, columns), trials = value.shape, self.trials
        each = value.permute(0, 2, 3, 1).view(n, rows, columns, trials, -1).narrow(4, 0, shape[1])
        found = each.permute(3, 0, 1, 2, 4).contiguous().view(n * trials, rows, columns, -1)
        return found.permute(0, 3, 1, 2)

    def _gradients(self) -> Tensors:
        conv = self.layer
        self.x, self.s = (self._beside(each, each.shape[1]) for each in (self.kept[0], self.slope))
        told = {"weight": self._by_trial(weight_gradients(conv, self.x, self.s, self.trials))}
        if "bias" in self.observed:
            told["bias"] = self._by_trial(self.slope).sum((1, 3, 4))
        return told

    def rate(self) -> Tensor:
        conv, own = self.layer, {name: wide.flatten(0, 1) for name, wide in self.moving.items()}
        found = conv2d(self.x, own["weight"], own.get("bias"), conv.stride, conv.padding, 1, self.trials)
        return self._apart(found, self.slope.shape)

    def back(self, rate: Tensor) -> Tensor:
        conv = self.layer
        if not narrow.turns(conv, self.read, self.slope.shape, NARROWEST):
            return super().back(rate)
        own = narrow.turned(conv, self.moving["weight"][:, : conv.out_channels].flatten(0, 1), self.trials)
        found = conv2d(self.s, own, None, 1, narrow.margins(conv), 1, self.trials)
        shared = conv2d(rate, turned_once(conv, self.kept[1], 1), None, 1, narrow.margins(conv))
        return narrow.placed(conv, self._apart(found, shared.shape).add_(shared), self.read, 1)

    def _back(self) -> Tensor:
        conv, wide = self.layer, self.moving["weight"]
        slope = self._beside(self.slope, wide.shape[1])
        found = derivatives(conv, slope, self.x, wide.flatten(0, 1), self.trials, (True, False))[0]
        return self._apart(found, self.read)


class _Matrices(OwnProducts):
    """A dense layer. Inputs and slopes are [trials, places, inputs] and [trials, places, outputs]."""

    def _gradients(self) -> Tensors:
        self.inputs, self.slopes = (
            each.reshape(self.trials, -1, each.shape[-1]) for each in (self.kept[0], self.slope)
        )
        return self._weight() | ({"bias": self.slopes.sum(1)} if "bias" in self.observed else {})

    def _weight(self) -> Tensors:
        return {"weight": outer(self.slopes, self.inputs)}

    def _rate(self) -> Tensor:
        return self.inputs @ self.moving["weight"].mT

    def rate(self) -> Tensor:
        found = self._rate()
        if "bias" in self.moving:
            found += self.moving["bias"][:, None]
        return found.reshape(self.slope.shape)

    def _back(self) -> Tensor:
        return (self.slopes @ self.moving["weight"]).reshape(self.read)


class _Factors(_Matrices):
    """A dense layer whose gradient g = Sᵀ X has more numbers than its factors, and is never written down.

    All that is asked follows from X oᵀ, X Xᵀ and S Sᵀ.
    """

    def _weight(self) -> Tensors:
        self.matched = self.inputs @ self.observed["weight"].mT
        self.squares = self.inputs @ self.inputs.mT, self.slopes @ self.slopes.mT
        return {}

    def products(self) -> dict[str, Tensors]:
        known = {"dot": inner(self.matched, self.slopes), "mine": inner(*self.squares)}
        return super().products() | {"weight": {kind: known[kind] for kind in self.of}}

    def move(self, along: Tensors, across: Tensors) -> None:
        super().move(along, across)
        self.along, self.across = (each["weight"][:, None, None] for each in (along, across))

    def _rate(self) -> Tensor:
        return (self.matched * self.along).addcmul_(self.squares[0] @ self.slopes, self.across)

    def _back(self) -> Tensor:
        found = (self.slopes @ self.observed["weight"]).mul_(self.along)
        return found.addcmul_(self.squares[1] @ self.inputs, self.across).reshape(self.read)


def in_groups(layer: nn.Module) -> bool:
    """Return whether a layer is a convolution of few channels on a processor."""
    if not isinstance(layer, nn.Conv2d) or layer.weight.device.type != "cpu":
        return False
    return max(layer.in_channels, layer.out_channels) <= NARROW


def seen(layer: nn.Module, observed: Tensor) -> Tensor:
    """Return a layer's observed gradient [trials, *shape] as its products need it."""
    if not in_groups(layer):
        return observed.contiguous()
    missing = observed.new_zeros(len(observed), max(0, NARROW - observed.shape[1]), *observed.shape[2:])
    return laid_out(torch.cat([observed, missing], 1))


def own_products(step: Hop, kept: Kept, slope: Tensor, observed: Tensors, of: tuple[str, ...]) -> OwnProducts:
    """Return the gradients of a layer's own parameters, in the form that suits the layer."""
    layer = step.layer
    kind: type[OwnProducts] = _Matrices
    if isinstance(layer, nn.BatchNorm2d):
        kind = _Scales
    elif isinstance(layer, nn.Conv2d):
        kind = _Groups if in_groups(layer) else _Windows
    elif isinstance(layer, nn.Linear) and "gap" not in of:
        # A gap would be the small difference of large products.
        places = slope.numel() // (len(next(iter(observed.values()))) * layer.out_features)
        few = places * (layer.in_features + layer.out_features) < layer.weight.numel()
        kind = _Factors if few else _Matrices
    return kind(step, kept, slope, observed, of)


# The types of layers whose products are known here.
PRODUCTS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
