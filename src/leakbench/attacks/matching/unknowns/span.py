"""Dummy images within the span of the update of the first dense layer, in which all samples lie."""

from typing import Literal

import torch
from torch import Tensor

from leakbench.attacks.exact.membership import spans
from leakbench.attacks.matching.parameterisation import Parameterisation, Unknowns, free
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors


def span(*, start: Literal["normal", "uniform"] = "normal", boxed: bool = False) -> Parameterisation:
    """Return a parameterisation in which an image is its unknowns, projected onto the span of the update.

    So a batch of k images has k² unknowns that count, in place of as many as it has pixels. The
    parameterisation is our own; the span is that of `exact.membership`.

    start: the noise that the unknowns begin as.
    boxed: whether the unknowns, before they are projected, are kept in the range of pixels after each step.

    The parameterisation raises Unfit where `exact.membership.spans` does, and where the first dense layer
    reads no pixels.
    """
    return lambda group, rng: _of(group, group.draw(start, rng), boxed)


def _of(group: Group, drawn: Tensors, boxed: bool) -> Unknowns:
    basis = torch.zeros(len(group.rounds), group.batch, drawn["images"][0, 0].numel())
    places = {number: place for place, number in enumerate(group.rounds.tolist())}
    for seen in spans(group.observation, "unknowns: span"):
        if not seen.of_pixels:
            raise Unfit("attack: unknowns: span needs a first layer that is dense (choose dummies)")
        if seen.client == group.client and seen.round in places and seen.found is not None:
            basis[places[seen.round], : len(seen.found.right)] = seen.found.right.float()
    basis = basis.repeat_interleave(group.restarts, 0).to(group.device)

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        right, images = basis[rows], unknowns["images"]
        return unknowns | {"images": (images.flatten(2) @ right.mT @ right).view_as(images)}

    return Unknowns(drawn, dummies, project=group.clip if boxed else free)
