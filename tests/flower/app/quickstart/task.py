"""The network, each client's private images, and its training."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

SHAPE, CLASSES, WIDTH = (8, 8, 1), 4, 32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense1 = nn.Linear(64, WIDTH)
        self.dense2 = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.dense2(self.dense1(images.flatten(1)).relu())


def load_data(client: int) -> tuple[Tensor, Tensor]:
    """Return the images [n, 1, 8, 8] in [0, 1] and the labels [n] of a client, the same in every round: one
    image of client 0, two of client 1 and so on."""
    images = torch.rand(client + 1, 1, 8, 8, generator=torch.Generator().manual_seed(100 + client))
    return images, torch.arange(client + 1) % CLASSES


def train(net: nn.Module, images: Tensor, labels: Tensor, lr: float, mu: float) -> float:
    """Take one step on all images; `mu` is the weight of FedProx's distance from the model that was sent."""
    sent = [value.detach().clone() for value in net.parameters()]
    loss = cross_entropy(net(images), labels)
    for now, before in zip(net.parameters(), sent, strict=True):
        loss = loss + mu / 2 * (now - before).square().sum()
    loss.backward()
    torch.optim.SGD(net.parameters(), lr).step()
    return loss.item()
