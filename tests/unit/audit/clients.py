"""Clients whose records are pictures of scikit-image, as the demo has them, or made from a seed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.audit.audit import demo
from leakbench.audit.client import Client, Loss, Truth, client, view
from leakbench.audit.replay import Round
from leakbench.observations.observation import Observation


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


def frozen(network: nn.Module, *names: str) -> nn.Module:
    """Freeze parameters of a network in place, and return the network."""
    for name in names:
        network.get_parameter(name).requires_grad_(False)
    return network


class Own(nn.Module):
    """A network that computes what a function says, from parts of its own."""

    def __init__(self, computes: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.computes = computes
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        return self.computes(self, *inputs, **named)


def client_of(
    network: nn.Module, batch: Any = 4, records: int | None = None, steps: int = 1, lr: float = 0.01,
    loss: Loss = nn.CrossEntropyLoss(),  # noqa: B008 - it has no state
) -> Client:  # fmt: skip
    """Return a client of a network, with a number of faces or another batch."""
    return client((network, loss, faces(batch) if isinstance(batch, int) else batch), records, steps, lr)


def round_of(network: nn.Module, batch: Any = 4, **settings: Any) -> Round:
    return client_of(network, batch, **settings).play()


def observed(network: nn.Module, batch: Any = 4, **settings: Any) -> tuple[Observation, Truth]:
    return view(round_of(network, batch, **settings))


def convolutional() -> nn.Module:
    """Return a network that reads `pictures`, with a batch norm, in training mode."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(256, 10),
    )  # fmt: skip


def pictures(records: int = 2) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.rand(records, 3, 8, 8), torch.randint(0, 10, (records,))
