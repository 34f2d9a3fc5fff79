"""Federated averaging: local training, and the mean of what clients send. One client is centralised training.

What a defence keeps secret stays in a client's own model: it is in no upload, and the server's copy has none of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.defences import Defence
from leakbench.errors import UserError
from leakbench.training.fit import OPTIMISERS
from leakbench.victims.layers import Dropout

State = dict[str, Tensor]
# Stored images of a batch and a generator → what the network reads.
Prepare = Callable[[Tensor, torch.Generator], Tensor]


@dataclass
class Client:
    """One client: its model with whatever never leaves it, its optimiser, which keeps its momentum from round to round, its
    images uint8 [n, rows, columns, channels] and labels int64 [n].
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    secret: frozenset[str]
    images: Tensor
    labels: Tensor


def optimiser_of(model: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return the optimiser that a regime names, over the model's parameters."""
    return OPTIMISERS[training["optimiser"]](
        model.parameters(), lr=training["lr"], **dict(training["options"])
    )


def decayed(training: Mapping[str, Any], turn: int) -> float:
    """Return the learning rate of round `turn`, counted from 0."""
    decay = training["decay"] or {"factor": 1.0, "rounds": []}
    lr: float = training["lr"] * decay["factor"] ** sum(turn >= last for last in decay["rounds"])
    return lr


def shared(model: nn.Module, secret: frozenset[str]) -> State:
    """Return a copy of the tensors of a model that its client sends: all but the secret ones."""
    return {name: value.detach().clone() for name, value in model.state_dict().items() if name not in secret}


@torch.no_grad()
def hold(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put `tensors` into a model, in place.

    Raises UserError for one that the model has not, or that is of another size, such as a key of the wrong length.
    """
    own = model.state_dict()
    for name, value in tensors.items():
        if name not in own:
            raise UserError(f"the model has no '{name}' (lock it with the defence that this belongs to)")
        if value.shape != own[name].shape:
            raise UserError(
                f"'{name}' has {value.numel()} values, and the model takes {own[name].numel()} (draw it for this model)"
            )
        own[name].copy_(value)


def received(upload: Mapping[str, Tensor], server: Mapping[str, Tensor], client: int) -> None:
    """Refuse an upload that does not hold what the server shares and nothing else, such as one with lock layers in it."""
    beyond = sorted(upload.keys() - server.keys())
    if beyond:
        raise UserError(
            f"client {client}: the upload holds '{beyond[0]}', which never leaves a client (send only what the server shares)"
        )
    if missing := sorted(server.keys() - upload.keys()):
        raise UserError(f"client {client}: the upload lacks '{missing[0]}' (send all that the server shares)")


def averaged(uploads: Sequence[State], samples: Sequence[int]) -> State:
    """Return the mean of uploads, weighted by each client's number of images; counters take the largest.

    Source: McMahan et al., algorithm 1; batch norm's statistics are averaged like parameters, as in FedKL's code.
    """
    total = sum(samples)
    out: State = {}
    for name, first in uploads[0].items():
        values = [upload[name] for upload in uploads]
        if first.is_floating_point():
            mean = sum(value.double() * (n / total) for value, n in zip(values, samples, strict=True))
            assert isinstance(mean, Tensor)
            out[name] = mean.to(first.dtype)
        else:
            out[name] = torch.stack(values).amax(0)
    return out


def train_locally(
    client: Client, epochs: int, size: int, lr: float, prepare: Prepare, rng: torch.Generator
) -> float:
    """Train a client's model on its images; return the mean loss of the last epoch. All chance comes from `rng`.

    A last batch of one image is left out: batch norm has nothing to normalise it by.
    """
    model, count = client.model.train(), len(client.images)
    device = next(model.parameters()).device
    dropouts = [layer for layer in model.modules() if isinstance(layer, Dropout) and layer.rate > 0]
    for group in client.optimiser.param_groups:
        group["lr"] = lr
    total = torch.zeros((), device=device)
    for _ in range(epochs):
        order = torch.randperm(count, generator=rng)
        total.zero_()
        for batch in order.split(size):
            if len(batch) == 1 and count > 1:
                continue
            x, y = prepare(client.images[batch], rng), client.labels[batch].to(device)
            for layer in dropouts:
                layer.keep = layer.draw((len(batch),), rng).to(device)
            client.optimiser.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            client.optimiser.step()
            total += loss.detach() * len(batch)
    for layer in dropouts:
        layer.keep = torch.ones((), device=device)
    model.eval()
    return float(total) / count


def sent(client: Client, server: State, defence: Defence, rng: torch.Generator) -> State:
    """Return what a client uploads: its model without what is secret, its update protected by the defence."""
    own = shared(client.model, client.secret)
    trained = {name for name, _ in client.model.named_parameters()} & own.keys()
    update = {name: (own[name] - server[name])[None] for name in sorted(trained)}
    protected = defence.protect_update(update, rng)
    return own | {name: server[name] + value[0] for name, value in protected.items()}


def play_round(
    server: State,
    clients: Sequence[Client],
    defence: Defence,
    training: Mapping[str, Any],
    turn: int,
    prepare: Prepare,
    rngs: Sequence[torch.Generator],
) -> tuple[State, list[float]]:
    """Play one round from the server's tensors; return the new ones and each client's training loss.

    `rngs`: one generator per client. Raises UserError for an upload that holds more or less than the server shares.
    """
    uploads, losses = [], []
    for number, (client, rng) in enumerate(zip(clients, rngs, strict=True)):
        hold(client.model, server)
        losses.append(
            train_locally(
                client,
                training["local_epochs"],
                training["batch_size"],
                decayed(training, turn),
                prepare,
                rng,
            )
        )
        uploads.append(sent(client, server, defence, rng))
        received(uploads[-1], server, number)
    return averaged(uploads, [len(client.labels) for client in clients]), losses
