"""Observations of clients who train a small transformer on random sentences."""

from typing import Any

import torch
from observing import seen_of, sent_by
from torch import Tensor

from leakbench.networks import victims
from leakbench.observations.observation import Observation

VOCABULARY, LENGTH = 50, 7


def observe_text(
    k: int = 2, clients: int = 1, kind: str = "gradient", epochs: int = 1, optimiser: str = "sgd",
    decay: float = 0.0, noise: float = 0.0, up: float = 0.0, candidates: int = 0, lr: float = 0.05,
    module: str = "transformer", **parameters: Any,
) -> tuple[Observation, Tensor]:  # fmt: skip
    """Return the mean of some clients, and their sentences; `up`: the deviation of adapters' B."""
    torch.manual_seed(1)
    settings = {"width": 64, "heads": 2} | parameters
    model = victims.build(module, (1, LENGTH, 1), VOCABULARY, settings)
    for name, value in model.named_parameters():
        if name.endswith((".up", "lora_B.default.weight")):
            torch.nn.init.normal_(value, 0.0, up)
    sentences = torch.randint(0, VOCABULARY, (clients * k, LENGTH))
    images = (sentences / VOCABULARY)[:, None, None].unflatten(0, (clients, k))
    labels = sentences[:, 1:].unflatten(0, (clients, k))
    local: dict[str, Any] = {"lr": lr, "batch_size": None, "epochs": epochs, "weight_decay": decay}
    local |= {"optimiser": optimiser}
    update = sent_by(model, images, labels, kind, local)
    mean = {name: value.mean(0, keepdim=True) for name, value in update.items()}
    held = None
    if candidates:
        others = torch.randint(0, VOCABULARY, (candidates, LENGTH))
        held = (torch.cat([sentences, others]) / VOCABULARY)[:, None, :, None].numpy()
    network = {"module": module, "parameters": settings, "shape": [1, LENGTH, 1],
               "classes": VOCABULARY}  # fmt: skip
    sent = {name: value + noise * torch.randn_like(value) for name, value in mean.items()}
    return seen_of(model, network, sent, clients * k, kind=kind, local=local, candidates=held), sentences
