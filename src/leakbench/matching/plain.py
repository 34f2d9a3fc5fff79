"""Gradients by plain autograd, one trial after another: slow, and right for any torch module."""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from leakbench.matching.tape import Loss, batch_loss
from leakbench.matching.unlocked import Unlocked, opened
from leakbench.tensors import Tensors


def plain_gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    loss: Loss = batch_loss,
    weights: Tensors | None = None,
    factors: Tensors | None = None,
    differentiable: bool = True,
) -> tuple[Tensors, Tensor]:
    """Return what `gradients.gradients` does, of the same arguments.

    Unless `differentiable`, the gradients cannot be differentiated again, which spares memory. A parameter
    that the loss does not depend on has a gradient of zero.
    """
    start = dict(model.named_parameters()) if weights is None else weights
    locks = [name for name, layer in model.named_modules() if isinstance(layer, Unlocked)] if factors else []
    found: list[Tensors] = []
    losses: list[Tensor] = []
    for trial in range(len(images)):
        leaves = {n: v if v.requires_grad else v.detach().requires_grad_() for n, v in start.items()}
        own = {n: v[trial : trial + 1] for n, v in (factors or {}).items()}
        own = {n: v if v.requires_grad else v.detach().requires_grad_() for n, v in own.items()}
        with opened(model, own or None), sdpa_kernel(SDPBackend.MATH):
            logits = functional_call(model, leaves, (images[trial],))
        value = loss(logits[None], labels[trial : trial + 1]).sum()
        asked = leaves | {f"{lock}.{name}": v for lock in locks for name, v in own.items()}
        each = torch.autograd.grad(
            value, list(asked.values()), create_graph=differentiable, materialize_grads=True
        )
        # A lock's factors have the trial as their first axis.
        found.append({n: g if n in start else g[0] for n, g in zip(asked, each, strict=True)})
        losses.append(value)
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}, torch.stack(losses)
