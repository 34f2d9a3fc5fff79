"""Clients whose records are pictures of scikit-image, as the demo has them, or made from a seed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.audit.doors import demo


def faces(records: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return so many of the demo's pictures [n, 25, 25] and labels, from place `first` on."""
    _, _, (pictures, labels) = demo()
    return pictures[first : first + records], labels[first : first + records]


def mlp(*hidden: int, seed: int = 0, inputs: int = 625, classes: int = 2, dropout: float = 0.0) -> nn.Module:
    """Return dense layers with ReLUs, untrained, in training mode."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


class Own(nn.Module):
    """A network that computes what a function says, from parts of its own."""

    def __init__(self, computes: Callable[[Any, Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.computes = computes
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.computes(self, x)
