"""Observations of one server, made by the federation's own local training."""

from typing import Any

import torch
from observing import seen_of, sent_by
from torch import Tensor, nn

from leakbench.networks import victims
from leakbench.networks.layers import by_batch, draw_masks
from leakbench.observations.observation import Observation


def observe(
    module: str = "fcnn", shape: tuple[int, int, int] = (28, 28, 1), k: int = 1, rounds: int = 1,
    seed: int = 0, kind: str = "gradient", generator: nn.Module | None = None, levels: int | None = None,
    **parameters: Any,
) -> tuple[Observation, Tensor]:  # fmt: skip
    """Return what was seen of one client, and its k random samples a round (of `levels`)."""
    torch.manual_seed(seed)
    model = victims.build(module, shape, 10, parameters)
    images = torch.rand(rounds, k, shape[2], shape[0], shape[1])
    if levels is not None:
        images[:, 0, :, 0, 0], images[:, 0, :, 0, 1] = 0, 1
        images = (images * levels).round() / levels
    labels = torch.randint(0, 10, (rounds, k))
    masks = draw_masks(model, (1, rounds, k), torch.Generator().manual_seed(seed))
    update = sent_by(model, images, labels, kind, {"lr": 0.01}, masks=masks, buffers=None)
    network = {"module": module, "parameters": parameters, "shape": shape}
    mode = "train" if by_batch(model) else "eval"
    return seen_of(model, network, update, k, kind=kind, generator=generator, mode=mode), images


def observe_passes(
    k: int = 1, updates: int = 3, passes: int = 2, shuffled: bool = True, labels: Tensor | None = None
) -> tuple[Observation, Tensor, Tensor]:
    """Return what was seen of a client that went over its set several times, moving by 0.1 of each gradient.

    Returns also the images [samples, C, H, W] and which of them each update was made of [rounds, k].
    """
    rng, network = torch.Generator().manual_seed(0), {"module": "lenet-dlg", "shape": (8, 8, 1)}
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (8, 8, 1), 10, {})
    images = torch.rand(updates * k, 1, 8, 8, generator=rng)
    labels = torch.randint(0, 10, (updates * k,), generator=rng) if labels is None else labels
    orders = [
        torch.randperm(updates * k, generator=rng) if shuffled and turn else torch.arange(updates * k)
        for turn in range(passes)
    ]
    index = torch.stack([order.view(updates, k) for order in orders])
    sent, seen = [], []
    for turn in index:
        sent.append({name: value.detach().clone() for name, value in model.named_parameters()})
        seen.append(sent_by(model, images[turn], labels[turn]))
        for name, value in model.named_parameters():
            value.data -= 0.1 * seen[-1][name].mean(0)
    observation = seen_of(
        model, network, {name: torch.cat([each[name] for each in seen]) for name in sent[0]}, k,
        weights={name: torch.stack([each[name] for each in sent]).numpy() for name in sent[0]},
        origin=torch.arange(passes).repeat_interleave(updates).numpy(), labelling="oracle",
        labels=[labels[index.flatten(0, 1)].numpy()],
    )  # fmt: skip
    return observation, images, index.flatten(0, 1)
