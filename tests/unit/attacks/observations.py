"""Observations of one server, made by the federation's own local training."""

from collections.abc import Callable
from typing import Any

import torch
from observing import seen_of
from torch import Tensor, nn

from leakbench.federation import local_update
from leakbench.networks import victims
from leakbench.networks.layers import by_batch, draw_masks
from leakbench.observations.observation import Observation

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
    levels: int | None = None,
    **parameters: Any,
) -> tuple[Observation, Tensor]:
    """Return what the server saw of one client with k random samples per round, and those [rounds, k, C, H,
    W]. levels: the steps between black and white that pixels are stored in; black and white are there."""
    torch.manual_seed(seed)
    model = victims.build(module, shape, 10, parameters)
    if change is not None:
        with torch.no_grad():
            change(model)
    images = torch.rand(rounds, k, shape[2], shape[0], shape[1])
    if levels is not None:
        images[:, 0, :, 0, 0], images[:, 0, :, 0, 1] = 0, 1
        images = (images * levels).round() / levels
    labels = torch.randint(0, 10, (rounds, k))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    masks = draw_masks(model, (1, rounds, k), torch.Generator().manual_seed(seed))
    update = local_update(model, weights, images, labels, masks, 0.01, None, 1, kind)
    network = {"module": module, "parameters": parameters, "shape": shape}
    mode = "train" if by_batch(model) else "eval"
    return seen_of(model, network, update, k, kind=kind, generator=generator, mode=mode), images


def observe_passes(
    module: str = "lenet-dlg",
    shape: tuple[int, int, int] = (8, 8, 1),
    k: int = 1,
    updates: int = 3,
    passes: int = 2,
    seed: int = 0,
    shuffled: bool = True,
    labels: Tensor | None = None,
) -> tuple[Observation, Tensor, Tensor]:
    """Return what the server saw of one client that went over its set several times, and the set.

    The model moves by 0.1 of the mean gradient after each pass. Returns the images [samples, C, H, W] and
    which of them each update was made of [rounds, k].
    """
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = victims.build(module, shape, 10, {})
    images = torch.rand(updates * k, shape[2], shape[0], shape[1], generator=rng)
    labels = torch.randint(0, 10, (updates * k,), generator=rng) if labels is None else labels
    orders = [
        torch.randperm(updates * k, generator=rng) if shuffled and turn else torch.arange(updates * k)
        for turn in range(passes)
    ]
    index = torch.stack([order.view(updates, k) for order in orders])
    weights = {name: p.detach() for name, p in model.named_parameters()}
    sent, seen = [], []
    for turn in index:
        sent.append(weights)
        seen.append(local_update(model, weights, images[turn], labels[turn], {}, 0.01, None, 1, "gradient"))
        weights = {name: value - 0.1 * seen[-1][name].mean(0) for name, value in weights.items()}
    observation = Observation(
        network={"module": module, "parameters": {}, "shape": list(shape), "classes": 10},
        weights={name: torch.stack([each[name] for each in sent]).numpy() for name in weights},
        updates={name: torch.cat([each[name] for each in seen])[:, None].numpy() for name in weights},
        origin=torch.arange(passes).repeat_interleave(updates).numpy(),
        clients=[k],
        kind="gradient",
        labelling="oracle",
        labels=[labels[index.flatten(0, 1)].numpy()],
    )
    return observation, images, index.flatten(0, 1)
