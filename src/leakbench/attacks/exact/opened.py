"""Which neurons of a layer are open for which sample."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def opened(model: nn.Module, layer: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output of a layer for each sample, and the gradient of the summed loss by it."""
    kept: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        kept.append(output.detach().clone().requires_grad_())
        return kept[-1].clone()

    with layer.register_forward_hook(keep), torch.enable_grad():
        loss = cross_entropy(model(images), labels, reduction="sum")
        (slope,) = torch.autograd.grad(loss, kept[0])
    return kept[0].detach().flatten(0, -2), slope.flatten(0, -2)
