"""A training study's clients, and the protocol that they and the server follow."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.base.seeds import stream
from leakbench.defences import aggregation, encryption
from leakbench.federation.training.federated import Trainee
from leakbench.federation.training.fit import optimiser_of
from leakbench.federation.training.private import epsilon, made_private
from leakbench.federation.training.server import Protocol, State, flat
from leakbench.federation.training.shares import hold_out


def enlist(
    spec: Mapping[str, Any], models: Sequence[nn.Module], secret: frozenset[str],
    shares: Sequence[tuple[Tensor, Tensor]], device: str,
) -> list[Trainee]:  # fmt: skip
    """Return a client for each model and its share of the images."""
    training, name, seed = spec["training"], spec["dataset"]["name"], spec["seed"]
    poisoned = training.get("poisoned") or {"client": None}
    clients = []
    for number, (model, (images, labels)) in enumerate(zip(models, shares, strict=True)):
        # Convolutions run faster on a CPU with the channels last.
        model.to(device=torch.device(device)).to(memory_format=torch.channels_last)
        held = None
        if share := training.get("hold_out"):
            rng = np.random.default_rng(stream("client-validation", name, seed, number))
            own, apart = hold_out(len(labels), share, rng)
            if min(len(own), len(apart)) < 1:
                raise UserError(
                    f"hold_out: {share:g} of the {len(labels)} images of client {number} leaves nothing to "
                    "validate on (raise it)"
                )
            held = images[apart], labels[apart]
            images, labels = images[own], labels[own]
        if poisoned["client"] == number:
            rng = np.random.default_rng(stream("poison", name, seed, number))
            labels = labels[rng.permutation(len(labels))]
        clients.append(Trainee(model, optimiser_of(model, training), secret, images, labels, held))
        if training.get("privacy"):
            made_private(clients[-1], training["privacy"], training["batch_size"])
    return clients


def protocol_of(spec: Mapping[str, Any]) -> Protocol | None:
    """Return how a spec's federation aggregates, with a fresh key pair if it encrypts."""
    if "aggregation" not in spec:
        return None
    training, rule = spec["training"], spec["aggregation"]
    scheme = encryption.build(**spec["encryption"]) if "encryption" in spec else None
    faults: dict[int, dict[int, str]] = {}
    for each in training.get("faults", []):
        faults.setdefault(each["round"] - 1, {})[each["client"]] = each["kind"]
    validates, sealing = (
        aggregation.cross_validates(rule["module"]),
        (scheme, scheme.keys()) if scheme else None,
    )
    return Protocol(aggregation.build(**rule), validates, training.get("fusion", 1.0), sealing, faults)


def sealed_bytes(about: Mapping[str, Any], server: State) -> int:
    """Return the bytes of one encrypted update's ciphertexts, as numbers, by the facts of its scheme."""
    each: int = about["bytes_per_ciphertext"]
    return -(-len(flat(server)) // about["values_per_ciphertext"]) * each


def spent(training: Mapping[str, Any], clients: Sequence[Trainee]) -> float:
    """Return the largest ε among the clients after all rounds."""
    epochs = training["rounds"] * training["local_epochs"]
    return max(
        epsilon(training["privacy"], len(client.labels), training["batch_size"], epochs) for client in clients
    )
