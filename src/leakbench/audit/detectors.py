"""The alarms of a client's detectors on the models that it was sent, each within a share of the budget."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from torch import nn

from leakbench.audit.client import Truth
from leakbench.audit.findings import timed
from leakbench.federation import detectors
from leakbench.federation.detectors import Received
from leakbench.observations.observation import Observation
from leakbench.results.report.numbers import number

# What a server sent to a client and what came back, with the client's records where they are known.
Watched = tuple[Observation, Truth | None]
# The share of the budget that one detector may take.
SHARE = 0.1


@dataclass
class Alarm:
    """The result of one detector for all models that were sent."""

    detector: str
    looks_for: str
    # The largest of its numbers, divided by that above which it sounds; None without a finite one.
    far: float | None = None
    sounds: bool = False
    why_not: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        found = "sounds" if self.sounds else "quiet"
        return self.why_not if self.far is None else f"{found}, {number(self.far, 3)} of its alarm"


def alarms(parts: Sequence[Watched], budget: float, clients: int = 1) -> list[Alarm]:
    """Run every detector on each model that was sent; a round has as many parts as `clients`, in order."""
    # A list keeps what detectors share, such as the gradient. Several rounds may not fit into memory, and
    # torch's functional calls leave tensors of their own in a layer that a network uses under two names.
    model = parts[0][0].model()
    aliased = len(list(model.named_parameters(remove_duplicate=False))) > len(list(model.parameters()))
    kept = list(_seen(parts, clients)) if len(parts) == 1 and not aliased else None
    return [_alarm(name, kept or _seen(parts, clients), budget * SHARE) for name in detectors.names()]


def _alarm(name: str, seen: Iterable[Received], limit: float) -> Alarm:
    alarm, found = Alarm(name, detectors.looks_for(name)), list[detectors.Reading]()

    def read() -> None:
        for received in seen:
            found.append(detectors.reading(name, received))

    timed(alarm, limit, read)
    reasons = dict.fromkeys(each.why_not for each in found)
    far = [each.far for each in found if not each.why_not]
    if alarm.why_not:
        # Of a detector that did not end, only what sounds is known.
        reasons, far = {alarm.why_not: None}, [each for each in far if each > 1]
    most = max(far, default=0.0)
    alarm.why_not = "" if far else "; ".join(reasons)
    if not isfinite(most):
        alarm.why_not = "a weight or a gradient is no number"
    alarm.far, alarm.sounds = None if alarm.why_not else round(most, 4), most > 1
    return alarm


def _seen(parts: Sequence[Watched], clients: int) -> Iterator[Received]:
    memories: list[list[Mapping[str, float]]] = [[] for _ in range(clients)]
    for place, (observation, truth) in enumerate(parts):
        memory = memories[place % clients]
        rows, columns, channels = observation.network["shape"]
        images, labels = torch.zeros(0, channels, rows, columns), torch.zeros(0, dtype=torch.long)
        sent = None
        if truth is not None:
            images, labels = truth.images, truth.labels.clamp_min(0)
        elif any(value.any() for value in observation.updates.values()):
            sent = {name: observation.update(name)[0, 0] for name in observation.updates}
        for model in _models(observation, place % clients, clients):
            received = Received(
                model, images, labels, lr=observation.local["lr"], earlier=tuple(memory),
                plain_loss=observation.plain, sent=sent,
            )  # fmt: skip
            yield received
        if received.sent is not None:
            memory.append(received.now)


def _models(observation: Observation, client: int, clients: int) -> Iterator[nn.Module]:
    """Yield the model that a client was sent, or those of all clients if the observation is their sum."""
    origin = int(observation.origin[0])
    model = observation.model(origin)
    each = {name: torch.from_numpy(np.array(value[origin])) for name, value in observation.each.items()}
    if not each:
        yield model
        return
    number = len(next(iter(each.values())))
    for place in [client] if number == clients else range(number):
        model.load_state_dict({name: value[place] for name, value in each.items()}, strict=False)
        yield model
