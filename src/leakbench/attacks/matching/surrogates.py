"""Surrogate weights: those at which one gradient stands for all local steps of a client.

A client is sent the weights w_0 and returns the weights w_T. Between the two lie weights at which the
gradient of the client's samples points along the whole update more closely than the gradient at w_0 does
(SME, section 3). An attacker optimises these weights together with the images. Each trial has weights of its
own, so the trials run one after another.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from leakbench.attacks.matching.parameterisation import Unknowns, free
from leakbench.attacks.matching.received import received
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors, over
from leakbench.networks.per_trial import hidden

# The name of the unknown for the place between w_0 (0) and w_T (1).
PLACE = "place"
# A function that puts unknowns back into their range, in place.
Project = Callable[[Tensors], None]


def moved(group: Group, rows: Tensor) -> Tensors:
    """Return w_T − w_0 for the trials `rows` [n]: parameter → [n, *shape]."""
    rounds = group.rounds[rows // group.restarts]
    return {
        name: received(group.observation, name, rounds, group.client).to(group.device)
        for name, _ in group.model.named_parameters()
    }


def surrogate_unknowns(
    group: Group,
    images: Tensors,
    way: Tensors,
    weights: Callable[[Tensors, Tensor], Tensors],
    boxed: bool,
    project: Project,
) -> Unknowns:
    """Return unknowns that hold images and, beside them, what determines the surrogate weights."""
    if group.observation.kind != "model":
        raise Unfit(
            "attack: unknowns: surrogate weights lie on the way to a client's new weights, and it sent a "
            "gradient (set update: model in the federation)"
        )
    if group.steps:
        raise Unfit("attack: unknowns: surrogate weights stand for local steps (set updates: one-batch)")
    if hidden(group.model):
        raise Unfit(
            "attack: unknowns: surrogate weights need all that a client returned, and some are hidden (set "
            "unknowns: dummies)"
        )
    if boxed:
        group.clip(images)

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        return {name: unknowns[name] for name in images} | weights(unknowns, rows)

    def back(unknowns: Tensors) -> None:
        for move in (group.clip if boxed else free, project):
            move(unknowns)

    return Unknowns(images | way, dummies, project=back, weighs=True)


def on_line(group: Group, share: float, unknowns: Tensors, rows: Tensor) -> tuple[Tensor, Tensors]:
    """Return each trial's place on the line from w_0 to w_T, and the weights there."""
    place = unknowns[PLACE] * share
    sent = dict(group.model.named_parameters())
    return place, {name: sent[name] + over(place, by) * by for name, by in moved(group, rows).items()}


def placed(group: Group, place: float, share: float) -> tuple[Tensors, Project]:
    """Return the first unknown of the place, and a function that keeps it between w_0 and w_T."""

    def project(unknowns: Tensors) -> None:
        unknowns[PLACE].clamp_(0, 1 / share)

    return {PLACE: torch.full((group.trials,), place / share, device=group.device)}, project
