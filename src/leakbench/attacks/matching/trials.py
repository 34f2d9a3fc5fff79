"""Trials: the updates that a cell's attack works on together, and what becomes of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.gradients import engines_fit, gradients, gradients_at
from leakbench.attacks.matching.labelling import known_labels
from leakbench.attacks.matching.local_epochs import Updates, merged, simulated_update, taken_for
from leakbench.attacks.matching.loop import DIVERGED, Outcome, Schedule, traced
from leakbench.attacks.matching.received import as_gradient, noise_images, received
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import normalisation
from leakbench.networks.per_trial import hidden, lent
from leakbench.observations.adaptation import Nuisance
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


@dataclass(frozen=True)
class Group:
    """Updates of one client that started from one model, whose weights they share.

    model: the victim with the weights that were sent.
    origin: the number of the model in `observation.weights`.
    rounds: [updates]. There are updates × restarts trials, with the restarts of one update side by side.
    labels: [trials, batch]; None if the labels are unknowns too.
    batch: the number of unknown images of a trial.
    mean, deviation: [channels, 1, 1], or [channels, rows, columns]: unknowns times `deviation` plus `mean`
    are pixels.
    steps: the local steps as slices of the batch, if they are to be simulated.
    nuisance: what is unknown of the defence.
    epochs: how many unknown images stand for one sample, one for each local epoch (DLF). The batch is then
    one epoch's images after another's.
    stride: how many of the client's steps one of `steps` stands for.

    Raises Unfit for steps with hidden parameters.
    """

    observation: Observation
    model: nn.Module
    client: int
    origin: int
    rounds: Tensor
    restarts: int
    labels: Tensor | None
    batch: int
    mean: Tensor
    deviation: Tensor
    steps: list[slice] = field(default_factory=list)
    nuisance: Nuisance = field(default_factory=Nuisance)
    epochs: int = 1
    stride: int = 1

    def __post_init__(self) -> None:
        if self.steps and hidden(self.model):
            raise Unfit(
                "attack: local steps are not simulated with hidden parameters (set updates: one-batch)"
            )

    @cached_property
    def names(self) -> list[str]:
        return [name for name, _ in self.model.named_parameters()]

    @cached_property
    def _as_pixels(self) -> bool:
        """Whether the unknowns are known to be pixels, because the victim normalises nothing."""
        if self.device != "cpu":
            return False
        return not self.mean.any() and bool((self.deviation == 1).all())

    @property
    def trials(self) -> int:
        return len(self.rounds) * self.restarts

    @property
    def classes(self) -> int:
        return int(self.observation.network["classes"])

    @property
    def pixels(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image."""
        return self.observation.pixels

    @property
    def shape(self) -> torch.Size:
        """[batch, channels, rows, columns]."""
        return torch.Size([self.batch, *self.pixels])

    @property
    def device(self) -> str:
        return self.observation.work.device

    @property
    def samples(self) -> int:
        """The number of samples of the client."""
        return self.batch // self.epochs

    @property
    def lr(self) -> float:
        """The learning rate of a simulated step."""
        return float(self.observation.local["lr"]) * self.stride

    @cached_property
    def noise(self) -> Tensor:
        """Images of uniform noise in [0, 1], always the same: [NOISE, channels, rows, columns]."""
        return noise_images(self.pixels).to(self.device)

    def observed(self, trials: Tensor) -> Tensors:
        """Read what was observed for `trials` [n]: parameter → [n, *shape]."""
        rounds = self.rounds[trials // self.restarts]
        found = {}
        for name in [*self.names, *self.nuisance.beside]:
            value = received(self.observation, name, rounds, self.client).to(self.device)
            found[name] = value if self.steps else as_gradient(self.observation, value, self.batch)
        return found

    def caused(self, images: Tensor, labels: Tensor, trials: Tensor, dummies: Tensors) -> Tensors:
        """Return what `observed` would be if the dummies were the private images."""
        if self.steps:
            return simulated_update(self.model, images, labels, self.steps, self.lr)
        weights = {name: dummies[name] for name in self.names if name in dummies}
        if weights:
            return gradients_at(self.model, images, labels, weights)
        with lent(self.model, dummies):
            found, _ = gradients(self.model, images, labels)
        slopes = {name: found.pop(name) for name in hidden(self.model)}
        return found | self.nuisance.gradients(trials, dummies, slopes)

    def gap(self, dummies: Tensors, chunk: int) -> Tensor:
        """Return the mean squared difference of the gradients that dummies cause and those observed."""
        found = []
        for rows in torch.arange(self.trials).split(chunk):
            own = {name: value[rows].to(self.device) for name, value in dummies.items()}
            images = self.to_pixels(own["images"]).requires_grad_()
            labels = own["labels"].softmax(2) if self.labels is None else self.labels[rows]
            mine = self.caused(images, labels, rows, own)
            squares = [
                (mine[name].detach() - o).square().flatten(1) for name, o in self.observed(rows).items()
            ]
            found.append(torch.cat(squares, 1).mean(1).cpu())
        return torch.cat(found)

    def draw(self, start: str, rng: torch.Generator, trials: int | None = None) -> Tensors:
        """Draw the first images [trials, batch, …], and logits of labels if they are unknown."""
        # On the processor and trial by trial, so that a start depends neither on the device nor on how
        # many trials follow.
        draw = torch.randn if start == "normal" else torch.rand
        out: dict[str, list[Tensor]] = {"images": []}
        if self.labels is None:
            out["labels"] = []
        for _ in range(trials or self.trials):
            out["images"].append(draw(self.batch, *self.pixels, generator=rng))
            if self.labels is None:
                out["labels"].append(torch.randn(self.batch, self.classes, generator=rng))
        return {name: torch.stack(values).to(self.device) for name, values in out.items()}

    def to_pixels(self, unknowns: Tensor) -> Tensor:
        """Return images in [0, 1] of unknowns in the victim's normalised space."""
        if self._as_pixels:
            return unknowns.view_as(unknowns)
        return unknowns * self.deviation + self.mean

    def shown(self, unknowns: Tensor) -> Tensor:
        """Return what an attack shows of its unknowns: images in [0, 1] on the processor."""
        return torch.nan_to_num(self.to_pixels(unknowns.to(self.device))).clamp(0, 1).cpu()

    def clip(self, unknowns: Tensors) -> None:
        """Keep pixels within [0, 1], in place."""
        if self._as_pixels:
            unknowns["images"].clamp_(0, 1)
        else:
            unknowns["images"].clamp_(-self.mean / self.deviation, (1 - self.mean) / self.deviation)


def groups(
    observation: Observation,
    updates: Updates = "one-batch",
    restarts: int = 1,
    rng: torch.Generator | None = None,
) -> Iterator[Group]:
    """Yield the groups of an observation. Each (round, client) is in one of them."""
    first: nn.Module | None = None
    for origin, rounds in observation.by_model():
        model = observation.model(origin).requires_grad_(False)
        model = model.to(observation.work.device).to(memory_format=torch.channels_last)
        engines_fit(model, torch.Size([max(observation.clients), *observation.pixels]), like=first)
        first = first or model
        scale = normalisation(model, observation.pixels[0])
        mean, deviation = (value.to(observation.work.device) for value in scale)
        for client, batch in enumerate(observation.clients):
            known = known_labels(observation, client, rounds, model)
            taken = taken_for(observation, batch, updates)
            if known is not None:
                known = known.repeat_interleave(restarts, 0)
                if taken.shuffled and observation.labelling != "oracle":
                    known = torch.stack([each[torch.randperm(batch, generator=rng)] for each in known])
                known = known.repeat(1, taken.epochs).to(observation.work.device)
            yield Group(
                observation=observation,
                model=model,
                client=client,
                origin=origin,
                rounds=rounds,
                restarts=restarts,
                labels=known,
                batch=batch * taken.epochs,
                mean=mean,
                deviation=deviation,
                steps=taken.steps,
                epochs=taken.epochs,
                stride=taken.stride,
            )


def blank(observation: Observation, schedule: Schedule) -> Reconstruction:
    """Return the reconstruction of an observation that `add` fills."""
    lead = (observation.rounds, len(observation.clients))
    every, points, kept = (*lead, max(observation.clients)), traced(schedule.iterations), schedule.kept
    images = torch.zeros(*every, *observation.pixels)
    return Reconstruction(
        images=images,
        usable=torch.zeros(every, dtype=torch.bool),
        iterations=schedule.iterations,
        labels=torch.full(every, -1),
        diverged=torch.zeros(lead, dtype=torch.bool),
        losses=torch.full((*lead, len(points)), torch.nan),
        traced=torch.tensor(points),
        snapshots=images.new_zeros(len(kept), *images.shape),
        snapshot_iterations=torch.tensor(kept, dtype=torch.int64),
        gap=torch.full(lead, torch.nan),
        snapshot_gaps=torch.full((len(kept), *lead), torch.nan),
    )


def add(found: Reconstruction, group: Group, outcome: Outcome, gap: Callable[[Tensors], Tensor]) -> None:
    """Put into a reconstruction, of each update's restarts, the one with the lowest final loss."""
    into, part = found.tensors(), (group.rounds, group.client)
    own = (*part, slice(0, group.samples))
    final = torch.nan_to_num(outcome.final, nan=torch.inf, posinf=torch.inf)
    best = final.view(-1, group.restarts).argmin(1) + torch.arange(len(group.rounds)) * group.restarts
    into["images"][own] = merged(group.shown(outcome.unknowns["images"][best]), group.epochs)
    into["usable"][own] = True
    into["diverged"][part] = outcome.status[best] == DIVERGED
    known = outcome.unknowns["labels"].argmax(2) if group.labels is None else group.labels
    into["labels"][own] = known.cpu()[best, : group.samples]
    into["gap"][part] = gap(outcome.unknowns)[best]
    for place in range(len(into["snapshots"])):
        kept = {name: value[place] for name, value in outcome.snapshots.items()}
        into["snapshots"][(place, *own)] = merged(group.shown(kept["images"][best]), group.epochs)
        into["snapshot_gaps"][(place, *part)] = gap(kept)[best]
    into["losses"][part] = outcome.losses[:, best].T
