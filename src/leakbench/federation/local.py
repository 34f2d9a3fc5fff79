"""Local training of many clients at once: one vmapped gradient serves all rounds from the same model."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from leakbench.base.tensors import Tensors
from leakbench.defences import Batch, gradients_of

# The number of weights that are moved at once: half a megabyte.
CACHED = 1 << 17


def local_update(
    model: nn.Module, weights: Tensors, images: Tensor, labels: Tensor, masks: Tensors,
    local: Mapping[str, Any], kind: str, buffers: Tensors | None = None,
    examples: Callable[[Batch], Tensors] | None = None, orders: Tensor | None = None,
) -> Tensors:  # fmt: skip
    """Return what each client sends back, parameter → [rounds, *shape], by a federation's settings `local`.

    A client that sends weights takes the difference after rounding, which costs the attacker samples (Fidel,
    MNIST, ReLU with dropout, k = 30: 19.5 revealed where exact steps reveal 21.2).
    """
    loss = LOSSES[local.get("loss", "cross-entropy")]

    def gradient(current: Tensors, shared: bool, x: Tensor, y: Tensor, keep: Tensors) -> Tensors:
        """Return each round's gradient [rounds, *shape]; before any step the weights are `shared`."""
        return gradients_of(model, current, x, y, keep, buffers or {}, examples, shared, loss)

    if kind == "gradient":
        return gradient(weights, True, images, labels, {name: mask[0] for name, mask in masks.items()})
    size, epochs = local["batch_size"] or images.shape[1], local["epochs"]
    decay = local.get("weight_decay", 0.0)
    current, shared = weights, True
    direction = DIRECTIONS[local.get("optimiser", "sgd")]()
    rounds = torch.arange(len(labels))[:, None]
    for epoch in range(epochs):
        x, y = (images, labels) if orders is None else (v[rounds, orders[epoch]] for v in (images, labels))
        for begin in range(0, images.shape[1], size):
            part = slice(begin, begin + size)
            keep = {name: mask[epoch][:, part] for name, mask in masks.items()}
            slopes = direction(gradient(current, shared, x[:, part], y[:, part], keep))
            last = epoch == epochs - 1 and begin + size >= images.shape[1]
            current = _stepped(current, slopes, local["lr"], decay, shared, weights if last else {})
            shared = False
    return current


def _adamw() -> Callable[[Tensors], Tensors]:
    """Return what AdamW steps along in place of gradients, name → [rounds, *shape]; it remembers them."""
    means: Tensors = {}
    squares: Tensors = {}
    steps = count(1)

    def direction(slopes: Tensors) -> Tensors:
        step, out = next(steps), {}
        for name, slope in slopes.items():
            for kept, value, beta in ((means, slope, 0.9), (squares, slope.square(), 0.999)):
                kept[name] = value * (1 - beta) + (kept[name] * beta if name in kept else 0)
            mean, square = means[name] / (1 - 0.9**step), squares[name] / (1 - 0.999**step)
            out[name] = mean / (square.sqrt() + 1e-8)
        return out

    return direction


def _momentum() -> Callable[[Tensors], Tensors]:
    """Return what torch's SGD with momentum steps along: the running sum of gradients."""
    sums: Tensors = {}

    def direction(slopes: Tensors) -> Tensors:
        sums.update({n: v + 0.9 * sums[n] if n in sums else v for n, v in slopes.items()})
        return sums

    return direction


# What each optimiser steps along, by its name.
DIRECTIONS: dict[str, Callable[[], Callable[[Tensors], Tensors]]] = {
    "sgd": lambda: lambda slopes: slopes,
    "momentum": _momentum,
    "adamw": _adamw,
}


def _numbers(scores: Tensor, labels: Tensor) -> Tensor:
    """Return a number in [0, 1) for each score [n, classes], as each class has its own."""
    k = scores.shape[1]
    return (labels[:, None] + torch.arange(k, device=labels.device)) % k / k


# The loss of scores [n, classes] and labels [n], by its name. Data sets have one class for each sample, so a
# sample's attributes and numbers are those of its class.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": cross_entropy,
    "smoothed": partial(cross_entropy, label_smoothing=0.1),
    "weighted": lambda z, y: cross_entropy(z, y, weight=torch.arange(1.0, z.shape[1] + 1).to(z)),
    "multi-label": lambda z, y: binary_cross_entropy_with_logits(z, (_numbers(z, y) >= 0.5).to(z)),
    "regression": lambda z, y: mse_loss(z, _numbers(z, y).to(z)),
}


def _stepped(
    current: Tensors, slopes: Tensors, lr: float, weight_decay: float, shared: bool, origin: Tensors
) -> Tensors:
    """Return the weights [rounds, *shape] after a step of SGD, minus those of `origin`."""
    moved = {name: torch.empty_like(slope) for name, slope in slopes.items()}
    for name, slope in slopes.items():
        rounds = max(1, CACHED // max(1, current[name].numel() // (1 if shared else len(slope))))
        for start in range(0, len(slope), rounds):
            part = slice(start, start + rounds)
            own = current[name] if shared else current[name][part]
            own = own * (1 - lr * weight_decay) if weight_decay else own
            new = torch.sub(own, slope[part], alpha=lr, out=moved[name][part])
            if origin:
                new.sub_(origin[name])
    return moved
