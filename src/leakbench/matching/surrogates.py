"""Surrogate weights: those at which one gradient stands for all local steps of a client.

A client is sent the weights w_0 and returns w_T. Between the two lie weights at which the gradient of its
samples points along the whole update, more nearly than it does at w_0 (SME, section 3). An attacker seeks
them together with the images. Each trial has weights of its own, so trials run one after another.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from leakbench.errors import Unfit
from leakbench.matching.hidden import hidden
from leakbench.matching.received import received
from leakbench.matching.trials import Group
from leakbench.matching.unknowns import Unknowns, free
from leakbench.tensors import Tensors

# The unknown of the place on the way from w_0 (0) to w_T (1).
PLACE = "place"
# What puts unknowns back, in place, where they may be.
Project = Callable[[Tensors], None]


def moved(group: Group, rows: Tensor) -> Tensors:
    """Return w_T − w_0 of the trials `rows` [n]: parameter → [n, *shape]."""
    rounds = group.rounds[rows // group.restarts]
    return {
        name: received(group.observation, name, rounds, group.client).to(group.device)
        for name, _ in group.model.named_parameters()
    }


def spread(value: Tensor, like: Tensor) -> Tensor:
    """Return a value of each trial [n] so that it multiplies what has the shape [n, *shape] of `like`."""
    return value.view(-1, *[1] * (like.dim() - 1))


def surrogate_unknowns(
    group: Group,
    images: Tensors,
    way: Tensors,
    weights: Callable[[Tensors, Tensor], Tensors],
    boxed: bool,
    project: Project,
) -> Unknowns:
    """Return unknowns whose dummies hold, beside the images, the weights at which the gradient is taken.

    images: the first images, and logits of labels if these are unknown. way: the first values of what is
    sought of the way, name → [trials, …]. weights(way, rows): the surrogate weights of the trials `rows` [n],
    parameter → [n, *shape]. boxed: keep pixels in their range, from the start. project: puts `way` back, in
    place. Raises Unfit for gradients, for simulated steps and for hidden parameters.
    """
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
    """Return the place [n] on the way, and (1 − place) w_0 + place w_T.

    share: what an unknown of 1 stands for.
    """
    place = unknowns[PLACE] * share
    sent = dict(group.model.named_parameters())
    return place, {name: sent[name] + spread(place, by) * by for name, by in moved(group, rows).items()}


def placed(group: Group, place: float, share: float) -> tuple[Tensors, Project]:
    """Return the first unknown of the place, and what keeps it on the way between w_0 and w_T."""

    def project(unknowns: Tensors) -> None:
        unknowns[PLACE].clamp_(0, 1 / share)

    return {PLACE: torch.full((group.trials,), place / share, device=group.device)}, project
