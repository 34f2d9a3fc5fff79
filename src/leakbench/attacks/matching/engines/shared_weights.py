"""The derivative of a distance of gradients for several trials, whose images lie in one batch.

All trials of a group attack the same weights W, so the four passes of `engines.chain` multiply by W in one
convolution of a batch. Only what comes from the moving weights V is each trial's own (`own_products`).
A batch pays where multiplying by weights takes less time than reading them, on a GPU, and where channels are
too few to fill a register (`pays`).
"""

from functools import cached_property

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.distances import derivative
from leakbench.attacks.matching.engines.agreement import Engine
from leakbench.attacks.matching.engines.chain import Forth, back, chain, entropy, forth, spread, summed
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.engines.layers.narrow import NARROWEST
from leakbench.attacks.matching.engines.layers.norm import by_images
from leakbench.attacks.matching.engines.own_products import (
    PRODUCTS,
    OwnProducts,
    in_groups,
    own_products,
    seen,
)
from leakbench.base.tensors import Tensors

# The gradients of each step with parameters, by the step's place.
Owns = dict[int, OwnProducts]


def fits(model: nn.Module, shape: torch.Size) -> bool:
    """Return whether trials may lie in one batch: layers are known, without batch statistics and dilation."""
    steps = chain(model) if engines_fit(model, shape) else None
    return steps is not None and not any(
        (step.told and type(step.layer) not in PRODUCTS)
        or (isinstance(step.layer, nn.BatchNorm2d) and by_images(step.layer))
        or (isinstance(step.layer, nn.Conv2d) and step.layer.dilation != (1, 1))
        for step in steps
    )


def pays(model: nn.Module, shape: torch.Size) -> bool:
    """Return whether a batch is the faster way on a processor: where channels nearly fill a register."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    full = all(in_groups(layer) and layer.out_channels >= NARROWEST for layer in layers)
    return bool(layers) and full and fits(model, shape)


class SharedWeights(Engine):
    """The losses of a group's trials and their derivatives, all trials in one batch."""

    # A GPU holds more, but the size of its memory must not decide about a result's last bits.
    TOGETHER = 8

    @torch.no_grad()
    def __call__(self, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        images = self.group.to_pixels(unknowns["images"])
        trials, batch = images.shape[:2]
        classes = unknowns["labels"].softmax(2) if self.labels is None else self.labels
        # To the chain all samples are the batch of one trial.
        passed = forth(self.steps, images.flatten(0, 1)[None])
        loss = entropy(passed.returned.view(trials, batch, -1), classes)
        slopes = back(self.steps, passed, loss.slope.reshape(passed.returned.shape), None, whole=False)
        owns = self.gradients(passed, slopes)
        value, along, across = self.cotangent(owns)
        for place, own in owns.items():
            name = self.steps[place].name
            own.move(*({n: each[f"{name}.{n}"] for n in own.observed} for each in (along, across)))
        last, reads = self.rates(passed, owns)
        last = last.view(trials, batch, -1)
        bent = last - (loss.chances * last).sum(2, keepdim=True)
        rate = (loss.chances * bent * loss.total).view(passed.returned.shape)
        at = self.back(passed, slopes, reads, owns, rate).contiguous().view(images.shape)
        found = {"images": at * self.group.deviation}
        if self.labels is None:
            moved = -bent / batch
            found["labels"] = classes * (moved - (classes * moved).sum(2, keepdim=True))
        return value, found

    @cached_property
    def known(self) -> list[Tensors]:
        """What was observed of each step's own parameters."""
        return [
            {n: seen(step.layer, self.observed[f"{step.name}.{n}"]) for n in step.told} for step in self.steps
        ]

    def gradients(self, passed: Forth, slopes: dict[int, Tensor]) -> Owns:
        """Return the gradients of each step with parameters, by the step's place."""
        return {
            place: own_products(
                step, passed.kept[place], slopes[place + 1], self.known[place], self.distance.of
            )
            for place, step in enumerate(self.steps)
            if step.told
        }

    def cotangent(self, owns: Owns) -> tuple[Tensor, Tensors, Tensors]:
        """Return the losses [trials], and the factors along and across, parameter → [trials]."""
        known: dict[str, Tensors] = {}
        for place, own in owns.items():
            for name, found in own.products().items():
                known[f"{self.steps[place].name}.{name}"] = found
        totals = {
            kind: (self.weights * torch.stack([known[name][kind] for name in self.observed], 1)).sum(1)
            for kind in self.distance.of
        }
        value, *factors = derivative(self.distance, totals, (self.weights * self.theirs).sum(1))
        along, across = (
            dict(zip(self.observed, (self.weights * each[:, None]).unbind(1), strict=True))
            for each in factors
        )
        return value, along, across

    def rates(self, passed: Forth, owns: Owns) -> tuple[Tensor, list[Tensor | None]]:
        """Take rates forth through the steps, the third of the four passes."""
        moved: dict[int, Tensor] = {}
        reads = []
        for place, step in enumerate(self.steps):
            read = summed(moved, step.reads)
            reads.append(read)
            if place in owns:
                moved[place + 1] = owns[place].rate()
            if read is not None:
                found = step.link.rate(step.layer, passed.kept[place], passed.reads[place], read, {}, 1)
                moved[place + 1] = moved[place + 1].add_(found) if place in owns else found
        return moved[len(self.steps)], reads

    def back(
        self, passed: Forth, slopes: dict[int, Tensor], reads: list[Tensor | None], owns: Owns, rate: Tensor
    ) -> Tensor:
        """Take the rates of the slopes back through the steps, the last of the four passes."""
        rates: dict[int, Tensor] = {len(self.steps): rate}
        for place, step in reversed(list(enumerate(self.steps))):
            kept, read, at = passed.kept[place], passed.reads[place], rates[place + 1]
            if place in owns:
                found = owns[place].back(at)
            else:
                found = step.link.back(step.layer, kept, read, slopes[place + 1], reads[place], at, {})
            spread(found, step.reads, rates)
        return rates[0]
