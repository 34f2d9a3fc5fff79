"""Alignment: which of the images that a server holds were in a batch, even behind noise and norm bounds."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from leakbench.base.errors import Unfit
from leakbench.networks.layers import tokens
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The largest number of floating-point numbers in the gradients that are computed at once.
FLOATS = 25_000_000
# A candidate is taken for private if its score exceeds the median candidate's by this many deviations.
FAR = 4.0
# What it costs: the gradient of each candidate under each label, times each update.
COST = {"products": "labels * held * weights * 2 * (3 + updates)", "calls": "labels * held * 0.01 / 100"}


def _directions(
    observation: Observation, origin: int, held: Tensor, tried: Tensor, signs: bool
) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of the pairs of a held image and a label, and unit gradients [pairs, coordinates]."""
    model, count = observation.model(origin), tried.shape[1]
    weights = {name: value.detach() for name, value in model.named_parameters()}
    fixed = dict(model.named_buffers())

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, {**fixed, **parameters}, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    size = sum(value.numel() for value in weights.values())
    few = max(1, FLOATS // (size * count))
    for start in range(0, len(held), few):
        part = slice(start, start + few)
        found = each(weights, held[part].repeat_interleave(count, 0), tried[part].flatten(0, 1))
        flat = torch.cat([found[name].flatten(1) for name in observation.updates], 1)
        flat = flat.sign() if signs else flat
        yield slice(start * count, start * count + len(flat)), torch.nn.functional.normalize(flat)


@torch.no_grad()
def alignment(
    observation: Observation,
    rng: torch.Generator,
    *,
    signs: Annotated[bool, Field(exclude_if=lambda on: on == 0)] = False,
) -> Reconstruction:
    """Score for each candidate how far its gradient points in the direction of the update.

    If each sample's gradient is brought to one norm and normal noise is added, the inner product of the
    update and a candidate's direction is the logarithm of the candidate's likelihood in a batch of one, up to
    a constant. So no other score finds the candidate more often (Neyman and Pearson). A candidate whose class
    is not known gets the best score over all classes; if labels are given, over those in the batch. The
    labels of a sentence are its own tokens. A candidate whose score lies far above the median candidate's is
    taken for private.

    The score needs no span: an update keeps its direction over several steps, also of Adam, and below any
    rank of adapters.

    signs: whether the attack is adapted to coordinates that are cut off far below their size and sent with
    Laplacian noise. Their signs are then all that was sent of them, and behind such noise the signs of what
    was received are the score that finds weak ones most often.

    Raises Unfit where the observation holds no candidates, and where the gradient of a single sample is
    not defined: with hidden parameters, and where norms use the statistics of the batch.
    """
    held = observation.held("alignment")
    if observation.hidden or observation.mode == "train":
        raise Unfit(
            "attack: alignment needs the gradient of each candidate alone, which hidden parameters and norms "
            "that go by the batch do not leave (attack it with membership)"
        )
    classes = observation.network["classes"]
    text = any(isinstance(layer, nn.Embedding) for layer in observation.model().modules())
    # A sentence has its own tokens for labels.
    tried = tokens(held, classes)[:, None, 1:] if text else torch.arange(classes).expand(len(held), -1)
    count, lead = len(held), (observation.rounds, len(observation.clients))
    aligned = torch.empty(*lead, count * tried.shape[1])
    sign = 1.0 if observation.kind == "gradient" else -1.0
    for origin, rounds in observation.by_model():
        updates = [observation.update(name)[rounds].flatten(2) for name in observation.updates]
        seen = sign * torch.cat(updates, 2)
        seen = torch.nn.functional.normalize(seen.sign() if signs else seen, dim=2)
        for pairs, directions in _directions(observation, origin, held, tried, signs):
            aligned[rounds, :, pairs] = seen @ directions.T
    aligned = aligned.view(*lead, count, -1)
    if observation.labels is not None and tried.dim() == 2:
        for client, labels in enumerate(observation.labels):
            there = torch.zeros(observation.rounds, classes, dtype=torch.bool)
            there.scatter_(1, torch.from_numpy(np.array(labels)), True)
            aligned[:, client] = aligned[:, client].where(there[:, None], -1.0)
    score = aligned.amax(-1).double()
    median = score.median(-1, keepdim=True).values
    deviation = 1.4826 * (score - median).abs().median(-1, keepdim=True).values
    private = score > median + FAR * deviation
    return Reconstruction(
        torch.zeros(*lead, count, 0), private, target="candidates", span_distance=(1 - score) / 2
    )
