"""From the columns of the gradient to its samples, and from the samples to a reconstruction."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.exact.any_loss import of_any_loss
from leakbench.attacks.exact.first_layer import FirstLayer, first_layers
from leakbench.attacks.exact.levels import of_levels
from leakbench.attacks.exact.proof import of_all, proof
from leakbench.attacks.exact.span import Span, span, unit_rows
from leakbench.networks.layers import normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


class Solved(NamedTuple):
    """The samples that follow from all columns, and how well all of it fits together.

    samples: [n, inputs], the proven samples.
    labels: [n], their labels (-1: not known).
    agreement: the share of all pairs of a neuron and a sample in which the column is not zero exactly if the
    sample opens the ReLU (the published self-certificate); 0 before all columns are known. Behind dropout,
    zeros of open neurons agree too.
    """

    samples: Tensor
    labels: Tensor
    agreement: float = 0.0


def nothing(layer: FirstLayer) -> Solved:
    return Solved(layer.weight[:0], torch.zeros(0, dtype=torch.int64))


def samples_of(layer: FirstLayer, seen: Span, columns: Tensor) -> Solved:
    """Return the proven samples that follow from all columns [rank, rank]."""
    scale = torch.linalg.lstsq(seen.left @ columns.T, layer.offset[:, None]).solution
    samples = torch.linalg.lstsq(columns.T * scale.T, seen.values[:, None] * seen.right).solution
    rows, alive = unit_rows(seen.left)
    opened = (rows @ columns.T).abs() > seen.zero
    outputs = (samples @ layer.weight.T + layer.bias).T[alive] > 0
    agree = opened == outputs if layer.logits else outputs | ~opened
    if not layer.known:
        labels = torch.full((len(samples),), -1)
        proven = (of_any_loss if layer.any_loss else of_all)(layer, seen, samples, columns)
    else:
        labels, proven, _ = proof(layer, seen, samples, samples.new_full((len(samples),), seen.noise))
    return Solved(samples[proven], labels[proven], float(agree.double().mean()))


def reconstruction(
    observation: Observation, solve: Callable[[FirstLayer, Span], Solved], attack: str
) -> Reconstruction:
    """Return what `solve` finds in every update, at most as many samples as the batch has.

    An update whose noise leaves no span gives nothing. Where pixels are normalised by their own batch, mean
    and deviation are read off the samples (`exact.levels`).
    """
    lead = (observation.rounds, len(observation.clients), max(observation.clients))
    mean, deviation = (value.double() for value in normalisation(observation.model(), observation.pixels[0]))
    images, agreement = torch.zeros(*lead, *observation.pixels), torch.zeros(lead[:2])
    usable, labels = torch.zeros(lead, dtype=torch.bool), torch.full(lead, -1)
    for number, client, layer in first_layers(observation, attack):
        seen = span(layer.slope, layer.batch)
        if seen is None:
            continue
        found = solve(layer, seen)
        place = (number, client, slice(0, len(found.samples)))
        samples = found.samples.view(-1, *observation.pixels)
        if layer.of_batch and len(samples):
            mean, deviation = of_levels(samples)
        pixels = (samples * deviation + mean).float()
        images[place], usable[place], labels[place] = pixels, True, found.labels
        agreement[number, client] = found.agreement
    return Reconstruction(images, usable, labels=labels, agreement=agreement)
