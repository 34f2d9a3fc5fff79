"""Detectors: what a client can tell of a model before it sends an update; one file each, found by its name.

A detector returns a number that grows with suspicion. It raises an alarm where the number exceeds the
constant `ALARM` of its file, which was set before any model was tried.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from leakbench.errors import Unfit
from leakbench.parts import part
from leakbench.victims.layers import first_dense


@dataclass(frozen=True)
class Received:
    """What a client holds when a model has come: nothing that it could not compute itself.

    model: the network with the weights that were sent, in evaluation mode. images: float [n, channels, rows,
    columns] in [0, 1], and labels: int64 [n], the batch whose gradient the client would send. lr: the rate of
    its local step. earlier: what `now` was in rounds before, oldest first; none is remembered of a first
    round.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor
    lr: float = 0.0
    earlier: Sequence[Mapping[str, float]] = ()

    @cached_property
    def gradient(self) -> Mapping[str, Tensor]:
        """Return what the client would send: parameter → the gradient of the mean loss over its batch."""
        named = dict(self.model.named_parameters())
        loss = cross_entropy(self.model(self.images), self.labels)
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))

    @cached_property
    def now(self) -> dict[str, float]:
        """Return what a client remembers of a round: the mean loss over its batch, the Euclidean length of
        its gradient, and the loss after one step of plain SGD at `lr` on this batch."""
        stepped = {
            name: value - self.lr * self.gradient[name] for name, value in self.model.named_parameters()
        }
        with torch.no_grad():
            before, after = (
                float(cross_entropy(functional_call(self.model, weights, (self.images,)), self.labels))
                for weights in ({}, stepped)
            )
        length = math.hypot(*(float(value.double().norm()) for value in self.gradient.values()))
        return {"loss": before, "gradient": length, "loss after a step": after}

    @cached_property
    def layer(self) -> str:
        """Return the name of the first dense layer, empty where there is none."""
        try:
            # Two, for a batch norm that goes by its batch has no statistics of a single number.
            return first_dense(self.model, self.images[:2])[0]
        except Unfit:
            return ""


def names() -> list[str]:
    """Return the names of all detectors, as tables write them."""
    return sorted(found.name for found in iter_modules(__path__))


def suspicion(received: Received, asked: Sequence[str] = ()) -> dict[str, float]:
    """Return for each detector how far it is beyond its alarm: its number over `ALARM`, so that above 1 it
    sounds.

    asked: the detectors to run; without any, all.

    A detector that finds nothing to look at in the network returns 0. All sound where a weight, or for all
    detectors the batch's gradient, is no number: such weights are no sign of honesty.
    """
    values = received.model.parameters() if asked else received.gradient.values()
    if not all(value.isfinite().all() for value in values):
        return dict.fromkeys(asked or names(), math.inf)
    return {
        name: float(part("detectors", name)(received)) / import_module(f"{__name__}.{name}").ALARM
        for name in asked or names()
    }
