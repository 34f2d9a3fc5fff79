"""The gradients that dummy images would cause: for many trials at once, and differentiable in the images.

All trials share the weights, so one forward pass and one backward pass to the layers' outputs serve them all;
what a layer read and the gradient at its output then give its weight gradient for each trial. Nothing is
differentiated with respect to the weights by the tape, which a second derivative would otherwise carry along.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from leakbench.matching.batch_statistics import by_trial, normalised
from leakbench.matching.chain import chain, chain_gradients
from leakbench.matching.unlocked import Unlocked, opened
from leakbench.matching.weight_gradient import conv_weight, outer
from leakbench.tensors import Tensors

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Pass:
    """What one layer with parameters read and returned: [trials·batch, …]. `normed`: a norm's input,
    normalised, if it kept it."""

    name: str
    layer: nn.Module
    read: Tensor
    returned: Tensor
    normed: Tensor | None = None


def batch_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of each trial: logits [trials, batch, classes], labels [trials, batch] or
    soft."""
    target = labels.flatten() if labels.dim() == 2 else labels.flatten(0, 1)
    return (
        cross_entropy(logits.flatten(0, 1), target, reduction="none").unflatten(0, logits.shape[:2]).mean(1)
    )


@contextmanager
def watching(model: nn.Module) -> Iterator[list[Pass]]:
    seen: list[Pass] = []
    handles = [
        layer.register_forward_hook(
            lambda layer, inputs, output, name=name: seen.append(
                Pass(name, layer, inputs[0], output, getattr(layer, "normed", None))
            )
        )
        for name, layer in model.named_modules()
        if isinstance(layer, Unlocked) or next(layer.parameters(recurse=False), None) is not None
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def layer_gradients(step: Pass, delta: Tensor, trials: int) -> Tensors:
    layer, x = step.layer, step.read
    each = (trials, len(x) // trials)
    found: Tensors = {}
    match layer:
        case nn.Conv2d():
            found["weight"] = conv_weight(layer, x, delta, trials)
            if layer.bias is not None:
                found["bias"] = delta.unflatten(0, each).sum((1, 3, 4))
        case nn.Linear():
            found["weight"] = outer(delta.unflatten(0, each), x.unflatten(0, each))
            if layer.bias is not None:
                found["bias"] = delta.unflatten(0, each).sum(1)
        case nn.BatchNorm2d():
            normed = normalised(layer, x, trials) if step.normed is None else step.normed
            found["weight"] = (delta * normed).unflatten(0, each).sum((1, 3, 4))
            found["bias"] = delta.unflatten(0, each).sum((1, 3, 4))
        case Unlocked():
            assert step.normed is not None
            found["scale"] = (delta * step.normed).unflatten(0, each).sum((1, 3, 4))
            found["shift"] = delta.unflatten(0, each).sum((1, 3, 4))
        case _:
            raise TypeError(f"{type(layer).__name__}: no rule for the gradient of its weights")
    return {f"{step.name}.{name}" if step.name else name: value for name, value in found.items()}


def gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    loss: Loss = batch_loss,
    weights: Tensors | None = None,
    factors: Tensors | None = None,
) -> tuple[Tensors, Tensor]:
    """Return parameter → gradient [trials, *shape] and, for their values alone, the losses [trials].

    `images` [trials, batch, channels, rows, columns] must require a gradient (or `weights` must). `labels`
    [trials, batch] are classes, or [trials, batch, classes] probabilities. `weights` replaces the model's
    own. The model is in evaluation mode: batch norm uses its running statistics, so that images of a batch do
    not mix. Where it keeps none it uses those of each trial's batch. `factors`: a lock's scale and shift
    [trials, channels], whose own gradients are then told too.
    """
    trials = len(images)
    leaves = chain(model) if loss is batch_loss and weights is None else None
    with opened(model, factors):
        chained = chain_gradients(leaves, images, labels, factors) if leaves else None
    if chained:
        return chained
    passes, losses = layer_passes(model, images, labels, loss, weights, factors)
    found: Tensors = {}
    for step, delta in passes:
        found |= layer_gradients(step, delta, trials)
    names = [name for name, _ in model.named_parameters()]
    if factors:
        names += [name for name in found if name not in names]
    return {name: found[name] for name in names}, losses


def layer_passes(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    loss: Loss = batch_loss,
    weights: Tensors | None = None,
    factors: Tensors | None = None,
    differentiable: bool = True,
) -> tuple[list[tuple[Pass, Tensor]], Tensor]:
    """Return each layer's pass with the loss's gradient at what it returned, and the losses [trials], as of
    `gradients`.

    Unless `differentiable`, the gradients cannot be differentiated again, which spares memory.
    """
    with opened(model, factors), by_trial(model, len(images)), watching(model) as seen:
        flat = images.flatten(0, 1)
        logits = model(flat) if weights is None else functional_call(model, weights, (flat,))
    losses = loss(logits.unflatten(0, images.shape[:2]), labels)
    returned = [step.returned for step in seen]
    deltas = torch.autograd.grad(losses.sum(), returned, create_graph=differentiable)
    return list(zip(seen, deltas, strict=True)), losses
