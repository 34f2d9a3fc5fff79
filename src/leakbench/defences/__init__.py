"""Defences: what a client or the aggregation does so that updates leak less; one file each, found by its name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Update = dict[str, Tensor]


def _same(value: Any, *_: Any) -> Any:
    return value


class Defence(NamedTuple):
    """Three places where a defence may act; each defaults to doing nothing.

    `protect_model(model, rng)` changes the network a client trains. `protect_update(update, rng)` changes what it
    sends: tensors [rounds, *shape] of one client. `aggregate(updates, rng)` changes what the server can see: tensors
    [rounds, clients, *shape].
    """

    protect_model: Callable[[nn.Module, torch.Generator], nn.Module] = _same
    protect_update: Callable[[Update, torch.Generator], Update] = _same
    aggregate: Callable[[Update, torch.Generator], Update] = _same


def build(module: str, parameters: dict[str, Any]) -> Defence:
    """Build the defence whose file is `module`."""
    name = module.replace("-", "_")
    return getattr(import_module(f"leakbench.defences.{name}"), name)(**parameters)
