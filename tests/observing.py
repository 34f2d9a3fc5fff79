"""What a server saw of one client, from a network and the updates that came back."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from leakbench.federation import local_update
from leakbench.observations.observation import Observation

LOCAL: dict[str, Any] = {"lr": 0.1, "batch_size": None, "epochs": 1}


def sent_by(
    model: nn.Module, images: Tensor, labels: Tensor, kind: str = "gradient", local: dict[str, Any] = LOCAL,
    **more: Any,
) -> dict[str, Tensor]:  # fmt: skip
    """Return what a client with images [rounds, k, …] sends, by the federation's own local training."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    given = {"masks": {}, "buffers": dict(model.named_buffers()), "local": LOCAL | local, "kind": kind} | more
    return local_update(model, weights, images, labels, **given)


def seen_of(
    model: nn.Module, network: dict[str, Any], updates: dict[str, Tensor], batch: int, **more: Any,
) -> Observation:  # fmt: skip
    """Return the observation of a client's updates, parameter → [rounds, *shape], of `batch` samples each.

    model: the network that was sent out; `network` says how it is built. more: other fields.
    """
    given: dict[str, Any] = {
        "network": {"parameters": {}, "classes": 10} | network | {"shape": list(network["shape"])},
        "weights": {name: value.detach().numpy()[None] for name, value in model.state_dict().items()},
        "updates": {name: value.detach().numpy()[:, None] for name, value in updates.items()},
        "origin": np.zeros(len(next(iter(updates.values()))), np.int64),
        "clients": [batch],
        "kind": "gradient",
    }
    return Observation(**given | more)
