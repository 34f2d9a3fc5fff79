"""Defences: what a client or the aggregation does so that updates leak less; one file each, found by its
name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from leakbench.errors import Unfit
from leakbench.parts import part

Update = dict[str, Tensor]
# Gradients of single samples take this much memory at once.
EXAMPLE_BYTES = 100_000_000


# What a plain update takes for each coordinate, and what the place of a coordinate takes where few are sent.
FLOAT, PLACE = 32, 32
Bits = Callable[[Tensor], Tensor]


Names = Callable[[nn.Module], frozenset[str]]


def no_names(model: nn.Module) -> frozenset[str]:
    """Return no tensor's name."""
    return frozenset()


def unchanged(value: Any, *_: Any) -> Any:
    """Return `value` itself: what no defence does."""
    return value


def dense(value: Tensor, bits: int = FLOAT, beside: int = 0) -> Tensor:
    """Return the bits that a tensor [rounds, *shape] takes, int64 [rounds]: `bits` a coordinate, and `beside`
    for the whole."""
    rounds = len(value)
    return torch.full((rounds,), value.numel() // max(rounds, 1) * bits + beside)


def sparse(value: Tensor, bits: int = FLOAT, beside: int = 0) -> Tensor:
    """Return the bits of a tensor [rounds, *shape] whose zeros are not sent, int64 [rounds].

    One bit for each coordinate says whether it is sent, or the places of those sent do, whichever is shorter.
    Where none is zero, nothing needs to say it.
    """
    flat = value.flatten(1)
    every = flat.shape[1]
    sent = (flat != 0).sum(1)
    told = torch.minimum(torch.full_like(sent, every), PLACE * sent)
    return bits * sent + torch.where(sent == every, 0, told) + beside


class View(NamedTuple):
    """What an attacker gets to see of a round.

    groups: for each thing seen, the clients whose samples it is of. `seen(updates, rng)` makes them of the
    updates that clients sent in one round: parameter → [clients, *shape] → [groups, *shape]; it is
    `unchanged` itself where the updates are what is seen. knows: the fields of the threat model that differ
    (`attacks.threat_model`). shares: [groups, clients], float64, where what is seen is sums of updates that
    are weighed so; many clients' updates are then added up one by one, and never held together.
    """

    groups: list[list[int]]
    seen: Callable[[Update, torch.Generator], Update]
    knows: dict[str, str]
    shares: Tensor | None = None


def each_update(clients: Sequence[int]) -> View:
    """Return the server's view of clients with these numbers of samples: what each of them sends."""
    return View([[i] for i in range(len(clients))], unchanged, {})


def summed(groups: list[list[int]], shares: Tensor, knows: dict[str, str]) -> View:
    """Return the view of sums of updates, each weighed by its row of `shares`, float64 [groups, clients]."""

    def seen(updates: Update, rng: torch.Generator) -> Update:
        return {name: torch.tensordot(shares, value.double(), 1).float() for name, value in updates.items()}

    return View(groups, seen, knows, shares)


@dataclass(frozen=True)
class Batch:
    """The samples of one local step, as a defence of the place `examples` is given them.

    model: the network, and weights: its parameters before the step, by name. images: float [n, …], what the
    network reads. labels: int64 [n]. masks: what dropout drew, buffer → [n, width]. fixed: further buffers.
    loss: outputs [n, classes] and labels [n] in, their mean loss out. memory: what the client remembers, as
    in the place `rounds`.
    """

    model: nn.Module
    weights: Mapping[str, Tensor]
    images: Tensor
    labels: Tensor
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    memory: Update = field(default_factory=dict)

    def mean(self) -> Update:
        """Return the gradient of the mean loss over the batch [*shape], what training without a defence goes
        by."""

        def whole(weights: Mapping[str, Tensor]) -> Tensor:
            tensors = {**self.fixed, **weights, **self.masks}
            return self.loss(functional_call(self.model, tensors, (self.images,)), self.labels)

        return grad(whole)(dict(self.weights))

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


class Defence(NamedTuple):
    """What a defence does: five places where it may act on the client, and what it means for others.

    Each place defaults to doing nothing. A client goes through them in this order.

    `model(model, rng)`: the network that it trains, in place of `model`.
    `inputs(images, labels, rng)`: what it trains on in a round, in place of its images float [n, …] and
    labels [n].
    `examples(batch, rng)`: the gradient of a local step [*shape], in place of the mean over the batch.
    `update(update, rng)`: what it sends, in place of tensors [rounds, *shape].
    `rounds(update, memory, rng)`: what it sends, in place of one round's tensors [1, *shape]. `memory` is its
    own from one round to the next, empty at first, and holds tensors by name; `batch.memory` is the same.

    `bits(value)` is what a tensor [rounds, *shape] takes on its way, int64 [rounds]: the defence's price in
    bandwidth, without what a general compressor would still save.
    `secret(model)`: the tensors of the changed network that are the client's own; of these the server sees
    those of `shown(model)` as they are, and the updates of those of `sent(model)`. `hidden(model)`: what the
    server knows of the change: the batch norms `layers` whose weight and bias it does not see, and what else
    is public `about` them. `view(clients)`: what is left to see of a round of clients with these numbers
    of samples, and to whom. Raises Unfit where there are too few of them.
    `certificate(steps, kind)`: what it certifies of a sample that may take part in each of `steps`
    local steps of updates of this kind (`leakbench.certificate`); none where it certifies nothing.
    """

    model: Callable[[nn.Module, torch.Generator], nn.Module] = unchanged
    inputs: Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]] | None = None
    examples: Callable[[Batch, torch.Generator], Update] | None = None
    update: Callable[[Update, torch.Generator], Update] = unchanged
    rounds: Callable[[Update, Update, torch.Generator], Update] | None = None
    bits: Bits = dense
    secret: Names = no_names
    shown: Names = no_names
    sent: Names = no_names
    hidden: Callable[[nn.Module], dict[str, Any]] = lambda model: {}
    view: Callable[[Sequence[int]], View] = each_update
    certificate: Callable[[int, str], dict[str, Any] | None] = lambda steps, kind: None


def sent_bytes(defence: Defence, update: Update) -> Tensor:
    """Return the bytes that a protected update takes on its way to the server, int64 [rounds], rounded up."""
    return -(-torch.stack([defence.bits(value) for value in update.values()]).sum(0) // 8)


def beside(each: Tensor, values: Tensor) -> Tensor:
    """Return one number for each round in a shape that multiplies `values` [rounds, …]."""
    return each.view(-1, *[1] * (values.dim() - 1))


def protected(defence: Defence, update: Update, memory: Update, rng: torch.Generator) -> Update:
    """Return what a client sends in place of `update` [rounds, *shape], one round after the other, so that
    chunks of rounds change nothing. `memory` is the client's own and is changed in place."""
    if defence.update is unchanged and defence.rounds is None:
        return update
    parts = []
    for values in zip(*(value.split(1) for value in update.values()), strict=True):
        part = defence.update(dict(zip(update, values, strict=True)), rng)
        parts.append(defence.rounds(part, memory, rng) if defence.rounds else part)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def needs(clients: Sequence[int], least: int, name: str) -> None:
    """Raise Unfit where fewer than `least` clients take part in what the defence `name` does with them
    together."""
    if len(clients) < least:
        raise Unfit(
            f"defence {name}: a round of {len(clients)} has nobody to hide among (it takes {least} clients)"
        )


def per_tensor(change: Callable[[Tensor, torch.Generator], Tensor], bits: Bits = dense) -> Defence:
    """Return the defence that changes each tensor [rounds, *shape] of an update by itself, and what one then
    takes."""
    return Defence(
        update=lambda update, rng: {name: change(value, rng) for name, value in update.items()},
        bits=bits,
    )


def build(module: str, parameters: dict[str, Any]) -> Defence:
    """Build the defence whose file is `module`."""
    defence: Defence = part("defences", module)(**parameters)
    return defence
