"""Defences: what a client or the aggregation does so that updates leak less; one file each, found by its name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.parts import part

Update = dict[str, Tensor]


def unchanged(value: Any, *_: Any) -> Any:
    """Return `value` itself: what no defence does."""
    return value


class Defence(NamedTuple):
    """The places where a defence may act on the client; each defaults to doing nothing.

    `protect_model(model, rng)` changes the network a client trains. `protect_update(update, rng)` changes what it
    sends: tensors [rounds, *shape] of one client.
    """

    protect_model: Callable[[nn.Module, torch.Generator], nn.Module] = unchanged
    protect_update: Callable[[Update, torch.Generator], Update] = unchanged


def beside(each: Tensor, values: Tensor) -> Tensor:
    """Return one number for each round in a shape that multiplies `values` [rounds, …]."""
    return each.view(-1, *[1] * (values.dim() - 1))


def per_tensor(change: Callable[[Tensor, torch.Generator], Tensor]) -> Defence:
    """Return the defence that changes each tensor [rounds, *shape] of an update by itself."""
    return Defence(
        protect_update=lambda update, rng: {name: change(value, rng) for name, value in update.items()}
    )


def build(module: str, parameters: dict[str, Any]) -> Defence:
    """Build the defence whose file is `module`."""
    defence: Defence = part("defences", module)(**parameters)
    return defence
