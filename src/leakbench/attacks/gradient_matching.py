"""Gradient matching (DLG, iDLG, InvG, AGIC, GRNN, GGL, DLF): optimise dummies until gradients match."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field

from leakbench.attacks import capable
from leakbench.attacks.matching.composition import Composition, Epochs
from leakbench.attacks.matching.loop import Schedule
from leakbench.attacks.matching.optimiser import Make
from leakbench.attacks.matching.parameterisation import Parameterisation
from leakbench.attacks.matching.terms import Term
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


# The trials of a round do not depend on other rounds, so those of the null baseline may run beside them.
@capable(together=True)
def gradient_matching(
    observation: Observation,
    rng: torch.Generator,
    objective: Sequence[Term],
    unknowns: Parameterisation,
    optimiser: Make,
    epochs: Epochs | None = None,
    *,
    updates: Literal["one-batch", "simulated", "shuffled", "reshuffled", "epochs"] = "one-batch",
    derivative: Literal["exact", "frozen"] = "exact",
    iterations: Annotated[int, Field(gt=0)] = 10000,
    decay_over: Annotated[int, Field(gt=0)] | None = None,
    enough: float = 0.0,
    restarts: Annotated[int, Field(gt=0)] = 1,
    snapshots: Annotated[int, Field(ge=0)] = 0,
) -> Reconstruction:
    """Reconstruct the images of each update by matching gradients, all updates and restarts together.

    The sections `objective`, `unknowns`, `optimiser` and `epochs` of the attack's YAML name parts of the
    rooms objectives, unknowns, optimisers and epochs.

    objective: the terms of the objective (`matching.terms`), parts of the room objectives.
    unknowns: what is optimised, a part of the room unknowns.
    optimiser: how it is optimised, a part of the room optimisers.
    epochs: how the updates of several epochs are attacked together, a part of the room epochs. A run with
    such a part has neither restarts nor snapshots.
    updates: what the attack takes an update of several local steps for (`matching.local_epochs`). `one-batch`
    is one step on the union of its batches (AGIC, Eqn 4). `simulated` simulates the steps themselves (InvG).
    `shuffled` and `reshuffled` do so for clients that shuffle their samples, once or in each epoch (DLF).
    `epochs` simulates one step per epoch.
    derivative: `exact` takes a second backward pass. `frozen` takes differences of first backward passes,
    which is faster for deep networks; where these cannot be used, and on a GPU, the derivative is exact all
    the same (`matching.composition`).
    iterations: the number of iterations of each trial.
    decay_over: the number of iterations over which the learning rate falls. The run is then the first
    `iterations` of a run of this length. Without it, the learning rate falls over `iterations`.
    enough: a trial ends once its loss is at most this.
    restarts: the number of trials of each update, of which the one with the lowest loss is kept.
    snapshots: the number of images on the way that are kept too.

    Raises Unfit for parts that do not fit each other or the observation.
    """
    composed = Composition(objective, unknowns, optimiser, updates, derivative)
    if epochs is not None:
        return epochs(observation, rng, composed, iterations)
    schedule = Schedule(iterations, enough, snapshots)
    return composed.reconstruct(observation, rng, schedule, decay_over or iterations, restarts)
