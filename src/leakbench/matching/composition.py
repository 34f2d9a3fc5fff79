"""What a gradient-matching attack is composed of, and the reconstruction of each update by it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from leakbench.adaptive import Nuisance
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.errors import Unfit
from leakbench.matching.frozen import pays
from leakbench.matching.gap import gradient_gap
from leakbench.matching.hidden import hidden
from leakbench.matching.local_epochs import Updates
from leakbench.matching.loop import Schedule, match
from leakbench.matching.objective import Objective
from leakbench.matching.optimiser import Make
from leakbench.matching.terms import Term
from leakbench.matching.trials import Collected, Group, Precision, groups
from leakbench.matching.unknowns import Parameterisation, beside


@dataclass(frozen=True)
class Composition:
    """The parts of an attack, and how it takes updates and derivatives (`attacks.gradient_matching`)."""

    objective: Sequence[Term]
    unknowns: Parameterisation
    optimiser: Make
    updates: Updates = "one-batch"
    derivative: Literal["exact", "frozen"] = "exact"
    precision: Precision = "float32"

    def objective_of(
        self, group: Group, terms: Sequence[Term] | None = None, weighs: bool = False
    ) -> Objective:
        """Return the objective of a group's trials, by all terms or by the given ones.

        weighs: whether the dummies hold weights of the victim. Differences stand for second derivatives only
        where the attack asks for them, the network is deep enough to gain by them, nothing else stands
        between the dummies and their gradients, and these are compared as a whole and not rounded to
        bfloat16.
        """
        group = replace(group, precision=self.precision)
        objective = Objective(group, self.objective if terms is None else terms)
        mechanism = group.observation.adaptation.mechanism
        plain = not group.steps and not hidden(group.model) and mechanism is None and not weighs
        plain = plain and self.precision == "float32"
        plain = plain and objective.distance.whole is None and not objective.partial
        frozen = self.derivative == "frozen" and plain
        return replace(objective, frozen=frozen and pays(group.model, group.shape), mechanism=mechanism)

    def reconstruct(
        self,
        observation: Observation,
        rng: torch.Generator,
        schedule: Schedule,
        length: int,
        restarts: int = 1,
    ) -> Reconstruction:
        """Reconstruct each update's images from it alone, all updates and restarts together.

        length: the number of iterations over which the learning rate falls, of which `schedule` may make the
        first ones only. restarts: trials of each update, of which the one with the lowest loss is kept.
        """
        collected = Collected(observation, schedule)
        make = partial(self.optimiser, length)
        for plain in groups(observation, self.updates, restarts, rng):
            trials = plain.rounds.repeat_interleave(restarts)
            nuisance = observation.adaptation.nuisance(observation, plain.client, trials, rng)
            group = replace(plain, nuisance=nuisance)
            sought = self.unknowns(group, rng)
            objective = self.objective_of(group, weighs=sought.weighs)
            if nuisance != Nuisance():
                sought = beside(sought, nuisance)
            first = make()
            if sought.weighs and (first.population > 1 or self.precision != "float32"):
                raise Unfit(
                    "attack: unknowns: surrogate weights take an optimiser of gradients, in float32 (set "
                    "optimiser: adam and precision: float32)"
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
            collected.add(group, outcome, partial(gradient_gap, group, chunk=chunk))
        return collected.found


# How updates of several epochs are attacked together: what an attack is given, and the number of iterations,
# in.
Epochs = Callable[[Observation, torch.Generator, Composition, int], Reconstruction]
