"""Surrogate weights: those at which one gradient stands for all local steps of a client.

Between the weights w_0 that were sent and the w_T that returned lie weights at which the gradient of the
client's samples points along the whole update more closely than at w_0 (SME, section 3). An attacker
optimises them together with the images. Each trial has weights of its own, so trials run one after another.
"""

import torch
from torch import Tensor

from leakbench.attacks.matching.parameterisation import Unknowns
from leakbench.attacks.matching.received import received
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors, over
from leakbench.networks.per_trial import hidden

# The unknowns beside the images: the place between w_0 (0) and w_T (1), and how a curve is bent.
PLACE, _BENT = "place", "bent."


def moved(group: Group, rows: Tensor) -> Tensors:
    """Return w_T − w_0 for the trials `rows` [n]: parameter → [n, *shape]."""
    rounds = group.rounds[rows // group.restarts]
    return {
        name: received(group.observation, name, rounds, group.client).to(group.device)
        for name, _ in group.model.named_parameters()
    }


def surrogate_unknowns(
    group: Group, images: Tensors, boxed: bool, place: float, share: float, reach: float = 0.0
) -> Unknowns:
    """Return images and places on the line from w_0 to w_T, or with `reach` on a curve and how it is bent."""
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
    sent = dict(group.model.named_parameters())
    bent = list(sent) if reach else []
    start = images | {PLACE: torch.full((group.trials,), place / share, device=group.device)}
    start |= {_BENT + name: sent[name].new_zeros(group.trials, *sent[name].shape) for name in bent}

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        way, t = moved(group, rows), unknowns[PLACE] * share
        weights = {name: sent[name] + over(t, by) * by for name, by in way.items()}
        away = 2 * t * (1 - t) * share
        for name in bent:
            weights[name] = weights[name] + over(away * _size(way[name]), way[name]) * unknowns[_BENT + name]
        return {name: unknowns[name] for name in images} | weights

    def project(unknowns: Tensors) -> None:
        if boxed:
            group.clip(unknowns)
        unknowns[PLACE].clamp_(0, 1 / share)
        for name in bent:
            own = unknowns[_BENT + name]
            own.mul_(over((reach / (_size(own) * share)).clamp_max(1), own))

    if boxed:
        group.clip(images)
    return Unknowns(start, dummies, project=project, weighs=True)


def _size(value: Tensor) -> Tensor:
    return value.flatten(1).square().mean(1).sqrt()
