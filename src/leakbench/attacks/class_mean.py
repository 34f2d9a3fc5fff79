"""The control for GGL: from the labels alone, the mean image of each class by a generator."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.attacks import capable
from leakbench.attacks.matching.trials import groups
from leakbench.base.errors import Unfit
from leakbench.networks.generators import of_latents
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

AT_ONCE = 32
# What it costs: 64 images of a generator for each update.
COST = {"convolutions": "updates * 64 * 240 * generator"}


# The labels of a round follow from its own update alone.
@capable(together=True)
@torch.no_grad()
def class_mean(
    observation: Observation, rng: torch.Generator, *, samples: Annotated[int, Field(gt=0)] = 256
) -> Reconstruction:
    """Infer each update's labels and return the mean of a generator's images of each class.

    The attack uses only what gives the labels in the gradient. So whatever another attack through the same
    generator does better was read out of the gradient. Latents are normal with a standard deviation of one
    half, so two deviations reach the bound of a tanh.

    samples: the number of images that are averaged for each class.

    Raises Unfit without a generator that reads a latent and a class, or without labels.
    """
    generator = of_latents(observation.generator, "class-mean")
    classes = observation.network["classes"]
    latents = torch.randn(samples, generator.latent, generator=rng) / 2
    means = torch.zeros(classes, *observation.pixels)
    lead = (observation.rounds, len(observation.clients), max(observation.clients))
    images, known = torch.zeros(*lead, *observation.pixels), torch.full(lead, -1)
    usable = torch.zeros(lead, dtype=torch.bool)
    for group in groups(observation):
        if group.labels is None:
            raise Unfit("attack: class-mean needs classes (set labels: counted)")
        labels, place = group.labels.cpu(), (group.rounds, group.client, slice(0, group.batch))
        for label in labels.unique().tolist():
            if not means[label].any():
                parts = [generator(z, torch.full((len(z),), label)) for z in latents.split(AT_ONCE)]
                means[label] = torch.cat(parts).mean(0)
        images[place], known[place], usable[place] = means[labels], labels, True
    return Reconstruction(images, usable, labels=known)
