"""The gradient behind one step of Adam."""

from dataclasses import replace

import torch
from torch import Tensor

from leakbench.attacks.matching.received import local_steps
from leakbench.base.tensors import Tensors
from leakbench.observations.observation import Observation

# Torch's default, with which `federation.local` trains too.
EPSILON = 1e-8
# The root mean square of all roundings in a step (moments, root, sum, ratio, rate), in half units.
ROUNDINGS = 2


def unscaled(
    update: Tensor, weight: Tensor, lr: float, decay: float = 0.0, epsilon: float = EPSILON
) -> tuple[Tensor, Tensor]:
    """Return the gradient g of the first step of Adam or AdamW, and the error of each entry.

    The step is −lr · g / (|g| + ε) at each weight. It is said to send signs alone, but single precision
    resolves how far each ratio is from 1, which is ε / |g|. That is sharper the smaller g and the weight are:
    of a weight of zero, such as the B of a new adapter, a g of 1e-3 is known to a hundredth.

    update: new minus old weights, any shape.
    weight: the weights that were sent, of the same shape.
    lr: the client's learning rate.
    decay: AdamW's weight decay.
    epsilon: Adam's ε.
    """
    moved = -update.double() / lr - decay * weight.double()
    ratio = moved.abs()
    rounding = _rounding(weight, lr)
    left = (1 - ratio).clamp_min(0).maximum(rounding)
    return moved.sign() * epsilon * ratio / left, epsilon * rounding / left.square()


def by_adam(observation: Observation) -> bool:
    """Return whether clients send what steps of Adam leave, whose moments are zero in each round."""
    return observation.kind == "model" and observation.local.get("optimiser") in ("adam", "adamw")


def once_by_adam(observation: Observation) -> bool:
    """Return whether every client takes one step of Adam."""
    return by_adam(observation) and all(len(local_steps(observation, n)) == 1 for n in observation.clients)


def stepped_back(observation: Observation) -> Observation:
    """Return an observation of clients that take one step of Adam as one of gradients, others as they are."""
    if not once_by_adam(observation):
        return observation
    origins = observation.origin.tolist()
    moved = {name: observation.update(name) for name in observation.updates}
    sent = {name: torch.stack([observation.sent(name, each) for each in origins])[:, None] for name in moved}
    found = gradients(moved, sent, observation.local["lr"], observation.local.get("weight_decay", 0.0))
    return replace(observation, updates={n: v.numpy() for n, v in found.items()}, kind="gradient")


def gradients(
    moved: Tensors, sent: Tensors, lr: float, decay: float = 0.0, epsilon: float = EPSILON
) -> Tensors:
    """Return the gradients behind one step of Adam, name → float32; the arguments are those of `unscaled`.

    A gradient beyond what rounding resolves has a sign and no size. So that it does not outweigh the others,
    all are cut off at what is resolved of half of the weights.
    """
    found = {n: unscaled(v, sent[n].expand_as(v), lr, decay, epsilon)[0] for n, v in moved.items()}
    most = epsilon / torch.cat([_rounding(sent[n], lr).flatten() for n in moved]).median()
    return {name: value.clamp(-most, most).float() for name, value in found.items()}


def _rounding(weight: Tensor, lr: float) -> Tensor:
    return torch.finfo(torch.float32).eps / 2 * (weight.double().abs() / lr + ROUNDINGS)


def by_error(update: Tensor, weight: Tensor, observation: Observation) -> Tensor:
    """Return the gradient behind a step of Adam [rows, inputs], each row in units of its error.

    Rows of small gradients are known best, and the length of a row says nothing about the span of all rows.
    """
    local = observation.local
    found, error = unscaled(update, weight, local["lr"], local.get("weight_decay", 0.0))
    return found / error.square().mean(1, keepdim=True).sqrt()
