"""The derivative of a distance of gradients, by one difference of first derivatives.

Let v be the derivative of the distance at the gradient g(x) that dummy images x would cause. The derivative
of <v, g(x)> in x is the rate at which the loss's own derivative in x changes as the weights move along v. Two
derivatives of the loss in x estimate it: one at the weights w, one at weights moved along v.

Backpropagation treats a ReLU and a max-pool as linear around what they read. The second pass keeps the first
one's pattern of open ReLUs and chosen pixels (it is "frozen"): the derivative is then smooth in the weights,
and a difference of float32 numbers gives its rate to a few parts in a thousand. A layer costs five
convolutions instead of seven, and no graph of derivatives is built.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.distances import derivative, inner, laid_out
from leakbench.attacks.matching.engines.agreement import Engine
from leakbench.attacks.matching.engines.chain import apart, back, chain, entropy, forth
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.base.progress import log
from leakbench.base.tensors import Tensors

# The length of the first step along v, as a share of the norm of all weights. Shorter steps suffer from
# rounding, longer ones from curvature. The error is least where the step changes the derivative by the share
# AIM, a thousandth (measured on ResNet20-4, ResNet-18, ConvNet and LeNet). A step that changes it by less
# than LEAST or by more than MOST is taken once more, with a length that aims at AIM. The first step changes
# it by 0.0009 to 0.0014 in the median (ResNet-18, ResNet-20 and ResNet20-4, 40 to 500 iterations), so that it
# is mostly the only one. The derivative is then off by 3.5e-3 (ResNet20-4) and 9.5e-4 (ResNet-20), as it is
# after a shorter step that is taken twice.
STEP = 2.5e-5
LEAST, AIM, MOST = 3e-4, 1e-3, 4e-3
# The number of convolutions from which on a model counts as deep.
DEEP = 10


def pays(model: nn.Module, shape: torch.Size) -> bool:
    """Return whether differences are faster (in a deep model) and safe (no layer hides a kink)."""
    deep = sum(isinstance(layer, nn.Conv2d) for layer in model.modules()) >= DEEP
    if not deep or not engines_fit(model, shape):
        return False
    if chain(model) is None:
        log(
            "leakbench attack: exact second derivatives, for differences need a network of known layers alone"
        )
        return False
    return True


def difference(
    changes: Callable[[Tensor], Tensors], slope: Tensor, size: Tensor, scale: float = 1.0
) -> Tensors:
    """Return the rates of change of derivatives by one step along v, or by a second of a better length."""
    found = changes(size)
    share = float(found["images"].norm() / slope.norm().clamp_min(1e-30))
    if 0 < share < math.inf and not LEAST * scale <= share <= MOST * scale:
        size = size * min(max(AIM * scale / share, 0.01), 100.0)
        found = changes(size)
    return {name: change / size for name, change in found.items()}


class FrozenDifference(Engine):
    """The losses of a group's trials and their derivatives, one trial after another."""

    def __call__(self, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        found = [
            self.one({name: value[row : row + 1] for name, value in unknowns.items()}, row)
            for row in range(len(self.weights))
        ]
        losses = torch.cat([loss for loss, _ in found])
        return losses, {name: torch.cat([moves[name] for _, moves in found]) for name in unknowns}

    @cached_property
    def rows(self) -> list[Tensors]:
        """The observed gradients of each trial, [1, *shape], laid out in memory as the model's own."""
        observed = {name: laid_out(value) for name, value in self.observed.items()}
        return [
            {name: value[row : row + 1] for name, value in observed.items()}
            for row in range(len(self.weights))
        ]

    @cached_property
    def norm(self) -> Tensor:
        return torch.stack([p.square().sum() for p in self.group.model.parameters()]).sum().sqrt()

    @cached_property
    def moved(self) -> nn.Module:
        """A copy of the group's model, whose weights are moved along v."""
        return deepcopy(self.group.model)

    @torch.no_grad()
    def one(self, unknowns: Tensors, row: int) -> tuple[Tensor, Tensors]:
        """Return the loss [1] of one trial and the derivatives in its unknowns [1, …]."""
        steps, moving = self.steps, chain(self.moved) or []
        images = self.group.to_pixels(unknowns["images"])
        classes = unknowns["labels"].softmax(2) if self.labels is None else self.labels[row : row + 1]

        def slopes(at: Tensor, shares: Tensor) -> Tensors:
            found = {"images": apart(at, images.shape) * self.group.deviation}
            if self.labels is None:
                bent = shares - (classes * shares).sum(2, keepdim=True)
                found["labels"] = -classes * bent / images.shape[1]
            return found

        passed = forth(steps, images)
        told: list[Tensor] = []
        loss = entropy(passed.returned, classes)
        before = slopes(back(steps, passed, loss.slope, told, whole=True)[0], loss.shares)
        names = [f"{step.name}.{own}" for step in steps for own in step.told]
        gradients = dict(zip(names, told, strict=True))
        value, along, across, length = self.cotangent(gradients, row)

        def changes(size: Tensor) -> Tensors:
            shares = [(size * each * self.weights[row]).tolist() for each in (along, across)]
            for (name, p), *w in zip(self.moved.named_parameters(), *shares, strict=True):
                torch.add(self.own[name], self.rows[row][name][0], alpha=w[0], out=p)
                p.add_(gradients[name][0], alpha=w[1])
            again = forth(moving, images, passed.kept)
            loss = entropy(again.returned, classes)
            after = slopes(back(moving, again, loss.slope, None, whole=True)[0], loss.shares)
            return {name: new - before[name] for name, new in after.items()}

        size = STEP * self.scale * self.norm / length.clamp_min(1e-30)
        return value, difference(changes, before["images"], size, self.scale)

    @cached_property
    def own(self) -> Tensors:
        return dict(self.group.model.named_parameters())

    def cotangent(self, dummy: Tensors, row: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the loss at a gradient, and two factors and the norm of its derivative (`derivative`)."""
        observed, theirs, weights = self.rows[row], self.theirs[row], self.weights[row]
        known = {"dot": torch.cat([inner(dummy[name], value) for name, value in observed.items()])}
        known["mine"] = torch.cat([inner(dummy[name], dummy[name]) for name in observed])
        if "gap" in self.distance.of:
            gaps = (dummy[name] - value for name, value in observed.items())
            known["gap"] = torch.cat([inner(gap, gap) for gap in gaps])
        totals = {kind: (weights * known[kind]).sum()[None] for kind in self.distance.of}
        value, along, across = derivative(self.distance, totals, (weights * theirs).sum()[None])
        square = along**2 * theirs + 2 * along * across * known["dot"] + across**2 * known["mine"]
        return value, along, across, (weights**2 * square).sum().sqrt()[None]
