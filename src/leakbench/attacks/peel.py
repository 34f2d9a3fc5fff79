"""Peeling (Shariati, Alambardar Meybodi, arXiv:2609.09659): samples are read off, proven and subtracted."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.columns import columns_of, last_column
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.proof import proof, read_twice
from leakbench.attacks.exact.published import as_published
from leakbench.attacks.exact.solved import Solved, nothing, reconstruction, samples_of
from leakbench.attacks.exact.span import Span, first_alike
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The loss behind the first dense layer is not computed, so that it may be any.
ANY_LOSS = True
# What it costs: a span, proofs for each label of a sample and each pair of samples, the columns of all.
COST = {"update": "8000 * (1 + weights) + (weights * (8 * classes * samples + 0.1 * (samples * samples))"
    " + (2 * samples * (weights * 1e6 / values * (samples * samples) + 10 * samples * samples * samples)"
    " / 1e6 if rule == 'own' else 0))"}  # fmt: skip
# Since 2 the errors of samples that were subtracted are carried into later rounds. Since 3 the errors of the
# neurons that hold a sample are added as squares. Since 4 the proof of a sample allows for the largest of
# these errors, because what the client rounded behind the layer is one error for all neurons.
NUMERICS = 4

# A neuron is read while the rest of its gradient is more than this many times the error accumulated in it.
READABLE = 1e3
# Ratios of two neurons belong to one sample if they differ by this many times their errors.
ALIKE = 100.0
# Pixels may lie outside their range by this much.
SLACK = 1e-3
# Two samples count as one if their distance is less than this share of their length.
SAME = 1e-2
# Two columns count as one if the cosine of their angle differs from one by less than this.
SAME_COLUMN = 1e-6


@capable(rounds_at_once=1)
def peel(
    observation: Observation,
    rng: torch.Generator,
    *,
    levels: Annotated[int, Field(gt=0)] | None = None,
    rule: Annotated[Literal["own", "published"], Field(exclude_if=lambda rule: rule == "own")] = "own",
) -> Reconstruction:
    """Recover samples, with their labels, from the gradient of a first dense layer that a ReLU follows.

    A neuron that is open for only one sample of the batch holds that sample: it is the gradient of the
    neuron's weights divided by the gradient of its bias (Fidel, section II-A). The network's own gradient
    proves the sample and gives its label (`FirstLayer.caused`). Then what the proven samples caused is
    subtracted, and other neurons hold a single sample. Only proven samples are usable.

    levels: the number of steps between black and white in which pixels are stored (255 for 8 bits). Pixels
    are rounded to these levels. Without it, pixels are real numbers, as published.
    rule: what accepts a sample. `own` bounds errors by the noise of the update. `published` has the fixed
    tolerances of the authors' code (`exact.published`), for comparisons.

    Raises Unfit where `first_layers` does, for the published rule behind dropout, and for `levels` where
    pixels are normalised by their own batch.
    """

    def solve(layer: FirstLayer, seen: Span) -> Solved:
        if levels and layer.of_batch:
            raise Unfit("attack: peel: levels are not known of pixels that their own batch normalises (leave "
                        "levels out)")  # fmt: skip
        if rule == "published":
            if layer.logits is None:
                raise Unfit("attack: peel: the published rule needs no dropout (set rule: own)")
            return as_published(layer)
        return peeled(layer, seen, levels)

    return reconstruction(observation, solve, "peel")


def peeled(layer: FirstLayer, seen: Span, levels: int | None = None) -> Solved:
    """Return the proven samples of a first layer, found one after the other."""
    samples, labels, _ = nothing(layer)
    slope, offset = layer.slope, layer.offset
    claimed, added = samples, slope.new_zeros(0, len(offset))
    error = seen.noise * offset.abs() + seen.entry
    while len(samples) < layer.batch:
        found, classes, caused, share = _certified(layer, seen, slope, offset, error, samples, levels)
        known, claimed = len(samples), torch.cat([claimed, found])
        samples, labels = torch.cat([samples, found]), torch.cat([labels, classes])
        added = torch.cat([added, caused])
        slope, offset = slope - caused.T @ found, offset - caused.sum(0)
        # In a network with one score, all neurons that are open for the same samples mix them alike. So many
        # neurons may hold a mixture, which has the column of one of its samples. Nothing tells which is which
        # before all columns are known.
        if not layer.known and not (kept := ~_alike(added).any(1)).all():
            samples, labels, added = samples[kept], labels[kept], added[kept]
            slope, offset = layer.slope - added.T @ samples, layer.offset - added.sum(0)
        if len(samples) == known:
            break
        error = torch.hypot(error, _carried(layer, seen, found, caused, share))
    rank = len(seen.values)
    columns = seen.left[:0]
    # Fewer samples than this have too few columns.
    if len(claimed) >= rank - layer.any_loss:
        columns = columns_of(layer, seen, claimed)[0]
        columns = columns[~_alike(columns).tril().any(1)]
    if layer.any_loss and len(columns) == rank - 1:
        columns = torch.cat([columns, last_column(layer, seen, columns)])
    if len(columns) == rank:
        exact = samples_of(layer, seen, columns)
        if len(exact.samples) == len(columns):
            return exact
    return Solved(samples[: layer.batch], labels[: layer.batch])


def _certified(
    layer: FirstLayer, seen: Span, slope: Tensor, offset: Tensor, error: Tensor, known: Tensor,
    levels: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return new samples, labels, what they add to the offset [n, neurons], and how far they may be off."""
    neurons = (offset.abs() > READABLE * error).nonzero().squeeze(1)
    # All samples lie in the span, so the projection onto it only removes noise from a ratio.
    ratios = (slope[neurons] @ seen.right.T) / offset[neurons, None]
    pixels, slack = ratios @ seen.right, SLACK * (layer.high - layer.low)
    within = ((pixels > layer.low - slack) & (pixels < layer.high + slack)).all(1)
    neurons, ratios = neurons[within], ratios[within]
    relative = error[neurons] / offset[neurons].abs()
    apart = torch.cdist(ratios, ratios) / ratios.norm(dim=1, keepdim=True).clamp_min(1e-30)
    alike = apart < (ALIKE * (relative[:, None] + relative)).clamp(1e-6, 1e-2)
    first, group = first_alike(alike).unique(return_inverse=True)
    weights = offset[neurons].square()
    sums = weights.new_zeros(len(first), ratios.shape[1]).index_add_(0, group, ratios * weights[:, None])
    total = weights.new_zeros(len(first)).index_add_(0, group, weights)
    samples = _rounded(sums / total[:, None] @ seen.right, layer, levels)
    # Neurons are off by chance, each by its own, so that the error of their mean is a sum of squares.
    worst = torch.zeros_like(total).scatter_reduce_(0, group, relative, "amax")
    share = torch.zeros_like(total).index_add_(0, group, (relative * weights).square()).sqrt() / total
    if levels is not None:
        # Pixels that are off by less than half a step are exact once they are on their level.
        step = (layer.high - layer.low).amin() / levels
        share = torch.where(2 * share * samples.norm(dim=1) < step, 0.0, share)
    new = ~(torch.cdist(samples, known) <= SAME * samples.norm(dim=1, keepdim=True)).any(1)
    held = group.bincount(minlength=len(first))
    samples, share, worst, held = samples[new], share[new], worst[new], held[new]
    if not layer.known:
        labels, proven, caused = read_twice(layer, seen, samples, held)
    else:
        labels, proven, caused = proof(layer, seen, samples, worst)
    # Of a sample that two groups hold, the group with the smaller error is kept.
    order = share[proven].argsort()
    samples, labels, caused, share = (value[proven][order] for value in (samples, labels, caused, share))
    same = torch.cdist(samples, samples) < SAME * samples.norm(dim=1)
    kept = ~same.tril(-1).any(1)
    return samples[kept], labels[kept], caused[kept], share[kept]


def _alike(columns: Tensor) -> Tensor:
    """Return which of n columns are like an earlier or a later one, up to its length, bool [n, n]."""
    unit = columns / columns.norm(dim=1, keepdim=True)
    return ((unit @ unit.T).abs() > 1 - SAME_COLUMN).fill_diagonal_(False)


def _carried(layer: FirstLayer, seen: Span, samples: Tensor, caused: Tensor, share: Tensor) -> Tensor:
    """Return the error that subtracting these samples leaves in each neuron, [neurons].

    A sample x that adds c to a neuron's offset adds c x to its slope, which is off by |dc| |x| and |c| |dx|.
    Rounding of the layer's output acts as if x were off by the noise too. Squares are added: the sum of all
    that could be grows thirtyfold a round.
    """
    length = samples.norm(dim=1, keepdim=True)
    if not layer.known:
        # The column is as exact as the gradient, and only its scale follows from the sample (`read_twice`).
        steep = (caused @ seen.left / seen.values).norm(dim=1, keepdim=True) / len(seen.values) ** 0.5
        steep = caused.abs() * steep
    else:
        steep = layer.steepness(samples, seen.right)
    off = torch.hypot(share, torch.full_like(share, seen.noise))[:, None]
    return (off * torch.hypot(caused, length * steep)).norm(dim=0)


def _rounded(samples: Tensor, layer: FirstLayer, levels: int | None) -> Tensor:
    """Return samples within their range and, where pixels have `levels`, on the nearest of these."""
    samples = samples.clamp(layer.low, layer.high)
    if levels is None:
        return samples
    step = (layer.high - layer.low) / levels
    return ((samples - layer.low) / step).round() * step + layer.low
