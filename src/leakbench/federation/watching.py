"""Clients that examine each model that they are sent, and what they remember of earlier models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.base.pixels import pixels
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors
from leakbench.defences import Defence
from leakbench.federation import Private, detectors, play, private_samples

# What a client remembers of earlier rounds (`Received.now`), oldest first.
Memory = Sequence[Mapping[str, float]]


def _received(
    model: nn.Module, images: Tensor, private: Private, client: int, number: int, lr: float,
    earlier: Memory = (),
) -> detectors.Received:  # fmt: skip
    """Return what a client holds in the round `number` of `private`, in which it was sent `model`."""
    index, labels = private.images[client][number], private.labels[client][number]
    own = pixels(images[torch.from_numpy(index)])
    return detectors.Received(model.eval(), own, torch.from_numpy(labels), lr, earlier)


def begun(
    model: nn.Module, federation: Mapping[str, Any], images: Tensor, labels: np.ndarray,
    names: tuple[str | int, ...],
) -> list[Memory]:  # fmt: skip
    """Play the honest rounds with which a federation `begins`; return what each client remembers of them."""
    memories: list[list[Mapping[str, float]]] = [[] for _ in federation["clients"]]
    if not federation.get("begins"):
        return list(memories)
    honest = {**federation, "server": "fedavg", "rounds": federation["begins"], "passes": 1}
    private = private_samples(honest, labels, (*names, "begun"))
    start = {name: value.clone() for name, value in model.state_dict().items()}
    sent: list[Tensors] = []
    play(
        model, [start], images, private, honest, Defence(), stream("begun", *names),
        lambda *_: None, lambda _, weights: sent.append(weights),
    )  # fmt: skip
    for number, weights in enumerate([start, *sent]):
        model.load_state_dict(weights)
        for client, memory in enumerate(memories if number < len(sent) else ()):
            memory.append(_received(model, images, private, client, number, federation["local"]["lr"]).now)
    return list(memories)


def alarms(
    model: nn.Module, origins: list[Tensors], each: list[Tensors], images: Tensor, private: Private,
    groups: list[list[int]], lr: float, earlier: list[list[Memory]],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return for each detector and group of clients in which rounds a client of the group had an alarm."""
    found: dict[str, list[float]] = {}

    def heard(client: int, number: int, own: Tensors, memory: Memory) -> dict[str, bool]:
        model.load_state_dict({name: value[client] for name, value in own.items()}, strict=False)
        received = _received(model, images, private, client, number, lr, memory)
        return {each.name: each.sounds for each in detectors.readings(received)}

    for weights, own, memories in zip(origins, each, earlier, strict=True):
        model.load_state_dict(weights)
        for number in range(len(private.images[0])):
            for place, group in enumerate(groups):
                every = [heard(client, number, own, memories[client]) for client in group]
                for name in detectors.names():
                    sounded = any(one[name] for one in every)
                    found.setdefault(f"alarm_{name}/{place}", []).append(float(sounded))
    return {name: np.array(values) for name, values in found.items()}
