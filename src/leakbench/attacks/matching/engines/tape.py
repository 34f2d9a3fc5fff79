"""Gradients of many trials by one forward pass and one backward pass that ends at the layers' outputs.

A layer's weight gradient follows, for each trial, from what it read and from the gradient of the loss at its
output. So autograd differentiates nothing in the weights, which a second derivative would have to carry
along.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from leakbench.attacks.matching.engines.layers import rule
from leakbench.base.tensors import Tensors
from leakbench.networks.batch_statistics import by_trial
from leakbench.networks.layers import hooked
from leakbench.networks.per_trial import hidden, own_names


class Taped(NamedTuple):
    """What a layer read and returned, [trials·batch, …]; `normed` is what a norm kept, normalised."""

    name: str
    layer: nn.Module
    read: Tensor
    returned: Tensor
    normed: Tensor | None = None


def batch_loss(logits: Tensor, labels: Tensor) -> Tensor:
    target = labels.flatten() if labels.dim() == 2 else labels.flatten(0, 1)
    return (
        cross_entropy(logits.flatten(0, 1), target, reduction="none").unflatten(0, logits.shape[:2]).mean(1)
    )


@contextmanager
def out_of_place(model: nn.Module) -> Iterator[None]:
    """Keep the activations of `model` from overwriting what the layer before them returned."""
    layers = [layer for layer in model.modules() if getattr(layer, "inplace", False)]
    for layer in layers:
        layer.inplace = False  # type: ignore[assignment]
    try:
        yield
    finally:
        for layer in layers:
            layer.inplace = True  # type: ignore[assignment]


@contextmanager
def watching(model: nn.Module) -> Iterator[list[Taped]]:
    """Note each use of a layer that has parameters, in the order of use, while the context lasts."""
    seen: list[Taped] = []
    hooks = [
        layer.register_forward_hook(
            lambda layer, inputs, output, name=name: seen.append(
                Taped(name, layer, inputs[0], output, getattr(layer, "normed", None))
            )
        )
        for name, layer in model.named_modules()
        if own_names(layer)
    ]
    with hooked(hooks), out_of_place(model):
        yield seen


def layer_gradients(step: Taped, delta: Tensor, trials: int) -> Tensors:
    """Return parameter → gradient [trials, *shape] for one use of a registered layer."""
    known = rule(step.layer)
    assert known is not None
    found = known.gradients(step.layer, step.read, delta, trials, step.normed)
    return {f"{step.name}.{name}" if step.name else name: value for name, value in found.items()}


def summed(passes: Sequence[tuple[Taped, Tensor]], trials: int) -> Tensors:
    """Return parameter → gradient [trials, *shape], summed over all uses of each layer."""
    found: Tensors = {}
    for step, delta in passes:
        for name, value in layer_gradients(step, delta, trials).items():
            found[name] = found[name] + value if name in found else value
    return found


def layer_passes(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    weights: Tensors | None = None,
    differentiable: bool = True,
) -> tuple[list[tuple[Taped, Tensor]], Tensor]:
    """Return each use of a layer with the loss's gradient at the layer's output, and the losses."""
    with ExitStack() as stack:
        stack.enter_context(by_trial(model, len(images)))
        seen = stack.enter_context(watching(model))
        # The only one of torch's computations of attention that can be differentiated twice.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        flat = images.flatten(0, 1)
        logits = model(flat) if weights is None else functional_call(model, weights, (flat,))
    losses = batch_loss(logits.unflatten(0, images.shape[:2]), labels)
    returned = [step.returned for step in seen]
    deltas = torch.autograd.grad(losses.sum(), returned, create_graph=differentiable)
    return list(zip(seen, deltas, strict=True)), losses


def tape_gradients(
    model: nn.Module, images: Tensor, labels: Tensor, weights: Tensors | None = None
) -> tuple[Tensors, Tensor]:
    """Compute what `gradients.gradients` computes, by the rules of the layers."""
    passes, losses = layer_passes(model, images, labels, weights)
    found = summed(passes, len(images))
    names = [*(name for name, _ in model.named_parameters()), *hidden(model)]
    for name in names:
        if name not in found:
            raise TypeError(f"{name} belongs to no layer that was called")
    return {name: found[name] for name in names}, losses
