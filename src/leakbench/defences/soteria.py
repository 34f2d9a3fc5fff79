"""Soteria: hide the features that images move least from the last dense layer (Sun et al., CVPR 2021)."""

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.base.errors import UserError
from leakbench.defences import Batch, Defence, Update

# Thousands of calls of torch for each sample, whose own gradient it changes (`catalogue.costs`).
COST = 10


# How many derivatives are taken at once: by vectors (features), and by copies of images.
FEATURES, COPIES = 64, 256


def last_dense(network: nn.Module) -> tuple[str, nn.Linear]:
    """Return the name of the last dense layer and the layer itself."""
    found = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not found:
        raise UserError(
            "victim: has no dense layer, whose inputs defence soteria hides (choose a victim with one)"
        )
    return found[-1]


def representation(batch: Batch, images: Tensor) -> Tensor:
    """Return what the last dense layer reads when the network sees `images`, [n, features]."""
    seen: list[Tensor] = []
    with last_dense(batch.model)[1].register_forward_pre_hook(lambda _, given: seen.append(given[0])):
        functional_call(batch.model, {**batch.fixed, **batch.weights, **batch.masks}, (images,))
    return seen[-1]


def sensitivity(batch: Batch, offset: float) -> Tensor:
    """Return the score of each feature [features], a sum over the batch.

    For each image the norm of the feature's derivative by the image is divided by the feature plus `offset`.
    """
    convolves = any(isinstance(layer, nn.Conv2d) for layer in batch.model.modules())
    with torch.enable_grad():
        norms, features = (_of_copies if convolves else _of_vectors)(batch)
    return (norms / (features.detach().T + offset)).sum(1)


def _of_vectors(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the norms of the features' derivatives by each image, and the features."""
    images = batch.images.detach().clone().requires_grad_()
    features = representation(batch, images)
    norms = []
    for few in torch.eye(features.shape[1], device=features.device).split(FEATURES):
        (slopes,) = torch.autograd.grad(
            features, images, few[:, None].expand(-1, len(features), -1), is_grads_batched=True,
            retain_graph=True,
        )  # fmt: skip
        norms.append(slopes.flatten(2).norm(dim=2))
    return torch.cat(norms), features


def _of_copies(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the same as `_of_vectors`, from one large batch with a copy of the images for each feature.

    For a single image copies are twice as fast: torch takes a convolution's vectors one after another.
    """
    images, n = batch.images.detach(), len(batch.images)
    features = representation(batch, images)
    norms = []
    for few in torch.arange(features.shape[1], device=features.device).split(max(1, COPIES // n)):
        copies = images.repeat(len(few), *[1] * (images.dim() - 1)).requires_grad_()
        masks = {name: mask.repeat(len(few), *[1] * (mask.dim() - 1)) for name, mask in batch.masks.items()}
        found = representation(replace(batch, masks=masks), copies).unflatten(0, (len(few), n))
        own = found.gather(2, few[:, None, None].expand(-1, n, 1))
        (slopes,) = torch.autograd.grad(own.sum(), copies)
        norms.append(slopes.flatten(1).norm(dim=1).unflatten(0, (len(few), n)))
    return torch.cat(norms), features


def soteria(
    *, share: Annotated[float, Field(gt=0, lt=1)] = 0.6, offset: Annotated[float, Field(gt=0)] = 0.1
) -> Defence:
    """Set those columns of the last dense layer's gradient to zero that belong to features with low scores.

    A feature is hidden if the absolute value of its score is below the quantile `share` of all scores. Score
    and defaults are those of the authors' code (github.com/jeremy313/Soteria, 23cf90e). Copies of this code
    in other repositories have an `offset` of 1e-10.

    share: share of the features that are hidden, the lowest scores first.
    offset: added to a feature before its derivative is divided by it.

    Raises UserError for a network without a dense layer.
    """

    def model(network: nn.Module, rng: torch.Generator) -> nn.Module:
        last_dense(network)
        return network

    def examples(batch: Batch, rng: torch.Generator) -> Update:
        gradient = batch.mean()
        score = sensitivity(batch, offset)
        name = f"{last_dense(batch.model)[0]}.weight"
        return gradient | {name: gradient[name] * (score.abs() >= score.quantile(share))}

    return Defence(model=model, examples=examples)
