"""Federated averaging: local training, and the mean of what clients send.

With one client this is centralised training. What a defence keeps secret stays in a client's own model;
neither an upload nor the server's copy has any of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.defences import Batch, Defence, protected
from leakbench.federation.training.fit import shared
from leakbench.federation.training.server import Aggregate, Fit, Protocol, State, aggregate, averaged
from leakbench.networks.layers import RandomLayer
from leakbench.networks.tasks import task_of

# Stored images of a batch and a generator → what the network reads.
Prepare = Callable[[Tensor, torch.Generator], Tensor]
# A model, images and labels → its accuracy and mean loss.
Measure = Callable[[nn.Module, Tensor, Tensor], tuple[float, float]]


@dataclass
class Trainee:
    """One client: its own model, optimiser and data; `secret` names what never leaves, `held` is held out."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    secret: frozenset[str]
    images: Tensor
    labels: Tensor
    held: tuple[Tensor, Tensor] | None = None
    memory: State = field(default_factory=dict)


def decayed(training: Mapping[str, Any], turn: int) -> float:
    """Return the learning rate of round `turn`, counted from 0, under a regime's decay."""
    decay = training["decay"] or {"factor": 1.0, "rounds": []}
    lr: float = training["lr"] * decay["factor"] ** sum(turn >= last for last in decay["rounds"])
    return lr


@torch.no_grad()
def hold(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    own = model.state_dict()
    for name, value in tensors.items():
        if name not in own:
            raise UserError(f"the model has no '{name}' (lock it with the defence that this belongs to)")
        if value.shape != own[name].shape:
            raise UserError(
                f"'{name}' has {value.numel()} values, and the model takes {own[name].numel()} (draw it for "
                "this model)"
            )
        own[name].copy_(value)


def received(upload: Mapping[str, Tensor], server: Mapping[str, Tensor], client: int) -> None:
    """Raise UserError if an upload does not have exactly the tensors that the server shares."""
    beyond = sorted(upload.keys() - server.keys())
    if beyond:
        raise UserError(
            f"client {client}: the upload holds '{beyond[0]}', which never leaves a client (send only what "
            "the server shares)"
        )
    if missing := sorted(server.keys() - upload.keys()):
        raise UserError(f"client {client}: the upload lacks '{missing[0]}' (send all that the server shares)")


@contextmanager
def at_work(
    client: Trainee, lr: float, prepare: Prepare, rng: torch.Generator, task: ModuleType, defence: Defence
) -> Iterator[Callable[[Tensor], tuple[Tensor, Tensor]]]:
    """Set a client's model to training; yield a step from places of a batch to loss and right answers."""
    model = client.model.train()
    device = next(model.parameters()).device
    dropouts = [layer for layer in model.modules() if isinstance(layer, RandomLayer) and layer.active]
    for group in client.optimiser.param_groups:
        group["lr"] = lr

    def step(batch: Tensor) -> tuple[Tensor, Tensor]:
        x, y = prepare(client.images[batch], rng), client.labels[batch].to(device)
        if defence.inputs is not None:
            x, y = defence.inputs(x, y, rng)
        for layer in dropouts:
            layer.keep = layer.draw((len(batch),), rng).to(device)
        client.optimiser.zero_grad()
        outputs = model(x)
        loss = task.loss(outputs, y)
        if defence.examples is None:
            loss.backward()
        else:
            masks = {f"{name}.keep": layer.keep for name, layer in model.named_modules() if layer in dropouts}
            weights = {name: value.detach() for name, value in model.named_parameters()}
            fixed = dict(model.named_buffers())
            own = Batch(model, weights, x, y, masks, fixed, task.loss, client.memory)
            slopes = defence.examples(own, rng)
            for name, value in model.named_parameters():
                value.grad = slopes[name]
        client.optimiser.step()
        return loss.detach(), task.correct(outputs.detach(), y).sum()

    yield step
    for layer in dropouts:
        layer.keep = torch.ones((), device=device)
    model.eval()


def train_locally(
    client: Trainee, training: Mapping[str, Any], lr: float, prepare: Prepare, rng: torch.Generator,
    defence: Defence,
) -> Fit:  # fmt: skip
    """Train a client's model on its images, and return how well it did in the last epoch."""
    count = len(client.images)
    task = task_of(training)
    total, right = torch.zeros((2,), device=next(client.model.parameters()).device)
    with at_work(client, lr, prepare, rng, task, defence) as step:
        for _ in range(training["local_epochs"]):
            order = torch.randperm(count, generator=rng)
            total.zero_()
            right.zero_()
            for batch in order.split(training["batch_size"]):
                # Batch norm cannot normalise a single image.
                if len(batch) == 1 and count > 1:
                    continue
                loss, correct = step(batch)
                total += loss * len(batch)
                right += correct
    return Fit(float(total) / count, float(right) / count)


def sent(client: Trainee, server: State, defence: Defence, rng: torch.Generator) -> State:
    """Return what a client uploads: its model without secrets, with the update protected by the defence."""
    own = shared(client.model, client.secret)
    trained = {name for name, _ in client.model.named_parameters()} & own.keys()
    update = {name: (own[name] - server[name])[None] for name in sorted(trained)}
    changed = protected(defence, update, client.memory, rng, server, len(client.labels))
    return own | {name: server[name] + value[0] for name, value in changed.items()}


def play_round(
    server: State, clients: Sequence[Trainee], defence: Defence, training: Mapping[str, Any], turn: int,
    prepare: Prepare, rngs: Sequence[torch.Generator], train: Callable[..., Fit] = train_locally,
    protocol: Protocol | None = None, measure: Measure | None = None,
) -> tuple[State, list[float], Aggregate | None]:  # fmt: skip
    """Play a round; return the server's new state, the clients' losses and, by a rule, the aggregate."""
    uploads, fits = [], []
    lr = decayed(training, turn)
    for number, (client, rng) in enumerate(zip(clients, rngs, strict=True)):
        hold(client.model, server)
        fits.append(train(client, training, lr, prepare, rng, defence))
        uploads.append(sent(client, server, defence, rng))
        received(uploads[-1], server, number)
    samples, losses = [len(client.labels) for client in clients], [fit.loss for fit in fits]
    if protocol is None:
        return averaged(uploads, samples), losses, None

    def validate(number: int, state: State) -> tuple[float, float]:
        client = clients[number]
        assert client.held is not None
        assert measure is not None
        hold(client.model, state)
        return measure(client.model.eval(), *client.held)

    outcome = aggregate(server, uploads, fits, samples, protocol, turn, validate)
    return outcome.state, losses, outcome
