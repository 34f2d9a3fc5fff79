"""The loss of a trial: how far dummy gradients are from observed ones, and how unlikely the images are."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import torch
from torch import Tensor

from leakbench.attacks.matching.distances import added, laid_out, products, whole_derivative, with_cotangent
from leakbench.attacks.matching.engines.agreement import Engine
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.loop import measured_bytes
from leakbench.attacks.matching.optimiser import Evaluate, Optimiser
from leakbench.attacks.matching.parameterisation import Dummies, Losses, Unknowns
from leakbench.attacks.matching.terms import Distance, Entries, Penalty, Prior, Term, Valued, Weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors
from leakbench.networks.per_trial import lent
from leakbench.observations.adaptation import Mechanism

_Kind = TypeVar("_Kind")
# Small enough that most of what a backward pass reads again is still in the processor's cache.
WORKING_BYTES = 200_000_000
# The share of a GPU's memory for trials, measured without that of a backward pass.
WORKING_SHARE = 1 / 4


def regularised(matched: Evaluate, priors: Sequence[tuple[float, Valued]]) -> Evaluate:
    """Return `matched` with the priors of its images added, each times its weight."""
    if not priors:
        return matched

    def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
        losses, slopes = matched(unknowns)
        for weight, prior in priors:
            value, slope = prior(unknowns["images"].detach())
            losses = losses + weight * value
            slopes = slopes | {"images": slopes["images"].add(slope, alpha=weight)}
        return losses, slopes

    return evaluated


def _kept(gradients: Tensors, chosen: Tensors | None) -> Tensors:
    """Return gradients, parameter → [trials, *shape], with the entries that are not chosen set to zero."""
    if chosen is None:
        return gradients
    return {name: value * chosen[name] if name in chosen else value for name, value in gradients.items()}


def priors_of(group: Group, terms: Iterable[Term]) -> list[tuple[float, Valued]]:
    """Return weight and function of each prior among `terms` whose weight is not 0."""
    return [(term.weight, term.of(group)) for term in terms if isinstance(term, Prior) and term.weight]


@dataclass(frozen=True)
class Objective:
    """The loss of a group's trials: the distances from the observed gradients, plus the priors of the images.

    `terms` are at least one distance, at most one `Weights` and `Entries`, and any penalties and priors; else
    it raises Unfit. `engine` takes whole derivatives. `mechanism` returns, for observed gradients, what is
    done to dummy ones.
    """

    group: Group
    terms: Sequence[Term]
    engine: type[Engine] | None = None
    mechanism: Callable[[Tensors], Mechanism] | None = None

    def __post_init__(self) -> None:
        kinds = [type(term) for term in self.terms]
        if Distance not in kinds or max(kinds.count(Weights), kinds.count(Entries)) > 1:
            raise Unfit(
                "attack: objective: needs a distance of gradients, and weights of layers once at most, and a "
                "choice of entries alike"
            )

    def _of(self, kind: type[_Kind]) -> list[_Kind]:
        return [term for term in self.terms if isinstance(term, kind)]

    @cached_property
    def distance(self) -> Distance:
        return added(self._of(Distance))

    @cached_property
    def weigh(self) -> Callable[[Tensors], Tensors] | None:
        """A function from observed gradients to the weight [trials] of each parameter, if there is one."""
        return next((term.of(self.group) for term in self._of(Weights)), None)

    @cached_property
    def priors(self) -> list[tuple[float, Valued]]:
        return priors_of(self.group, self.terms)

    @property
    def partial(self) -> bool:
        """Whether the distances compare only some entries of the gradients."""
        return bool(self._of(Entries))

    def _penalised(self, matched: Evaluate) -> Evaluate:
        for term in self._of(Penalty):
            matched = term.of(matched)
        return regularised(matched, self.priors)

    def evaluate(self, rows: Tensor) -> Evaluate:
        """Return the function that gives losses and gradients of the trials `rows` [n]."""
        group, distance = self.group, self.distance
        labels = None if group.labels is None else group.labels[rows]
        observed = group.observed(rows)
        weights = None if self.weigh is None else self.weigh(observed)
        small = group.device == "cpu" and self.engine is not None and len(rows) < self.engine.TOGETHER
        if self.engine is not None and not small:
            ones = torch.ones(len(rows), device=group.device)
            each = torch.stack([ones if weights is None else weights[name] for name in observed], 1)
            return self._penalised(self.engine(group, distance, observed, labels, each))
        chosen = next((term.of(observed) for term in self._of(Entries)), None)
        observed = {name: laid_out(value) for name, value in observed.items()}
        made = None if self.mechanism is None else self.mechanism(observed)
        observed = _kept(observed, chosen)
        theirs = products(("mine",), observed, observed, weights)["mine"]

        def matched(unknowns: Tensors) -> tuple[Tensor, Tensors]:
            wanted = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
            images = group.to_pixels(wanted["images"])
            classes = wanted["labels"].softmax(2) if labels is None else labels
            found = group.caused(images, classes, rows, wanted)
            found = _kept(found if made is None else made(found, wanted), chosen)
            values = {name: found[name].detach() for name in observed}
            losses, cotangent = with_cotangent(distance, values, observed, weights, theirs)
            if distance.whole:
                more, moves = whole_derivative(distance, values, observed)
                losses = losses + more
                cotangent = {name: cotangent[name] + move for name, move in moves.items()}
            slopes = torch.autograd.grad(
                [found[name] for name in cotangent], list(wanted.values()), list(cotangent.values()),
                materialize_grads=True,
            )  # fmt: skip
            return losses, dict(zip(wanted, slopes, strict=True))

        return self._penalised(matched)

    def losses(self, rows: Tensor) -> Losses:
        """Return the function that gives the losses [n] of dummies [n, …], one of each of `rows`."""
        group, distance = self.group, self.distance
        if self.partial or self._of(Penalty) or distance.whole or group.steps:
            raise Unfit(
                "attack: optimiser: cma-es takes distances of products and one batch (set objective: "
                "[squares] and updates: one-batch)"
            )
        if self.mechanism is not None or group.nuisance.start:
            raise Unfit("attack: optimiser: cma-es adapts to no defence (set optimiser: adam)")
        seen = group.observed(rows)
        weigh = None if self.weigh is None else self.weigh(seen)
        observed = {name: rows_of(value) for name, value in seen.items()}
        theirs = torch.zeros(len(rows), dtype=torch.float64, device=group.device)
        for name, value in observed.items():
            theirs += value.square().sum(1) * (1 if weigh is None else weigh[name])

        def valued(dummies: Tensors, owner: Tensor) -> Tensor:
            images, trials = group.to_pixels(dummies["images"]), rows[owner]
            labels = dummies["labels"].softmax(2) if group.labels is None else group.labels[trials]
            weights = None if weigh is None else {name: value[owner] for name, value in weigh.items()}
            beside = partial(group.nuisance.gradients, trials, dummies)
            with lent(group.model, dummies):
                known = gradient_products(group.model, images, labels, observed, owner, weights, beside)
            known["gap"] = (known["mine"] - 2 * known["dot"] + theirs[owner]).clamp_min(0)
            losses = distance.value({kind: known[kind] for kind in distance.of}, theirs[owner])
            return losses + sum(weight * prior(dummies["images"])[0] for weight, prior in self.priors)

        return valued

    def chunk(self, optimiser: Optimiser, unknowns: Unknowns | None = None) -> int:
        """Return how many trials (or members) run together: as many as are of use and fit into memory."""
        members = optimiser.population
        if self.engine is not None and (self.engine.TOGETHER == 1 or self.group.device != "cpu"):
            return self.engine.TOGETHER
        trial = torch.arange(1)
        unknowns = unknowns or Dummies(self.group.draw("normal", torch.Generator().manual_seed(0), 1))
        one = {name: value[:1] for name, value in unknowns.start.items()}
        kept = sum(value.nbytes for value in self.group.observed(trial).values())
        kept += optimiser.copies * sum(value.nbytes for value in one.values())
        if members == 1:
            # Autograd says what it keeps. Every engine keeps about as much.
            used = measured_bytes(unknowns.through(replace(self, engine=None).evaluate)(trial), one)
        else:
            several = {name: value[:, None] for name, value in one.items()}
            used = measured_bytes(unknowns.members(self.losses, 1)(trial), several)
        if self.group.device == "cpu":
            most, working = unknowns.at_once, WORKING_BYTES
        else:
            most = self.group.trials * members
            # A share of all memory, free or not, since the chunk size changes the last bits of the results.
            working = int(torch.cuda.get_device_properties(self.group.device).total_memory * WORKING_SHARE)
        return max(1, min(most, working // max(1, kept // members + used)))
