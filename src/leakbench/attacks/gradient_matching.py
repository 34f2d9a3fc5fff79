"""Gradient matching (DLG, iDLG, DLG-Adam, InvG, AGIC, GRNN, GGL): dummy images whose gradients come near
those observed."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field

from leakbench.adaptive import Adaptation, adaptation
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.matching.distances import distance_of
from leakbench.matching.evolution import Evolution
from leakbench.matching.frozen import pays
from leakbench.matching.gap import gradient_gap
from leakbench.matching.layer_weights import layer_weights, shut_share
from leakbench.matching.lock import guess
from leakbench.matching.loop import Schedule, match
from leakbench.matching.objective import Objective
from leakbench.matching.optimisers import LBFGS, Adam, Optimiser, RMSprop
from leakbench.matching.trials import Collected, groups
from leakbench.matching.unknowns import Dummies, Unknowns, beside, generated, latent


def gradient_matching(
    observation: Observation,
    rng: torch.Generator,
    *,
    updates: Literal["one-batch", "simulated"] = "one-batch",
    distance: Literal[
        "squares", "norm", "cosine", "wasserstein", "squares+norm", "squares+cosine", "squares+wasserstein"
    ] = "squares",
    tv: Annotated[float, Field(ge=0)] = 0.0,
    variation: Literal["absolute", "squared"] = "absolute",
    unknowns: Literal["dummies", "generator", "latent"] = "dummies",
    optimiser: Literal["adam", "lbfgs", "rmsprop", "cma-es"] = "adam",
    lr: Annotated[float, Field(gt=0)] = 0.1,
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.99,
    population: Annotated[int, Field(gt=1)] = 50,
    iterations: Annotated[int, Field(gt=0)] = 10000,
    signed: bool = False,
    decay: bool = False,
    decay_over: Annotated[int, Field(gt=0)] | None = None,
    boxed: bool = False,
    start: Literal["normal", "uniform"] = "normal",
    enough: float = 0.0,
    restarts: Annotated[int, Field(gt=0)] = 1,
    layers: Literal["one", "linear", "exponential", "logarithmic"] = "one",
    beta: Annotated[float, Field(gt=0)] = 1.0,
    relu: bool = False,
    zeros: Literal["gradient", "outputs"] = "gradient",
    norms: Literal["following", "one", "none"] = "following",
    order: Literal["parameters", "forward"] = "parameters",
    inference: Literal["idlg", "row-minimum", "counted"] = "counted",
    snapshots: Annotated[int, Field(ge=0)] = 0,
    derivative: Literal["exact", "frozen"] = "exact",
    adapts: bool = False,
) -> Reconstruction:
    """Reconstruct each update's images by matching gradients, all updates and restarts together.

    `updates`: what an update of several local steps is taken for: one step on the union of its batches (AGIC,
    Eqn 4), or the steps themselves, simulated (InvG). `distance`, `tv`, `variation`: the objective; `layers`,
    `beta`, `relu`, `norms`, `order`: the weights in it (`matching.layer_weights`). `zeros`: whose share of
    zeros `relu` means, the observed gradient's of a convolution or its output's behind the ReLU, measured on
    noise. `unknowns`: the dummies themselves, or the weights of a generator that makes them (GRNN), or the
    latents that the attacker's own generator reads (GGL). `lr` … `decay` (`momentum` is RMSprop's): see
    `matching.optimisers`; of CMA-ES, whose iterations are rounds of `population` members, `lr` is the first
    deviation (`matching.evolution`). `decay_over`: the length of the run whose first `iterations` are made;
    none: it is no longer. `boxed` keeps pixels in their range at each step. `start`: normal noise, in the
    space where the victim's images have mean 0 and deviation 1. `enough`: a trial ends once its loss is this
    low. Of `restarts` the one with the lowest loss is kept. `inference`: the rule for labels if they are to
    be inferred. `snapshots`: so many images on the way are kept too. `derivative`: by a second backward pass,
    or by differences of first ones, which is faster for deep networks (`matching.frozen`; not for shallow
    ones, simulated steps, behind a lock or where the defence is adapted to). `adapts`: the attacker does what
    it can about the defence that it knows of (`adaptive`).
    """
    adapted = adaptation(observation) if adapts else Adaptation()
    schedule = Schedule(iterations, enough, snapshots)
    collected = Collected(observation, schedule)

    def make() -> Optimiser:
        match optimiser:
            case "adam":
                return Adam(lr, decay_over or iterations, signed, decay)
            case "lbfgs":
                return LBFGS(lr, 100, 20)
            case "rmsprop":
                return RMSprop(lr, momentum)
            case "cma-es":
                return Evolution(lr, population, iterations)

    for plain in groups(observation, updates, inference, restarts):
        group = replace(
            plain, lock=guess(observation, plain.client, plain.rounds, restarts, adapted.lock, rng)
        )
        shares = shut_share(group.model, group.noise) if relu and zeros == "outputs" else None
        alike = layers == "one" and not relu and norms != "none"
        weigh = partial(
            layer_weights, shape=layers, beta=beta, relu=relu, norms=norms, order=order, zeros=shares
        )
        frozen = derivative == "frozen" and not group.steps and distance_of(distance).whole is None
        frozen = frozen and group.lock is None and adapted.mechanism is None and pays(group.model)
        objective = Objective(
            group, distance, None if alike else weigh, tv, frozen, variation == "squared", adapted.mechanism
        )
        sought: Unknowns
        match unknowns:
            case "dummies":
                sought = Dummies(group.draw(start, rng))
            case "generator":
                sought = generated(group, rng, optimiser != "lbfgs")
            case "latent":
                sought = latent(group, rng)
        if group.lock:
            sought = beside(sought, group.lock.start())
        chunk = objective.chunk(make(), sought, population if optimiser == "cma-es" else 1)
        evaluate = sought.through(objective.evaluate)
        if optimiser == "cma-es":
            evaluate, chunk = sought.members(objective.losses, chunk), max(1, chunk // population)
        outcome = match(
            sought.start,
            evaluate,
            make,
            group.clip if boxed else lambda found: None,
            schedule,
            chunk,
            observation.work.part(f"match client {group.client}, model {group.origin}"),
            sought.dummies,
        )
        collected.add(group, outcome, partial(gradient_gap, group, chunk=chunk))
    return collected.found


# A round's trials see no other's, so that those of the null baseline may run beside them.
gradient_matching.together = True  # type: ignore[attr-defined]
