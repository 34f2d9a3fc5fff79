"""The loss of a trial: how far its dummy gradients are from those observed, and how likely its images are."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from leakbench.errors import Unfit
from leakbench.matching.distances import distance_of, whole_derivative, with_cotangent
from leakbench.matching.frozen import FrozenDifference
from leakbench.matching.gradient_products import gradient_products, laid_out
from leakbench.matching.loop import measured_bytes
from leakbench.matching.optimisers import Evaluate, Optimiser
from leakbench.matching.trials import Group
from leakbench.matching.unknowns import Dummies, Losses, Unknowns
from leakbench.tensors import Tensors

# Small enough that most of what a backward pass reads again is still in a processor's cache.
WORKING_BYTES = 200_000_000
# The share of a GPU's free memory that trials may take together: what is measured leaves out a backward
# pass's own.
WORKING_SHARE = 1 / 4


def _flat(values: Iterable[Tensor]) -> Tensor:
    """Return all numbers of each trial as one row: [trials, *shape] each → [trials, n]."""
    return torch.cat([value.flatten(1) for value in values], 1)


def total_variation(images: Tensor, squared: bool = False) -> tuple[Tensor, Tensor]:
    """Return the mean absolute difference of neighbours, down plus across, and its derivative, of the images'
    shape.

    images [trials, …, rows, columns] → [trials]. `squared`: twice the mean squared difference instead. The
    derivative is written out, since the tape's takes three times as many passes; where neighbours are equal
    it is zero. Source: the codes of InvG, on normalised images, and of GRNN.
    """
    total, slope = images.new_zeros(len(images)), torch.zeros_like(images)
    for axis in (-2, -1):
        size = images.shape[axis] - 1
        apart = images.narrow(axis, 1, size) - images.narrow(axis, 0, size)
        flat, count = apart.flatten(1), apart[0].numel()
        if squared:
            total += torch.linalg.vecdot(flat, flat) * (2 / count)
            apart *= 4 / count
        else:
            total += flat.abs().mean(1)
            apart.sign_().div_(count)
        slope.narrow(axis, 1, size).add_(apart)
        slope.narrow(axis, 0, size).sub_(apart)
    return total, slope


def regularised(matched: Evaluate, tv: float, squared: bool = False) -> Evaluate:
    """Return `matched` with `tv` times the total variation of the images added."""
    if not tv:
        return matched

    def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
        losses, slopes = matched(unknowns)
        extra, slope = total_variation(unknowns["images"].detach(), squared)
        return losses + tv * extra, slopes | {"images": slopes["images"].add(slope, alpha=tv)}

    return evaluated


@dataclass(frozen=True)
class Objective:
    """The loss of a group's trials: distance to what was observed, plus `tv` times the total variation
    (`squared` or not).

    `weigh(model, observed)` gives parameter → weight [trials] in the distance; none: one for all. `frozen`:
    take second derivatives by differences of first ones (`matching.frozen`). `mechanism(observed)`: what is
    made of dummy gradients before they are compared.
    """

    group: Group
    distance: str
    weigh: Callable[[nn.Module, Tensors], Tensors] | None
    tv: float
    frozen: bool = False
    squared: bool = False
    mechanism: Callable[[Tensors], Callable[[Tensors], Tensors]] | None = None

    def evaluate(self, rows: Tensor) -> Evaluate:
        """Return the function that gives losses and gradients of the trials `rows`."""
        group, distance = self.group, distance_of(self.distance)
        labels = None if group.labels is None else group.labels[rows]
        observed = group.observed(rows)
        weigh = None if self.weigh is None else self.weigh(group.model, observed)
        if self.frozen:
            ones = torch.ones(len(rows), device=group.device)
            each = torch.stack([ones if weigh is None else weigh[name] for name in observed], 1)
            frozen = FrozenDifference(group, distance, observed, labels, each)
            return regularised(frozen, self.tv, self.squared)
        o = _flat(observed.values())
        weights = (
            None
            if weigh is None
            else _flat(weigh[name][:, None].expand(-1, v[0].numel()) for name, v in observed.items())
        )
        theirs = torch.linalg.vecdot(o if weights is None else o * weights, o)
        made = None if self.mechanism is None else self.mechanism(observed)
        if not distance.whole:
            del observed

        def matched(unknowns: Tensors) -> tuple[Tensor, Tensors]:
            wanted = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
            images = group.to_pixels(wanted["images"])
            classes = wanted["labels"].softmax(2) if labels is None else labels
            found = group.caused(images, classes, rows, wanted)
            found = found if made is None else made(found)
            row = _flat(found.values())
            losses, cotangent = with_cotangent(distance, row.detach(), o, weights, theirs)
            if distance.whole:
                more, moves = whole_derivative(distance, found, observed)
                losses, cotangent = losses + more, cotangent + _flat(moves.values())
            slopes = torch.autograd.grad(row, list(wanted.values()), cotangent)
            return losses, dict(zip(wanted, slopes, strict=True))

        return regularised(matched, self.tv, self.squared)

    def losses(self, rows: Tensor) -> Losses:
        """Return the function that gives the losses [n] of dummies [n, …], each of one of the trials `rows`.

        No gradient of a dummy's is made (`matching.gradient_products`). Raises Unfit where the distance needs
        it, or where local steps are simulated.
        """
        group, distance = self.group, distance_of(self.distance)
        if distance.whole or group.steps:
            raise Unfit(
                "attack: cma-es takes distances of products and one batch (set distance: squares, updates: "
                "one-batch)"
            )
        if self.mechanism is not None or (group.lock and group.lock.sought):
            raise Unfit("attack: cma-es adapts to no defence (set optimiser: adam)")
        seen = group.observed(rows)
        weigh = None if self.weigh is None else self.weigh(group.model, seen)
        observed = {name: laid_out(value) for name, value in seen.items()}
        theirs = torch.zeros(len(rows), dtype=torch.float64, device=group.device)
        for name, value in observed.items():
            theirs += value.square().sum(1) * (1 if weigh is None else weigh[name])

        def valued(dummies: Tensors, owner: Tensor) -> Tensor:
            images, trials = group.to_pixels(dummies["images"]), rows[owner]
            labels = dummies["labels"].softmax(2) if group.labels is None else group.labels[trials]
            weights = None if weigh is None else {name: value[owner] for name, value in weigh.items()}
            if group.lock:
                factors = group.lock.factors(trials, {})
                lock = factors, partial(group.lock.gradients, trials, factors)
                known = gradient_products(group.model, images, labels, observed, owner, weights, *lock)
            else:
                known = gradient_products(group.model, images, labels, observed, owner, weights)
            known["gap"] = (known["mine"] - 2 * known["dot"] + theirs[owner]).clamp_min(0)
            losses = distance.value({kind: known[kind] for kind in distance.of}, theirs[owner])
            extra = self.tv * total_variation(dummies["images"], self.squared)[0] if self.tv else 0
            return losses + extra

        return valued

    def chunk(self, optimiser: Optimiser, unknowns: Unknowns | None = None, members: int = 1) -> int:
        """Return how many trials run together: no more than pays, and as few as keep their working memory in
        bounds.

        `unknowns`: what is optimised, if it is not the dummies. `members`: how many of them each trial has.
        Frozen differences are taken one trial after another, so nothing is gained by more.
        """
        if self.frozen:
            return 1
        trial = torch.arange(1)
        unknowns = unknowns or Dummies(self.group.draw("normal", torch.Generator().manual_seed(0), 1))
        one = {name: value[:1] for name, value in unknowns.start.items()}
        kept = sum(value.nbytes for value in self.group.observed(trial).values())
        kept += optimiser.copies * sum(value.nbytes for value in one.values())
        if members == 1:
            used = measured_bytes(unknowns.through(self.evaluate)(trial), one)
        else:
            several = {name: value[:, None] for name, value in one.items()}
            used = measured_bytes(unknowns.members(self.losses, 1)(trial), several)
        if self.group.device == "cpu":
            most, working = unknowns.at_once, WORKING_BYTES
        else:
            most = self.group.trials * members
            working = int(torch.cuda.mem_get_info(self.group.device)[0] * WORKING_SHARE)
        return max(1, min(most, working // max(1, kept // members + used)))
