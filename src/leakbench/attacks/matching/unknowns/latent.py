"""The latents that the attacker's own, trained generator reads."""

import torch
from torch import Tensor

from leakbench.attacks.matching.parameterisation import Parameterisation, Unknowns
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors
from leakbench.networks.generators import of_latents

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {"": ("generator: none", "labels: joint")}
COST = {"made": 60}


def latent() -> Parameterisation:
    """Return a parameterisation by a latent for each image, whose tanh a class-conditional generator reads.

    At first, latents are uniform in [0, 1), drawn trial by trial. The classes are the group's labels, and the
    generator is the attacker's own (GGL). The parameterisation raises Unfit without such a generator, or if
    labels are unknown.
    """
    return _of


def _of(group: Group, rng: torch.Generator) -> Unknowns:
    generator = of_latents(group.observation.generator, "unknowns: latent")
    if group.labels is None:
        raise Unfit("attack: unknowns: latent needs classes (set labels: counted)")
    network, labels = generator.to(group.device).requires_grad_(False), group.labels
    drawn = [torch.rand(group.batch, generator.latent, generator=rng) for _ in range(group.trials)]

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        z = unknowns["latents"].tanh()
        images = network(z.flatten(0, 1), labels[rows].flatten()).unflatten(0, z.shape[:2])
        return {"images": (images - group.mean) / group.deviation}

    return Unknowns({"latents": torch.stack(drawn).to(group.device)}, dummies)
