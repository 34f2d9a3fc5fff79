"""The composition of a gradient-matching attack, and the reconstruction of each update by it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from leakbench.attacks.exact.adam import stepped_back
from leakbench.attacks.matching.engines import frozen, shared_weights
from leakbench.attacks.matching.engines.agreement import Engine, agrees
from leakbench.attacks.matching.local_epochs import Updates
from leakbench.attacks.matching.loop import Schedule, match
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimiser import Make
from leakbench.attacks.matching.parameterisation import Parameterisation, with_nuisance
from leakbench.attacks.matching.terms import Term
from leakbench.attacks.matching.trials import Group, add, blank, groups
from leakbench.base.errors import Unfit
from leakbench.networks.per_trial import hidden
from leakbench.observations.adaptation import Nuisance
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


@dataclass(frozen=True)
class Composition:
    """The parts of an attack, and how it reads updates and takes derivatives (`gradient_matching`)."""

    objective: Sequence[Term]
    unknowns: Parameterisation
    optimiser: Make
    updates: Updates = "one-batch"
    derivative: Literal["exact", "frozen"] = "exact"

    def objective_of(
        self, group: Group, terms: Sequence[Term] | None = None, weighs: bool = False
    ) -> Objective:
        """Return the objective of a group's trials, with the engine that suits it.

        Differences, on a GPU batches of trials in their place, and on a processor batches on narrow networks
        serve where nothing else stands between dummies and gradients and all entries are compared by
        products. Plain autograd has to agree first.
        """
        objective = Objective(group, self.objective if terms is None else terms)
        mechanism = group.observation.adaptation.mechanism
        plain = not (group.steps or hidden(group.model) or mechanism or weighs or group.nuisance.start)
        plain = plain and not (objective.distance.whole or objective.partial)
        engine: type[Engine] | None = None
        of, cpu = (group.model, group.shape), group.device == "cpu"
        if plain and self.derivative == "frozen" and frozen.pays(*of):
            batched = not cpu and shared_weights.fits(*of)
            engine = shared_weights.SharedWeights if batched else frozen.FrozenDifference
        elif plain and cpu and shared_weights.pays(*of):
            engine = shared_weights.SharedWeights
        if engine is not None and not agrees(engine, group, objective.distance):
            engine = None
        return replace(objective, engine=engine, mechanism=mechanism)

    def reconstruct(
        self,
        observation: Observation,
        rng: torch.Generator,
        schedule: Schedule,
        length: int,
        restarts: int = 1,
    ) -> Reconstruction:
        """Reconstruct the images of each update from that update alone, all updates and restarts together."""
        observation = stepped_back(observation)
        found = blank(observation, schedule)
        make = partial(self.optimiser, length)
        for plain in groups(observation, self.updates, restarts, rng):
            trials = plain.rounds.repeat_interleave(restarts)
            nuisance = observation.adaptation.nuisance(observation, plain.client, trials, rng)
            group = replace(plain, nuisance=nuisance)
            sought = self.unknowns(group, rng)
            objective = self.objective_of(group, weighs=sought.weighs)
            if nuisance != Nuisance():
                sought = with_nuisance(sought, nuisance)
            first = make()
            if sought.weighs and first.population > 1:
                raise Unfit(
                    "attack: unknowns: surrogate weights take an optimiser of gradients (set optimiser: adam)"
                )
            chunk = objective.chunk(first, sought)
            evaluate = sought.through(objective.evaluate)
            if first.population > 1:
                evaluate = sought.members(objective.losses, chunk)
                chunk = max(1, chunk // first.population)
            outcome = match(
                sought.start,
                evaluate,
                make,
                sought.project,
                schedule,
                chunk,
                observation.work.part(f"match client {group.client}, model {group.origin}"),
                sought.dummies,
            )
            add(found, group, outcome, partial(group.gap, chunk=chunk))
        return found


# A way to attack the updates of several epochs together, in a number of iterations.
Epochs = Callable[[Observation, torch.Generator, Composition, int], Reconstruction]
