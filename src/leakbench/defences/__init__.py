"""Defences: what a client or the aggregation does so that updates leak less.

Each defence has a file of its own, which is found by its name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from leakbench.base.artefacts import Facts
from leakbench.base.errors import Unfit, UserError
from leakbench.base.parts import part

Update = dict[str, Tensor]
# Gradients of single samples take at most this much memory at once.
EXAMPLE_BYTES = 100_000_000

# Bits of a coordinate in a plain update, and of a coordinate's place where only few coordinates are sent.
FLOAT, PLACE = 32, 32
Bits = Callable[[Tensor], Tensor]

Names = Callable[[nn.Module], frozenset[str]]


def no_names(model: nn.Module) -> frozenset[str]:
    return frozenset()


def unchanged(value: Any, *_: Any) -> Any:
    """Return `value` itself, as a place of `Defence` that does nothing; callers compare by identity."""
    return value


def dense(value: Tensor, bits: int = FLOAT, beside: int = 0) -> Tensor:
    """Return the bits that a tensor takes when every coordinate is sent, int64 [rounds]."""
    rounds = len(value)
    return torch.full((rounds,), value.numel() // max(rounds, 1) * bits + beside)


def sparse(value: Tensor, bits: int = FLOAT, beside: int = 0) -> Tensor:
    """Return the bits that a tensor [rounds, *shape] takes when its zeros are not sent, int64 [rounds].

    Either one bit for each coordinate says whether it is sent, or the places of the coordinates that are sent
    are listed, whichever is shorter. A tensor without zeros needs neither. `beside` are bits of its own.
    """
    flat = value.flatten(1)
    every = flat.shape[1]
    sent = (flat != 0).sum(1)
    told = torch.minimum(torch.full_like(sent, every), PLACE * sent)
    return bits * sent + torch.where(sent == every, 0, told) + beside


class View(NamedTuple):
    """What an attacker gets to see of a round.

    groups: for each thing that is seen, the clients whose samples went into it.
    seen: called as `seen(updates, rng)`; turns the updates that clients sent in one round, parameter →
    [clients, *shape], into what is seen, parameter → [groups, *shape]. It is `unchanged` itself where the
    attacker sees the updates as they were sent.
    knows: the fields of the threat model that the view changes (`attacks.threat_model`).
    shares: float64 [groups, clients], given where what is seen are sums of updates weighted by these shares.
    The updates of many clients are then added up one by one and are never held together.
    """

    groups: list[list[int]]
    seen: Callable[[Update, torch.Generator], Update]
    knows: dict[str, str]
    shares: Tensor | None = None


def each_update(clients: Sequence[int]) -> View:
    """Return the server's view of the update of each client."""
    return View([[i] for i in range(len(clients))], unchanged, {})


def summed(groups: list[list[int]], shares: Tensor, knows: dict[str, str]) -> View:
    """Return the view of weighted sums of updates."""

    def seen(updates: Update, rng: torch.Generator) -> Update:
        return {name: torch.tensordot(shares, value.double(), 1).float() for name, value in updates.items()}

    return View(groups, seen, knows, shares)


def mixes(layer: nn.Module) -> bool:
    """Return whether a layer leaves no sample a gradient of its own, or none that torch can take."""
    return isinstance(layer, nn.modules.batchnorm._BatchNorm | nn.RNNBase)


@dataclass(frozen=True)
class Batch:
    """The samples of one local step, as a defence of the place `examples` receives them.

    model: the network.
    weights: the network's parameters before the step, by name.
    images: what the network reads, float [n, …].
    labels: int64 [n].
    masks: what the dropout layers drew, buffer → [n, width].
    fixed: further buffers of the network.
    loss: maps outputs [n, classes] and labels [n] to their mean loss.
    memory: what the client remembers, as in the place `rounds` of `Defence`.
    """

    model: nn.Module
    weights: Mapping[str, Tensor]
    images: Tensor
    labels: Tensor
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    memory: Update = field(default_factory=dict)

    def loss_of(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the batch's mean loss where the network has these parameters."""
        tensors = {**self.fixed, **weights, **self.masks}
        return self.loss(functional_call(self.model, tensors, (self.images,)), self.labels)

    def mean(self) -> Update:
        """Return the gradient of the batch's mean loss [*shape], which training without a defence uses."""
        return grad(self.loss_of)(dict(self.weights))

    def gradients(self) -> Iterator[Update]:
        """Yield the gradient of each sample's own loss, in order, a few samples at a time: [few, *shape]."""

        def one(weights: Mapping[str, Tensor], x: Tensor, y: Tensor, keep: Mapping[str, Tensor]) -> Tensor:
            tensors = {**self.fixed, **weights, **{name: mask[None] for name, mask in keep.items()}}
            return self.loss(functional_call(self.model, tensors, (x[None],)), y[None])

        few = max(1, EXAMPLE_BYTES // (4 * sum(value.numel() for value in self.weights.values())))
        for start in range(0, len(self.labels), few):
            part = slice(start, start + few)
            masks = {name: mask[part] for name, mask in self.masks.items()}
            of_each = vmap(grad(one), in_dims=(None, 0, 0, 0))
            yield of_each(dict(self.weights), self.images[part], self.labels[part], masks)


def gradients_of(
    model: nn.Module, weights: Mapping[str, Tensor], images: Tensor, labels: Tensor, masks: Update,
    fixed: Mapping[str, Tensor], examples: Callable[[Batch], Update] | None = None, shared: bool = True,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> Update:  # fmt: skip
    """Return the gradient of each client's step [n, *shape], at weights that are `shared` or its own."""
    if examples is None:

        def loss_of(own: Mapping[str, Tensor], x: Tensor, y: Tensor, keep: Update) -> Tensor:
            return loss(functional_call(model, {**fixed, **own, **keep}, (x,)), y)

        at = dict(weights)
        found: Update = vmap(grad(loss_of), in_dims=(None if shared else 0, 0, 0, 0))(
            at, images, labels, masks
        )
        return found
    each = []
    for number, (x, y) in enumerate(zip(images, labels, strict=True)):
        own = weights if shared else {name: value[number] for name, value in weights.items()}
        kept = {name: mask[number] for name, mask in masks.items()}
        each.append(examples(Batch(model, own, x, y, kept, fixed, loss)))
    return {name: torch.stack([one[name] for one in each]) for name in weights}


class Defence(NamedTuple):
    """What a defence does: six places where it may act on the client, and what others must know of it.

    Each place does nothing by default. A client goes through the six places in this order: `model`,
    `inputs`, `examples`, `update`, `rounds`, `weights`.

    model: called as `model(model, rng)`; returns the network that the client trains in place of `model`.
    inputs: called as `inputs(images, labels, rng)`; returns what the client trains on in a round, in place of
    its images float [n, …] and labels [n].
    examples: called as `examples(batch, rng)`; returns the gradient of a local step [*shape], in place of the
    mean over the batch.
    update: called as `update(update, rng)`; returns what the client sends in place of tensors [rounds,
    *shape].
    rounds: called as `rounds(update, memory, rng)`; returns what the client sends in place of one round's
    tensors [1, *shape]. `memory` holds tensors by name. It is the client's own, empty at first, and is kept
    from one round to the next; `batch.memory` is the same.
    weights: called as `weights(update, sent, samples, rng)`, where the defence changes the weights that a
    client sends and not their difference from the weights `sent` [*shape] that it was sent; returns the
    difference [rounds, *shape] that the server gets. `samples` is the client's number of samples.
    bits: called as `bits(value)`; returns the bits that a tensor [rounds, *shape] takes on its way, int64
    [rounds]. This is the defence's price in bandwidth, without what a general compressor would still save.
    secret: called as `secret(model)`; returns the names of the tensors of the changed network that are the
    client's own.
    shown: called as `shown(model)`; returns the names of those secret tensors that the server sees as they
    are.
    sent: called as `sent(model)`; returns the names of those secret tensors whose updates the server sees.
    hidden: called as `hidden(model)`; returns what the server knows of the changed network: the batch norms
    `layers` whose weight and bias it does not see, and what else is public `about` them.
    view: called as `view(clients)`; returns what an attacker sees of a round of clients with these numbers of
    samples. Raises Unfit if there are too few clients.
    certificate: called as `certificate(steps, kind)`; returns what the defence certifies of a sample that may
    take part in each of `steps` local steps, for updates of this kind (`defences.certification`), or None if
    it certifies nothing.
    """

    model: Callable[[nn.Module, torch.Generator], nn.Module] = unchanged
    inputs: Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]] | None = None
    examples: Callable[[Batch, torch.Generator], Update] | None = None
    update: Callable[[Update, torch.Generator], Update] = unchanged
    rounds: Callable[[Update, Update, torch.Generator], Update] | None = None
    weights: Callable[[Update, Update, int, torch.Generator], Update] | None = None
    bits: Bits = dense
    secret: Names = no_names
    shown: Names = no_names
    sent: Names = no_names
    hidden: Callable[[nn.Module], Facts] = lambda model: {}
    view: Callable[[Sequence[int]], View] = each_update
    certificate: Callable[[int, str], Facts | None] = lambda steps, kind: None


def sent_bytes(defence: Defence, update: Update) -> Tensor:
    """Return the bytes that a protected update takes on its way to the server, int64 [rounds], rounded up."""
    return -(-torch.stack([defence.bits(value) for value in update.values()]).sum(0) // 8)


def protected(
    defence: Defence, update: Update, memory: Update, rng: torch.Generator, sent: Update | None = None,
    samples: int = 0,
) -> Update:  # fmt: skip
    """Return what a client with so many samples sends in place of `update`, its difference from `sent`.

    Rounds are protected one after the other, so that playing them in chunks changes nothing. Raises UserError
    where a defence of weights meets clients that send no weights.
    """
    if defence.weights is not None and sent is None:
        raise UserError(
            "federation.update: the defence changes the weights that clients send, and these send gradients "
            "(set update: model)"
        )
    if defence.update is unchanged and defence.rounds is None and defence.weights is None:
        return update
    parts = []
    for values in zip(*(value.split(1) for value in update.values()), strict=True):
        part = defence.update(dict(zip(update, values, strict=True)), rng)
        part = defence.rounds(part, memory, rng) if defence.rounds else part
        parts.append(defence.weights(part, sent or {}, samples, rng) if defence.weights else part)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def needs(clients: Sequence[int], least: int, name: str) -> None:
    """Raise Unfit if fewer than `least` clients, given by their numbers of samples, take part in a round."""
    if len(clients) < least:
        raise Unfit(
            f"defence {name}: a round of {len(clients)} has nobody to hide among (it takes {least} clients)"
        )


def per_tensor(change: Callable[[Tensor, torch.Generator], Tensor], bits: Bits = dense) -> Defence:
    """Return the defence that changes each tensor of an update by itself.

    change: maps a tensor [rounds, *shape] and a generator to the tensor that is sent.
    bits: the bits that a changed tensor takes, as in `Defence`.
    """
    return Defence(
        update=lambda update, rng: {name: change(value, rng) for name, value in update.items()}, bits=bits
    )


def build(module: str, parameters: Mapping[str, Any]) -> Defence:
    defence: Defence = part("defences", module)(**parameters)
    return defence
