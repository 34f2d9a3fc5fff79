"""Gradients by plain autograd, one trial after another: slow, and correct for any torch module."""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from leakbench.attacks.matching.engines.tape import batch_loss
from leakbench.base.tensors import Tensors
from leakbench.networks.per_trial import drawn, hidden, lent


def plain_gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    weights: Tensors | None = None,
    differentiable: bool = True,
) -> tuple[Tensors, Tensor]:
    """Compute what `gradients.gradients` computes, by plain autograd."""
    start = dict(model.named_parameters()) if weights is None else weights
    every = {name: value.expand(len(images), -1) for name, value in hidden(model).items()}
    chance = drawn(model, len(images))
    found: list[Tensors] = []
    losses: list[Tensor] = []
    for trial in range(len(images)):
        leaves = {n: v if v.requires_grad else v.detach().requires_grad_() for n, v in start.items()}
        own = {n: v[trial : trial + 1] for n, v in every.items()}
        own = {n: v if v.requires_grad else v.detach().requires_grad_() for n, v in own.items()}
        kept = {n: v[trial : trial + 1] for n, v in chance.items()}
        with lent(model, own | kept), sdpa_kernel(SDPBackend.MATH):
            logits = functional_call(model, leaves, (images[trial],))
        value = batch_loss(logits[None], labels[trial : trial + 1]).sum()
        asked = leaves | own
        each = torch.autograd.grad(
            value, list(asked.values()), create_graph=differentiable, materialize_grads=True
        )
        # A hidden parameter, and so its gradient, has the trial as its first axis.
        found.append({n: g[0] if n in own else g for n, g in zip(asked, each, strict=True)})
        losses.append(value)
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}, torch.stack(losses)
