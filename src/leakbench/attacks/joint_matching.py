"""AGIC over several epochs: match updates trained on the same sample, then reconstruct it from all of
them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.gradient_matching import gradient_matching
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.errors import Unfit
from leakbench.matching.frozen import pays
from leakbench.matching.joint import JointObjective, Part, Problems, add, begun, one_by_one, whole_batches
from leakbench.matching.layer_weights import layer_weights
from leakbench.matching.loop import Schedule, match
from leakbench.matching.objective import Objective
from leakbench.matching.optimisers import Adam
from leakbench.matching.trials import Collected, Group, groups
from leakbench.matching.update_matching import Looks, chains, partners

# Name of `Reconstruction.partners` → (pooling, label filter): the rows of AGIC's Table V.
MATCHINGS = {
    "partner": (True, True),
    "partner_no_pooling": (False, True),
    "partner_no_labels": (True, False),
    "partner_plain": (False, False),
}


def joint_matching(
    observation: Observation,
    rng: torch.Generator,
    *,
    steps: Literal["both", "matching", "joint"] = "both",
    pooling: bool = True,
    label_filter: bool = True,
    pre_iterations: Annotated[int, Field(gt=0)] = 2000,
    later: Annotated[float, Field(ge=0)] = 0.1,
    tv: Annotated[float, Field(ge=0)] = 0.0,
    lr: Annotated[float, Field(gt=0)] = 0.1,
    iterations: Annotated[int, Field(gt=0)] = 10000,
    signed: bool = False,
    decay: bool = False,
    boxed: bool = False,
    start: Literal["normal", "uniform"] = "normal",
    layers: Literal["one", "linear", "exponential", "logarithmic"] = "one",
    beta: Annotated[float, Field(gt=0)] = 1.0,
    relu: bool = False,
    norms: Literal["following", "one", "none"] = "following",
    order: Literal["parameters", "forward"] = "parameters",
    inference: Literal["idlg", "row-minimum", "counted"] = "counted",
    derivative: Literal["exact", "frozen"] = "exact",
) -> Reconstruction:
    """Reconstruct samples from the updates of several epochs. All rounds that started from one model are an
    epoch.

    `steps`, first `matching`: each update is reconstructed alone, in `pre_iterations`, and images of
    consecutive epochs are paired. All four ways of Table V are told; `pooling` and `label_filter` choose the
    one that is used. Then `joint`: a sample is reconstructed from all its updates, the first one's distance
    with weight 1, the others' with `later`, and the image stands wherever the sample was seen. The second
    step alone assumes that every epoch has the same batches in the same order (Table III). A single epoch
    leaves nothing to match, and its batches are reconstructed one by one. All other values are those of
    `attacks.gradient_matching`. Source: AGIC, section IV-B.
    """
    epochs = [
        torch.from_numpy(np.flatnonzero(observation.origin == o)) for o in np.unique(observation.origin)
    ]
    if steps == "joint" or (steps == "both" and len(epochs) == 1):
        found = Collected(observation, Schedule(iterations)).found
        problems = _same_batches(observation, epochs, found)
    else:
        found = gradient_matching(
            observation, rng, distance="cosine", tv=tv, lr=lr, iterations=pre_iterations, signed=signed,
            decay=decay,
            boxed=boxed, start=start, layers=layers, beta=beta, relu=relu, norms=norms, order=order,
            inference=inference, derivative=derivative,
        )  # fmt: skip
        problems = _matched(observation, epochs, found, (pooling, label_filter))
        if steps == "matching":
            return found
        found.iterations += iterations
    found = begun(found, iterations)

    def make() -> Adam:
        return Adam(lr, iterations, signed, decay)

    def optimise(own: list[Group], objectives: list[Objective], asked: Problems) -> None:
        batch = own[0].batch
        parts = [
            Part(objectives[epoch], asked.rows[:, i], asked.places(batch, i), 1.0 if i == 0 else later)
            for i, epoch in enumerate(asked.seen)
        ]
        objective = JointObjective(parts, tv)
        start_of = replace(own[0], batch=asked.unknowns(batch))
        outcome = match(
            start_of.draw(start, rng, len(asked.rows)),
            objective.evaluate,
            make,
            own[0].clip if boxed else lambda unknowns: None,
            Schedule(iterations),
            objective.chunk(make()),
            observation.work.part(
                f"joint client {own[0].client}, epochs {asked.seen[0]} to {asked.seen[-1]}"
            ),
        )
        add(found, own, asked, outcome)

    weigh = partial(layer_weights, shape=layers, beta=beta, relu=relu, norms=norms, order=order)
    every = list(groups(observation, "one-batch", inference, 1))
    for client, sets in enumerate(problems):
        own = _labelled([group for group in every if group.client == client], found)
        objectives = [
            Objective(g, "cosine", weigh, 0.0, derivative == "frozen" and pays(g.model)) for g in own
        ]
        for asked in sets:
            optimise(own, objectives, asked)
    return found


def _matched(
    observation: Observation, epochs: Sequence[Tensor], found: Reconstruction, used: tuple[bool, bool]
) -> list[list[Problems]]:
    """Pair what was seen in the first look in all four ways; return each client's joint problems by the one
    `used`."""
    assert found.labels is not None
    problems = []
    found.partners = {name: torch.full(found.usable.shape, -1) for name in MATCHINGS}
    for client, batch in enumerate(observation.clients):
        looks = [Looks(found.images[r, client, :batch], found.labels[r, client, :batch]) for r in epochs]
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
    """Write pairs of images, each numbered within its epoch, into `partner` [rounds, batch] as round · width
    + position."""
    batch = partner.shape[1]
    for before, after, image in zip(epochs, epochs[1:], pairs[1:], strict=False):
        partner[after] = torch.where(image < 0, -1, before[image // batch] * width + image % batch)


def _labelled(own: list[Group], found: Reconstruction) -> list[Group]:
    """Return the epochs of a client with the labels of the first look.

    Where there was none, the first epoch's labels serve the same batches in all epochs.
    """
    assert found.labels is not None
    client, batch = own[0].client, own[0].batch
    if (found.labels[own[0].rounds, client, :batch] < 0).any():
        if own[0].labels is None:
            raise Unfit(
                "attack: labels: joint, but steps: joint has no first look to find them (set labels: "
                "inferred)"
            )
        for group in own:
            found.labels[group.rounds, client, :batch] = own[0].labels.cpu()
    return [
        replace(group, labels=found.labels[group.rounds, client, :batch].to(group.device)) for group in own
    ]
