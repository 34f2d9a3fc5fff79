"""Observations of one server, made by the federation's own local training."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leakbench import victims
from leakbench.attacks.observation import Observation
from leakbench.federation import local_update
from leakbench.victims.layers import draw_masks

Make = Callable[..., tuple[Observation, Tensor]]


def observe(
    module: str = "fcnn",
    shape: tuple[int, int, int] = (28, 28, 1),
    k: int = 1,
    rounds: int = 1,
    seed: int = 0,
    kind: str = "gradient",
    generator: nn.Module | None = None,
    change: Callable[[nn.Module], None] | None = None,
    **parameters: Any,
) -> tuple[Observation, Tensor]:
    """Return what the server saw of one client with k random samples per round, and those [rounds, k, C, H, W]."""
    torch.manual_seed(seed)
    model = victims.build(module, shape, 10, parameters)
    if change is not None:
        with torch.no_grad():
            change(model)
    images = torch.rand(rounds, k, shape[2], shape[0], shape[1])
    labels = torch.randint(0, 10, (rounds, k))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    masks = draw_masks(model, (1, rounds, k), torch.Generator().manual_seed(seed))
    update = local_update(model, weights, images, labels, masks, 0.01, None, 1, kind)
    observation = Observation(
        network={"module": module, "parameters": parameters, "shape": list(shape), "classes": 10},
        weights={name: value.numpy()[None] for name, value in weights.items()},
        updates={name: value.numpy()[:, None] for name, value in update.items()},
        origin=torch.zeros(rounds, dtype=torch.int64).numpy(),
        clients=[k],
        kind="gradient" if kind == "gradient" else "model",
        generator=generator,
    )
    return observation, images
