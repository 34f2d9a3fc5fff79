"""Clients that look at each model that they are sent, and what they remember of earlier ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench import detectors
from leakbench.defences import Defence
from leakbench.federation import Truth, play, private_samples
from leakbench.pixels import pixels
from leakbench.seeds import stream
from leakbench.tensors import Tensors

# What a client remembers of rounds (`Received.now`), oldest first.
Memory = Sequence[Mapping[str, float]]


def _received(
    model: nn.Module,
    images: Tensor,
    hidden: Truth,
    client: int,
    number: int,
    lr: float,
    earlier: Memory = (),
) -> detectors.Received:
    """Return what a client holds in the round `number` of `hidden`, in which it was sent `model`."""
    index, labels = hidden.images[client][number], hidden.labels[client][number]
    own = pixels(images[torch.from_numpy(index)])
    return detectors.Received(model.eval(), own, torch.from_numpy(labels), lr, earlier)


def begun(
    model: nn.Module,
    federation: dict[str, Any],
    images: Tensor,
    labels: np.ndarray,
    names: tuple[str | int, ...],
) -> list[Memory]:
    """Play the honest rounds that a federation `begins` with; return what each client remembers of them.

    model: where they begin; it is left where they end. federation: its settings; without `begins` nothing is
    played. images: uint8 [n, rows, columns, channels], and labels: [n], the private split. names: of the
    capture, whose chance is its own. No defence is in place.
    """
    memories: list[list[Mapping[str, float]]] = [[] for _ in federation["clients"]]
    if not federation.get("begins"):
        return list(memories)
    honest = federation | {"server": "fedavg", "rounds": federation["begins"], "passes": 1}
    hidden = private_samples(honest, labels, (*names, "begun"))
    start = {name: value.clone() for name, value in model.state_dict().items()}
    sent: list[Tensors] = []
    play(
        model, [start], images, hidden, honest, Defence(), stream("begun", *names),
        lambda *_: None, lambda _, weights: sent.append(weights),
    )  # fmt: skip
    for number, weights in enumerate([start, *sent]):
        model.load_state_dict(weights)
        for client, memory in enumerate(memories if number < len(sent) else ()):
            memory.append(_received(model, images, hidden, client, number, federation["local"]["lr"]).now)
    return list(memories)


def alarms(
    model: nn.Module,
    origins: list[Tensors],
    each: list[Tensors],
    images: Tensor,
    hidden: Truth,
    groups: list[list[int]],
    lr: float,
    earlier: list[list[Memory]],
) -> dict[str, np.ndarray]:
    """Return for each detector and each group of clients whether it sounded for one of them, 0 or 1,
    "alarm_", its name and the group's number → [rounds]: in each round, at the model that the server sent.

    each: by origin, the tensors of which every client was sent its own [clients, *shape]. lr: of local
    training. earlier: by origin, what each client remembers.
    """
    found: dict[str, list[float]] = {}

    def heard(client: int, number: int, own: Tensors, memory: Memory) -> dict[str, bool]:
        model.load_state_dict({name: value[client] for name, value in own.items()}, strict=False)
        received = _received(model, images, hidden, client, number, lr, memory)
        return {each.name: each.sounds for each in detectors.readings(received)}

    for weights, own, memories in zip(origins, each, earlier, strict=True):
        model.load_state_dict(weights)
        for number in range(len(hidden.images[0])):
            for place, group in enumerate(groups):
                every = [heard(client, number, own, memories[client]) for client in group]
                for name in detectors.names():
                    sounded = any(one[name] for one in every)
                    found.setdefault(f"alarm_{name}/{place}", []).append(float(sounded))
    return {name: np.array(values) for name, values in found.items()}
