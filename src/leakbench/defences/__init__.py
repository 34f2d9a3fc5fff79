"""Defences: what a client or the aggregation does so that updates leak less; one file each, found by its
name."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.errors import Unfit
from leakbench.parts import part

Update = dict[str, Tensor]


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
    (`attacks.threat_model`).
    """

    groups: list[list[int]]
    seen: Callable[[Update, torch.Generator], Update]
    knows: dict[str, str]


def each_update(clients: Sequence[int]) -> View:
    """Return the server's view of clients with these numbers of samples: what each of them sends."""
    return View([[i] for i in range(len(clients))], unchanged, {})


class Defence(NamedTuple):
    """The places where a defence may act, on the client or in aggregation; each defaults to doing nothing.

    `protect_model(model, rng)` changes the network a client trains. `protect_update(update, rng)` changes
    what it sends: tensors [rounds, *shape] of one client. `bits(value)` is what one of these takes on its
    way, int64 [rounds]: the defence's price in bandwidth, without what a general compressor would still save.
    `secret(model)`: the tensors of the changed network that are the client's own; of these the server sees
    those of `shown(model)` as they are, and the updates of those of `sent(model)`. `hidden(model)`: what the
    server knows of the change: the batch norms `layers` whose weight and bias it does not see, and what else
    is public `about` them. `view(clients)`: what is left to see of a round of clients with these numbers
    of samples, and to whom. Raises Unfit where there are too few of them.
    """

    protect_model: Callable[[nn.Module, torch.Generator], nn.Module] = unchanged
    protect_update: Callable[[Update, torch.Generator], Update] = unchanged
    bits: Bits = dense
    secret: Names = no_names
    shown: Names = no_names
    sent: Names = no_names
    hidden: Callable[[nn.Module], dict[str, Any]] = lambda model: {}
    view: Callable[[Sequence[int]], View] = each_update


def sent_bytes(defence: Defence, update: Update) -> Tensor:
    """Return the bytes that a protected update takes on its way to the server, int64 [rounds], rounded up."""
    return -(-torch.stack([defence.bits(value) for value in update.values()]).sum(0) // 8)


def beside(each: Tensor, values: Tensor) -> Tensor:
    """Return one number for each round in a shape that multiplies `values` [rounds, …]."""
    return each.view(-1, *[1] * (values.dim() - 1))


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
        protect_update=lambda update, rng: {name: change(value, rng) for name, value in update.items()},
        bits=bits,
    )


def build(module: str, parameters: dict[str, Any]) -> Defence:
    """Build the defence whose file is `module`."""
    defence: Defence = part("defences", module)(**parameters)
    return defence
