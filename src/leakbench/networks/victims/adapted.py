"""Networks for pictures, frozen, with low-rank adapters that clients train: a dense one, and a small ViT."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.networks.layers import freeze, sequential
from leakbench.networks.victims.transformer import Adapted, TransformerBlock

# Its size (`catalogue.costs.Network`), between that of the dense network and that of the ViT.
COST = {"operations": "11.2 * area", "weights": 0.5, "layers": 18, "dense": True}


class ViT(nn.Module):
    """Pictures to logits, from the mean of what blocks of attention make of their patches."""

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int, rank: int, patch: int) -> None:
        super().__init__()
        rows, columns, channels = shape
        self.patches = nn.Unfold(patch, stride=patch)
        self.embed = nn.Linear(channels * patch**2, width)
        self.position = nn.Parameter(0.02 * torch.randn(rows // patch * (columns // patch), width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, 4, rank, causal=False) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def begins(self, x: Tensor) -> Tensor:
        """Return what the first block reads of pictures, [n, patches, width]."""
        out: Tensor = self.embed(self.patches(x).transpose(1, 2)) + self.position
        return out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(self.blocks(self.begins(x))).mean(1))
        return out


def adapted(
    shape: tuple[int, int, int],
    classes: int,
    *,
    kind: Literal["dense", "vit"] = "dense",
    width: Annotated[int, Field(gt=0, multiple_of=4)] = 256,
    rank: Annotated[int, Field(gt=0)] = 64,
    patch: Annotated[int, Field(gt=0)] = 8,
    down: bool = True,
) -> nn.Module:
    """Return a frozen network with adapters, whose B is zero.

    kind: `dense` has a dense layer with an adapter, ReLUs and a head. `vit` has two blocks of attention with
    adapters on query and value.
    width: the number of neurons, or the length of a patch's vector.
    rank: the rank of the adapters.
    patch: the side of a patch of `vit`, in pixels.
    down: whether clients train the matrices A too; without it only the matrices B (FFA-LoRA).
    """
    rows, columns, channels = shape
    if kind == "vit" and (rows % patch or columns % patch):
        raise UserError(
            f"victim: parameters: patch {patch} divides no picture of {rows} × {columns} (change it)"
        )
    network: nn.Module
    if kind == "vit":
        network = ViT(shape, classes, width, rank, patch)
    else:
        first, last = Adapted(rows * columns * channels, width, rank), nn.Linear(width, classes)
        network = sequential(flatten=nn.Flatten(), dense1=first, activation1=nn.ReLU(), dense2=last)
    freeze(network, ("up", "down") if down else ("up",))
    return network
