"""Gradient matching (DLG, iDLG, InvG, AGIC, GRNN, GGL, DLF): dummy images whose gradients come near those
observed."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field

from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.matching.composition import Composition, Epochs
from leakbench.matching.loop import Schedule
from leakbench.matching.optimiser import Make
from leakbench.matching.terms import Term
from leakbench.matching.unknowns import Parameterisation


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
    precision: Literal["float32", "bfloat16"] = "float32",
    iterations: Annotated[int, Field(gt=0)] = 10000,
    decay_over: Annotated[int, Field(gt=0)] | None = None,
    enough: float = 0.0,
    restarts: Annotated[int, Field(gt=0)] = 1,
    snapshots: Annotated[int, Field(ge=0)] = 0,
) -> Reconstruction:
    """Reconstruct the images of each update by matching gradients, all updates and restarts together.

    objective, unknowns, optimiser, epochs: the sections of the attack's YAML, each a part of the room of that
    name. updates: what an update of several local steps is taken for: one step on the union of its batches
    (AGIC, Eqn 4), or the steps themselves, simulated (InvG); of clients that shuffle their samples, once or
    in each epoch (DLF), or by one step an epoch (`matching.local_epochs`). derivative: by a second backward
    pass, or by differences of first ones, which is faster for deep networks and is not used where it cannot
    be (`matching.composition`). precision: of the network's products and convolutions, which bfloat16 sums in
    float32; the objective and the optimiser are float32 always. iterations: of each trial. decay_over: the
    length of the run whose first `iterations` are made; without it the run is no longer. enough: a trial ends
    once its loss is this low. restarts: of several trials of an update the one with the lowest loss is kept.
    snapshots: the number of images on the way that are kept too. With `epochs`, a run has neither restarts
    nor snapshots. Raises Unfit for parts that do not fit each other or the observation.
    """
    composed = Composition(objective, unknowns, optimiser, updates, derivative, precision)
    if epochs is not None:
        return epochs(observation, rng, composed, iterations)
    schedule = Schedule(iterations, enough, snapshots)
    return composed.reconstruct(observation, rng, schedule, decay_over or iterations, restarts)


# A round's trials see no other's, so that those of the null baseline may run beside them.
gradient_matching.together = True  # type: ignore[attr-defined]
