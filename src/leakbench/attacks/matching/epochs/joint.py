"""AGIC over several epochs: match updates of the same sample, then reconstruct it from all of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.composition import Composition, Epochs
from leakbench.attacks.matching.joint import (
    EpochTerm,
    JointObjective,
    Problems,
    add,
    begun,
    one_by_one,
    whole_batches,
)
from leakbench.attacks.matching.loop import Outcome, Schedule, match
from leakbench.attacks.matching.objective import priors_of
from leakbench.attacks.matching.terms import Prior
from leakbench.attacks.matching.trials import Group, blank, groups
from leakbench.attacks.matching.update_matching import chains, partners
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {
    "": (
        "parameters.restarts: *", "parameters.snapshots: *", "parameters.enough: *",
        "parameters.decay_over: *",
    ),
    "steps: joint": ("labels: joint",),
}  # fmt: skip

# Name of `Reconstruction.partners` → (pooling, label filter): the rows of AGIC's Table V.
MATCHINGS = {
    "partner": (True, True),
    "partner_no_pooling": (False, True),
    "partner_no_labels": (True, False),
    "partner_plain": (False, False),
}


def joint(
    *,
    steps: Literal["both", "matching", "joint"] = "both",
    pooling: bool = True,
    label_filter: bool = True,
    pre_iterations: Annotated[int, Field(gt=0)] = 2000,
    later: Annotated[float, Field(ge=0)] = 0.1,
) -> Epochs:
    """Reconstruct samples from the updates of several epochs (AGIC, section IV-B).

    All rounds that started from one model are an epoch. In the step `matching`, each update is reconstructed
    alone, and the images of consecutive epochs are paired. In the step `joint`, a sample is reconstructed
    from all its updates, and the image is used wherever the sample was seen.

    steps: the steps that are taken. `both` takes one after the other; with a single epoch there is nothing to
    match, and its batches are reconstructed one by one. `matching` stops after the first step. `joint` alone
    assumes that every epoch has the same batches in the same order (Table III).
    pooling: with `label_filter`, which of the four ways of Table V pairs the images. All four ways are
    reported.
    label_filter: see `pooling`.
    pre_iterations: the number of iterations of the step `matching`.
    later: the weight of the distances of later updates, at least 0, where that of the first update is 1.
    """

    def attack(
        observation: Observation, rng: torch.Generator, composed: Composition, iterations: int
    ) -> Reconstruction:
        epochs = [rounds for _, rounds in observation.by_model()]
        if steps == "joint" or (steps == "both" and len(epochs) == 1):
            found = blank(observation, Schedule(iterations))
            problems = _same_batches(observation, epochs, found)
        else:
            found = composed.reconstruct(observation, rng, Schedule(pre_iterations, 0.0), pre_iterations)
            problems = _matched(observation, epochs, found, (pooling, label_filter))
            if steps == "matching":
                return found
            found.iterations += iterations
        found = begun(found, iterations)
        every = list(groups(observation))
        for client, sets in enumerate(problems):
            own = _labelled([group for group in every if group.client == client], found)
            for asked in sets:
                outcome = _optimised(own, asked, composed, iterations, later, rng)
                add(found, own, asked, outcome)
        return found

    return attack


def _optimised(
    own: list[Group], asked: Problems, composed: Composition, iterations: int, later: float,
    rng: torch.Generator,
) -> Outcome:  # fmt: skip
    """Return the outcome of the joint problems `asked` of one client, whose epochs are the groups `own`."""
    batch, work = own[0].batch, own[0].observation.work
    distances = [term for term in composed.objective if not isinstance(term, Prior)]
    parts = [
        EpochTerm(
            composed.objective_of(own[epoch], distances),
            asked.rows[:, i],
            asked.places(batch, i),
            1.0 if i == 0 else later,
        )
        for i, epoch in enumerate(asked.seen)
    ]
    # A problem has more unknown images than an update has samples.
    problems = replace(own[0], batch=asked.unknowns(batch), rounds=own[0].rounds[asked.rows[:, 0]])
    objective = JointObjective(parts, priors_of(problems, composed.objective))
    sought, make = composed.unknowns(problems, rng), partial(composed.optimiser, iterations)
    if sought.weighs:
        raise Unfit("attack: epochs: joint takes no surrogate weights (set unknowns: dummies)")
    label = f"joint client {own[0].client}, epochs {asked.seen[0]} to {asked.seen[-1]}"
    return match(
        sought.start,
        sought.through(objective.evaluate),
        make,
        sought.project,
        Schedule(iterations),
        objective.chunk(make()),
        work.part(label),
        sought.dummies,
    )


def _matched(
    observation: Observation, epochs: Sequence[Tensor], found: Reconstruction, used: tuple[bool, bool]
) -> list[list[Problems]]:
    """Pair the images of the first step in all four ways, and return each client's joint problems."""
    problems, labels = [], found.tensors()["labels"]
    found.partners = {name: torch.full(found.usable.shape, -1) for name in MATCHINGS}
    for client, batch in enumerate(observation.clients):
        looks = [(found.images[r, client, :batch], labels[r, client, :batch]) for r in epochs]
        for name, way in MATCHINGS.items():
            pairs = partners(looks, *way)
            _tell(found.partners[name][:, client, :batch], epochs, pairs, found.usable.shape[2])
            if way == used:
                problems.append(one_by_one(chains(pairs), batch))
    return problems


def _same_batches(
    observation: Observation, epochs: Sequence[Tensor], found: Reconstruction
) -> list[list[Problems]]:
    """Pair each batch with the same one of the epoch before; return each client's joint problems."""
    updates = len(epochs[0])
    for number, rounds in enumerate(epochs):
        if len(rounds) != updates:
            raise Unfit(
                "attack: steps: joint needs the same batches in each epoch, but model 0 was sent for "
                f"{updates} rounds and model {number} for {len(rounds)} (set steps: both)"
            )
    found.partners = {"partner": torch.full(found.usable.shape, -1)}
    for client, batch in enumerate(observation.clients):
        same = torch.arange(updates * batch).view(updates, batch)
        pairs = [torch.full_like(same, -1), *[same] * (len(epochs) - 1)]
        _tell(found.partners["partner"][:, client, :batch], epochs, pairs, found.usable.shape[2])
    return [whole_batches(updates, len(epochs), batch) for batch in observation.clients]


def _tell(partner: Tensor, epochs: Sequence[Tensor], pairs: Sequence[Tensor], width: int) -> None:
    batch = partner.shape[1]
    for before, after, image in zip(epochs, epochs[1:], pairs[1:], strict=False):
        partner[after] = torch.where(image < 0, -1, before[image // batch] * width + image % batch)


def _labelled(own: list[Group], found: Reconstruction) -> list[Group]:
    """Return the epochs of a client with the labels of the first step."""
    labels, client, batch = found.tensors()["labels"], own[0].client, own[0].batch
    if (labels[own[0].rounds, client, :batch] < 0).any():
        if own[0].labels is None:
            raise Unfit(
                "attack: labels: joint, but steps: joint has no first look to find them (set labels: counted)"
            )
        for group in own:
            labels[group.rounds, client, :batch] = own[0].labels.cpu()
    return [replace(group, labels=labels[group.rounds, client, :batch].to(group.device)) for group in own]
