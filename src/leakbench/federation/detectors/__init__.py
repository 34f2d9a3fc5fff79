"""Detectors: what a client can tell of a model before it sends an update; one file each, found by its name.

A detector returns a number that grows with suspicion. It raises an alarm where the number exceeds the
constant `ALARM` of its file, which was set before any model was tried. Where a detector cannot judge a model
it raises Unfit with the reason. The docstring of its file is what people read of it: one sentence.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from leakbench.attacks.matching.received import noise_images
from leakbench.base import parts
from leakbench.base.errors import Unfit
from leakbench.networks.layers import first_dense


@dataclass(frozen=True)
class Received:
    """What a client holds when it has received a model; the client could compute all of it itself.

    model: the network with the weights that were sent, in evaluation mode.
    images: float [n, channels, rows, columns] in [0, 1], of the batch whose gradient the client would send.
    There are none where the observer is not the client and does not know them.
    labels: int64 [n], of the same batch.
    lr: the learning rate of its local step.
    earlier: what `now` was in earlier rounds, oldest first; empty in a first round.
    plain_loss: whether the loss is the mean cross-entropy.
    sent: parameter → what the client sent in this round, where its batch is unknown.
    transport: the settings with which the server asks for a rounded sum, by Flower's names, if it sent any.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor
    lr: float = 0.0
    earlier: Sequence[Mapping[str, float]] = ()
    plain_loss: bool = True
    sent: Mapping[str, Tensor] | None = None
    transport: Mapping[str, float] | None = None

    def records(self, fewest: int = 1) -> tuple[Tensor, Tensor]:
        """Return images and labels. Raises Unfit where the records are unknown or fewer."""
        if not len(self.labels):
            raise Unfit("the client's records are unknown")
        if len(self.labels) < fewest:
            raise Unfit(f"a batch of fewer than {fewest} records tells nothing")
        return self.images, self.labels

    def by_entropy(self, fewest: int = 1) -> tuple[Tensor, Tensor]:
        """Return images and labels for a detector that takes gradients of the mean cross-entropy."""
        if not self.plain_loss:
            raise Unfit("the loss is not the mean cross-entropy")
        return self.records(fewest)

    @cached_property
    def gradient(self) -> Mapping[str, Tensor]:
        """Return what the client would send: parameter → the gradient of the mean loss over its batch."""
        images, labels = self.by_entropy()
        named = dict(self.model.named_parameters())
        loss = cross_entropy(self.model(images), labels)
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))

    @cached_property
    def now(self) -> dict[str, float]:
        """Return the numbers that a client remembers of a round: losses and the length of what it sends."""
        if self.sent is not None:
            return {"gradient": _length(self.sent)}
        stepped = {
            name: value - self.lr * self.gradient[name] for name, value in self.model.named_parameters()
        }
        with torch.no_grad():
            before, after = (
                float(cross_entropy(functional_call(self.model, weights, (self.images,)), self.labels))
                for weights in ({}, stepped)
            )
        return {"loss": before, "gradient": _length(self.gradient), "loss after a step": after}

    @cached_property
    def layer(self) -> nn.Linear:
        """Return the first dense layer that reads something flattened."""
        # Two images, because a batch norm that goes by its batch has no statistics of a single number.
        channels, rows, columns = self.images.shape[1:]
        images = self.images[:2] if len(self.labels) else noise_images((channels, rows, columns))[:2]
        found: nn.Linear = self.model.get_submodule(first_dense(self.model, images)[0])  # type: ignore[assignment]
        return found

    @cached_property
    def broken(self) -> bool:
        """Return whether a weight, or a number of the batch's gradient, is not finite."""
        with suppress(Unfit):
            if not all(value.isfinite().all() for value in self.gradient.values()):
                return True
        return not all(value.isfinite().all() for value in self.model.parameters())


@dataclass(frozen=True)
class Reading:
    """A detector's number over its `ALARM`, or 0 and in words why it cannot judge the model."""

    name: str
    far: float
    why_not: str = ""

    @property
    def sounds(self) -> bool:
        return self.far > 1


def names() -> list[str]:
    """Return the names of all detectors of models, which have no constant SETTINGS, as tables write them."""
    found = parts.names("detectors")
    return [name for name in found if not hasattr(import_module(f"{__name__}.{name}"), "SETTINGS")]


def looks_for(name: str) -> str:
    """Return what a detector looks for: the docstring of its file."""
    return " ".join((import_module(f"{__name__}.{name}").__doc__ or "").split())


def reading(name: str, received: Received) -> Reading:
    """Run one detector on what a client received."""
    try:
        far = math.inf if received.broken else float(parts.part("detectors", name)(received))
    except Unfit as reason:
        return Reading(name, 0.0, str(reason).removeprefix("attack: "))
    return Reading(name, far / import_module(f"{__name__}.{name}").ALARM)


def readings(received: Received) -> list[Reading]:
    """Run all detectors of models on what a client received, in the order of their names."""
    return [reading(name, received) for name in names()]


def _length(tensors: Mapping[str, Tensor]) -> float:
    return math.hypot(*(float(value.double().norm()) for value in tensors.values()))
