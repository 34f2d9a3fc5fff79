"""The gradients of a chain of layers, and their derivative as a rate (Pearlmutter 1994) instead of by a
second tape.

Let V be the cotangent of the weight gradients g(x). Then <V, g(x)> is the rate at which the loss grows as the
weights move along V, and its derivative in x is the rate of the loss's own. So one pass of rates forward and
one back, beside the values that the first two passes kept, give what the tape works out of a graph of its own
derivatives.

Activations and their slopes are [n, …] for all trials' images, weights' rates [trials, *shape].
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.matching.hidden import HiddenNorm, own_names
from leakbench.matching.layers import RULES, rule
from leakbench.matching.layers.convolution import FUSED_BELOW
from leakbench.matching.layers.norm import own_rates
from leakbench.matching.layers.rule import Link
from leakbench.matching.windows import places
from leakbench.tensors import Tensors


def _leaves(model: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    if type(model) is not nn.Sequential:
        return [(prefix, model)]
    return [
        leaf
        for name, child in model._modules.items()
        if child is not None
        for leaf in _leaves(child, f"{prefix}.{name}".strip("."))
    ]


def chain(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """Return name and layer of each layer of a model that is a chain of registered layers, else None.

    A normalisation of the images in front of it is the caller's.
    """
    leaves, flat = _leaves(model), False
    for place, (_, layer) in enumerate(leaves):
        flat = flat or isinstance(layer, nn.Flatten)
        known = rule(layer)
        again = own_names(layer) and any(layer is before for _, before in leaves[:place])
        if known is None or known.link is None or again or (isinstance(layer, nn.Linear) and not flat):
            return None
    return leaves


def _link(layer: nn.Module) -> Link:
    found = RULES[type(layer)].link
    assert found is not None
    return found


def _unfolds(leaves: list[tuple[str, nn.Module]], images: Tensor) -> bool:
    """Return whether for every convolution unfolding what it reads beats convolving with each trial's own
    weights."""
    batch, size = images.shape[1], tuple(images.shape[-2:])
    for _, layer in leaves:
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            size = places(layer, *size)
        if isinstance(layer, nn.Conv2d) and batch * layer.weight.numel() * math.prod(size) > FUSED_BELOW:
            return False
    return True


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, labels: Tensor, leaves: list[tuple[str, nn.Module]], *hidden: Tensor
    ) -> tuple[Tensor, ...]:
        trials, batch = images.shape[:2]
        x, steps = images.flatten(0, 1), []
        for _, layer in leaves:
            read = x.shape
            x, kept = _link(layer).forward(layer, x, trials)
            steps.append((read, kept))
        shares = x.log_softmax(1)
        known = nn.functional.one_hot(labels, x.shape[1]) if labels.dim() == 2 else labels
        wanted = known.flatten(0, 1).to(x)
        losses = -(wanted * shares).sum(1).view(trials, batch).mean(1)
        p, total = shares.exp(), wanted.sum(1, keepdim=True) / batch
        slope = p * total - wanted / batch
        slopes: list[Tensor] = []
        found: list[Tensor] = []
        for place in reversed(range(len(leaves))):
            layer, (read, kept) = leaves[place][1], steps[place]
            link = _link(layer)
            slopes.insert(0, slope)
            found[:0] = link.gradients(layer, kept, slope, trials).values()
            # Nobody asks for the loss's slope at the images.
            if place:
                slope = link.backward(layer, kept, read, slope)
        ctx.leaves, ctx.reads = leaves, [read for read, _ in steps]
        ctx.counts = [len(kept) for _, kept in steps]
        ctx.save_for_backward(p, total, *slopes, *(each for _, kept in steps for each in kept))
        ctx.shape = images.shape
        ctx.mark_non_differentiable(losses)
        return losses, *found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        p, total, *saved = ctx.saved_tensors
        slopes, rest = saved[: len(ctx.leaves)], iter(saved[len(ctx.leaves) :])
        given = iter(cotangents[1:])
        steps = []
        for (_, layer), count in zip(ctx.leaves, ctx.counts, strict=True):
            own = {name: next(given) for name in own_names(layer)}
            steps.append((_link(layer), layer, [next(rest) for _ in range(count)], own))
        moved: list[Tensor | None] = [None]
        for (link, layer, kept, own), read in zip(steps, ctx.reads, strict=True):
            still = moved[-1] is None and not own
            moved.append(None if still else link.rate(layer, kept, read, moved[-1], own))
        last = moved.pop()
        assert last is not None
        apart = last - (p * last).sum(1, keepdim=True)
        rate = p * apart * total
        to_labels = (-apart / ctx.shape[1]).view(*ctx.shape[:2], -1) if ctx.needs_input_grad[1] else None
        to_hidden: list[Tensor] = []
        for place in reversed(range(len(steps))):
            link, layer, kept, own = steps[place]
            if isinstance(layer, HiddenNorm):
                to_hidden[:0] = own_rates(kept, slopes[place], moved[place], rate, ctx.shape[0])
            rate = link.back(layer, kept, ctx.reads[place], slopes[place], moved[place], rate, own)
        return rate.view(ctx.shape), to_labels, None, *to_hidden


def chain_gradients(
    leaves: list[tuple[str, nn.Module]], images: Tensor, labels: Tensor
) -> tuple[Tensors, Tensor] | None:
    """Return parameter → gradient [trials, *shape], differentiable once in images, labels and hidden
    parameters, and the losses [trials].

    images [trials, batch, channels, rows, columns]; labels [trials, batch] classes, or [trials, batch,
    classes] probabilities. None where a convolution is too large to be unfolded.
    """
    if not _unfolds(leaves, images):
        return None
    lent = [
        each for _, layer in leaves if isinstance(layer, HiddenNorm) for each in (layer.weight, layer.bias)
    ]
    losses, *found = _Gradients.apply(images, labels, leaves, *lent)
    names = [f"{name}.{own}".strip(".") for name, layer in leaves for own in own_names(layer)]
    return dict(zip(names, found, strict=True)), losses
