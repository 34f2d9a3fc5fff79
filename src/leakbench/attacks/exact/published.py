"""Peeling by the published rule, as a rival: fixed tolerances, no span, and an error that is not carried."""

import torch
from torch import Tensor

from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.solved import Solved, nothing

# What the authors' code has (SaeedShariati/Gradient-Inversion-via-LT-Codes, commit 82cdbb9). A neuron is read
# while its offset is larger than LIVE and its ratio within the range of pixels, give or take SLACK of it.
LIVE, SLACK = 1e-10, 0.1
# A neuron fits a sample if its offset is off by less than FIT. Samples nearer than ALIKE are one.
FIT, ALIKE = 1e-8, 1e-6
ROUNDS = 30
# Samples that are nearer than this to another accepted one are returned once, as the authors count them.
COUNTED = 0.01
# Distances from products are off by less than this share; pairs that may be near are compared by PAIRS.
ROUNDED, PAIRS = 1e-5, 1024


def as_published(layer: FirstLayer) -> Solved:
    """Return the samples of a first layer that the published rule accepts.

    In each round every live neuron offers its ratio. A neuron that is open for an offered sample votes for
    the class that fits its own offset best, if that fits at all. The class with most votes is the sample's,
    and the sample is accepted if the neurons that voted fit it together.
    """
    samples, labels = nothing(layer)[:2]
    slope, offset = layer.slope, layer.offset
    for _ in range(ROUNDS):
        found, source = _offered(layer, slope, offset, samples)
        if not len(found):
            break
        found, classes, caused = _accepted(layer, offset, found, source)
        if not len(found):
            break
        # A sample that is offered twice in a round is subtracted twice, as in the authors' code.
        slope, offset = slope - caused.T @ found, offset - caused.sum(0)
        samples, labels = torch.cat([samples, found]), torch.cat([labels, classes])
    once = _first_of(_alike(samples, samples, COUNTED))
    return Solved(samples[once][: layer.batch], labels[once][: layer.batch])


def _offered(layer: FirstLayer, slope: Tensor, offset: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new ratios [n, inputs], each once, and the neurons [n] that offer them."""
    ratios = slope * (1 / offset)[:, None]
    slack = SLACK * (layer.high - layer.low)
    within = ((ratios >= layer.low - slack) & (ratios <= layer.high + slack)).all(1)
    source = ((offset.abs() > LIVE) & ratios.isfinite().all(1) & within).nonzero().squeeze(1)
    source = source[~_alike(ratios[source], known, ALIKE).any(1)]
    source = source[_first_of(_alike(ratios[source], ratios[source], ALIKE))]
    return ratios[source], source


def _accepted(
    layer: FirstLayer, offset: Tensor, samples: Tensor, source: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the accepted samples, their labels and what each adds to the offset [n, neurons]."""
    caused = layer.caused(samples)
    off = (caused - offset).abs()
    every = torch.arange(len(samples))
    own = off[every, :, source].amin(1) < FIT
    samples, source, caused, off = samples[own], source[own], caused[own], off[own]
    every = torch.arange(len(samples))
    asked = (samples @ layer.weight.T + layer.bias > 0) & (offset.abs() > LIVE)
    asked[every, source] = True
    least, best = off.min(1)
    voting = asked & (least < FIT)
    shape = off.shape[:2]
    votes = torch.zeros(shape, dtype=torch.int64).scatter_add_(1, best, voting.long())
    misfit = off.new_zeros(shape).scatter_add_(1, best, least * voting)
    # Of classes with as many votes, that with the least misfit is chosen.
    misfit[votes < votes.amax(1, keepdim=True)] = torch.inf
    labels = misfit.argmin(1)
    together = (off[every, labels] * voting).norm(dim=1)
    proven = together < FIT
    return samples[proven], labels[proven], caused[every, labels][proven]


def _alike(one: Tensor, other: Tensor, near: float) -> Tensor:
    """Return which rows are nearer to each other than `near`, bool [n, m]."""
    longest = one.norm(dim=1).amax() if len(one) else 0.0
    found = torch.cdist(one, other) < near + ROUNDED * longest
    rows, columns = found.nonzero(as_tuple=True)
    for some in torch.arange(len(rows)).split(PAIRS):
        apart = (one[rows[some]] - other[columns[some]]).norm(dim=1)
        found[rows[some], columns[some]] = apart < near
    return found


def _first_of(alike: Tensor) -> Tensor:
    """Return which rows of a relation [n, n] are kept if each is dropped that is like a kept earlier one."""
    kept = torch.zeros(len(alike), dtype=torch.bool)
    for row, near in enumerate(alike):
        kept[row] = not (near & kept).any()
    return kept
