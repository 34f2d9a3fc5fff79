"""PRECODE: a network with a variational bottleneck before its last layer (Scheliga et al., WACV 2022)."""

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus

from leakbench.networks.layers import RandomLayer, sequential
from leakbench.networks.victims.lenet_dlg import lenet_dlg
from leakbench.networks.victims.mlp import mlp

# Since 2 gradients of gradients through the bottleneck count its divergence once.
NUMERICS = 2

COST = {"operations": "area * (10 if network == 'mlp' else 2.7)", "layers": "6 if network == 'mlp' else 7",
        "weights": "5 if network == 'mlp' else 0.7"}  # fmt: skip


def precode(
    shape: tuple[int, int, int],
    classes: int,
    *,
    network: Literal["mlp", "lenet-dlg"] = "mlp",
    width: Annotated[int, Field(gt=0)] = 256,
    weight: Annotated[float, Field(ge=0)] = 1e-3,
) -> nn.Module:
    """Put a variational bottleneck before the last layer of a network.

    The MLP and the defaults are those of the authors' code (github.com/dAI-SY-Group/PRECODE).

    network: two layers of 1,024 ReLUs (`mlp`), or DLG's LeNet.
    width: how many numbers the bottleneck draws.
    weight: the weight of the bottleneck's divergence in the loss.
    """
    if network == "mlp":
        whole: Any = mlp(shape, classes, hidden=(1024, 1024))
    else:
        whole = lenet_dlg(shape, classes)
    layers = dict(whole.named_children())
    last = list(layers)[-1]
    final = layers.pop(last)
    return sequential(**layers, bottleneck=Bottleneck(final.in_features, width, weight), **{last: final})


class Bottleneck(RandomLayer):
    """Encode features as means and deviations, and decode normal numbers drawn by them, or the means."""

    def __init__(self, features: int, width: int, weight: float) -> None:
        super().__init__(width)
        self.encoder, self.decoder = nn.Linear(features, 2 * width), nn.Linear(width, features)
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        mean, raw = self.encoder(x).chunk(2, -1)
        deviation = softplus(raw)
        mean, deviation = _Divergence.apply(mean, deviation, self.weight * self.trials)
        decoded: Tensor = self.decoder(mean + deviation * self.keep if self.keep.dim() else mean)
        return decoded

    def draw(self, n: tuple[int, ...], rng: torch.Generator) -> Tensor:
        return torch.randn((*n, self.width), generator=rng)


class _Divergence(torch.autograd.Function):
    """Return means and deviations [n, width] unchanged, and add to their gradients that of their divergence.

    No layer sees the loss, of which the divergence is a term: the mean over samples of KL(N(mean, deviation²)
    ‖ N(0, 1)) in bits, times `weight`. A second pass must not add it again; third derivatives are not meant.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(mean: Tensor, deviation: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        return mean.clone(), deviation.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        mean, deviation, ctx.weight = inputs
        ctx.save_for_backward(mean, deviation)

    @staticmethod
    def backward(ctx: Any, of_mean: Tensor, of_deviation: Tensor) -> tuple[Tensor, Tensor, None]:
        # A first pass builds a graph or has none before it; a second pass follows one with a graph.
        if torch.is_grad_enabled():
            ctx.differentiated = True
        elif getattr(ctx, "differentiated", False):
            return of_mean, of_deviation, None
        mean, deviation = ctx.saved_tensors
        scale = ctx.weight / (math.log(2) * len(mean))
        return of_mean + scale * mean, of_deviation + scale * (deviation - 1 / deviation), None
