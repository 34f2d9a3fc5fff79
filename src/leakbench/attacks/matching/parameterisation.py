"""What is optimised: the unknowns of a group of trials, and the dummies that follow from them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors
from leakbench.observations.adaptation import Nuisance

# More trials together are hardly faster on a processor, and worker processes need chunks to share.
AT_ONCE = 32
# Takes dummies and the number of the trial that each belongs to; returns the losses.
Losses = Callable[[Tensors, Tensor], Tensor]


def free(unknowns: Tensors) -> None:
    """Leave unknowns where they are."""


@dataclass(frozen=True)
class Unknowns:
    """A parameterisation of a group's dummies.

    start: the first unknowns, name → [trials, …].
    dummies: (unknowns, rows) → the dummies that the unknowns of the trials `rows` stand for: `images` in the
    victim's normalised space, the logits `labels` if the labels are unknown too, and what a defence leaves
    unknown (`Nuisance`).
    at_once: the number of trials that a processor works on together.
    project: puts unknowns back into their range, in place.
    weighs: whether the dummies also hold weights of the victim, parameter → [n, *shape], at which the
    gradients are taken.
    """

    start: Tensors
    dummies: Callable[[Tensors, Tensor], Tensors]
    at_once: int = AT_ONCE
    project: Callable[[Tensors], None] = free
    weighs: bool = False

    def through(self, evaluate: Callable[[Tensor], Evaluate]) -> Callable[[Tensor], Evaluate]:
        """Return `evaluate`, which takes dummies, as a function of the unknowns behind the dummies."""

        def chained(rows: Tensor) -> Evaluate:
            of_dummies = evaluate(rows)

            def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
                leaves = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
                made = self.dummies(leaves, rows)
                losses, slopes = of_dummies({name: value.detach() for name, value in made.items()})
                moving = {name: value for name, value in made.items() if value.requires_grad}
                found = torch.autograd.grad(
                    list(moving.values()), list(leaves.values()), [slopes[name] for name in moving]
                )
                return losses, dict(zip(leaves, found, strict=True))

            return evaluated

        return chained

    def members(self, losses: Callable[[Tensor], Losses], together: int) -> Callable[[Tensor], Evaluate]:
        """Return `losses` as a function of several unknowns for each trial."""

        def chained(rows: Tensor) -> Evaluate:
            of_dummies = losses(rows)

            def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
                trials, members = next(iter(unknowns.values())).shape[:2]
                flat = {name: value.flatten(0, 1) for name, value in unknowns.items()}
                owner = torch.arange(trials).repeat_interleave(members)
                found = []
                for part in torch.arange(len(owner)).split(together):
                    own = owner[part]
                    with torch.no_grad():
                        made = self.dummies({name: value[part] for name, value in flat.items()}, rows[own])
                    found.append(of_dummies(made, own))
                return torch.cat(found).unflatten(0, (trials, members)), {}

            return evaluated

        return chained


class Dummies(Unknowns):
    """A parameterisation whose unknowns are the dummies themselves."""

    def __init__(self, start: Tensors, project: Callable[[Tensors], None] = free) -> None:
        super().__init__(start, lambda unknowns, rows: unknowns, project=project)

    def through(self, evaluate: Callable[[Tensor], Evaluate]) -> Callable[[Tensor], Evaluate]:
        return evaluate


def with_nuisance(unknowns: Unknowns, nuisance: Nuisance) -> Unknowns:
    """Return `unknowns` together with what a defence leaves unknown."""

    def dummies(found: Tensors, rows: Tensor) -> Tensors:
        own, more = ({name: found[name] for name in part.start} for part in (unknowns, nuisance))
        return unknowns.dummies(own, rows) | nuisance.dummies(more, rows)

    return Unknowns(
        unknowns.start | nuisance.start, dummies, unknowns.at_once, unknowns.project, unknowns.weighs
    )


# Takes a group and a source of random numbers; returns the unknowns of its trials, drawn trial by trial.
Parameterisation = Callable[[Group, torch.Generator], Unknowns]
