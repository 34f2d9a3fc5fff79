"""An attacker who adapts to a defence reads more out of its updates than one who does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matching_observations import BOXED, entry, observe, photographs, run
from torch import Tensor

from leakbench import attacks, defences
from leakbench.base.tensors import Tensors, over
from leakbench.federation import Private, play
from leakbench.observations.adaptation import Adaptation, Mechanism, Nuisance
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

SIZE, ROUNDS = 16, 2
ATTACK: dict[str, Any] = {
    "objective": ["cosine", {"total-variation": {"weight": 1e-4}}],
    "unknowns": BOXED,
    "optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}},
}


def correlation(observation: Observation, **parameters: Any) -> float:
    """Return the mean Pearson r of the attack's images and the photographs."""
    found = run(observation, iterations=150, **ATTACK, **parameters).images[:, 0, 0].flatten(1)
    true = photographs(ROUNDS, SIZE).flatten(1)
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(found, true, strict=True)]))


def locked(**parameters: Any) -> Observation:
    """Return what the server sees of one client behind a lock, with an image of its own in each round."""
    images = (photographs(ROUNDS, SIZE) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    plain = seen(parameters={"norm": "batch", "statistics": "batch"})
    model, defence = plain.model(), defences.build("key-lock", parameters)
    updates: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    federation = {
        "clients": [1], "rounds": ROUNDS, "passes": 1, "update": "gradient", "server": "frozen",
        "local": {"lr": 1.0, "batch_size": None, "epochs": 1},
    }  # fmt: skip
    (sent,) = play(
        model, [model.state_dict()], images, Private([np.arange(ROUNDS)[:, None]], [np.array([[1], [2]])]),
        federation, defence, 0, lambda rounds, client, values: updates.update(values),
        show=lambda rounds, client, values: shown.update(values),
    )  # fmt: skip
    return replace(
        plain, weights={name: value.numpy()[None] for name, value in sent.items()},
        updates={name: value[:, None].numpy() for name, value in updates.items()},
        shown={name: value[:, None].numpy() for name, value in shown.items()},
        hidden=defence.hidden(defence.model(model, torch.Generator())), knows=ThreatModel(defence="key-lock"),
    )  # fmt: skip


def seen(**options: Any) -> Observation:
    return observe(photographs(ROUNDS, SIZE)[:, None], torch.tensor([[1], [2]]), **options)


def test_a_lock_holds_against_a_guess_and_falls_to_who_seeks_its_scale_and_shift() -> None:
    observation = locked()
    plain, adapted = (correlation(observation, adaptive=adaptive) for adaptive in (False, True))
    assert plain < 0.35
    assert adapted > plain + 0.15


@pytest.mark.parametrize(("name", "parameters"), [("quantise", {"bits": 2}), ("sign", {})])
def test_an_attacker_who_knows_the_rounding_reads_more(name: str, parameters: dict[str, Any]) -> None:
    plain, rng = seen(), torch.Generator().manual_seed(0)
    true = {each: torch.from_numpy(value[:, 0]) for each, value in plain.updates.items()}
    sent = {n: v[:, None].numpy() for n, v in defences.build(name, parameters).update(true, rng).items()}
    observation = replace(plain, updates=sent, knows=ThreatModel(defence=name))
    assert correlation(observation, adaptive=True) > correlation(observation)


@pytest.mark.parametrize("unknowns", ["dummies", "generator"])
def test_what_a_defence_leaves_unknown_is_sought_with_the_images(unknowns: str) -> None:
    """A client that sends its update times a secret: the mechanism reads it off an unknown like any other."""
    plain, found = seen(), list[Tensor]()

    def mechanism(observed: Tensors) -> Mechanism:
        def scaled(made: Tensors, dummies: Tensors) -> Tensors:
            found.append(dummies["share"].detach().clone())
            return {name: value * over(dummies["share"], value) for name, value in made.items()}

        return scaled

    def nuisance(observation: Observation, client: int, rounds: Tensor, rng: torch.Generator) -> Nuisance:
        return Nuisance(start={"share": torch.ones(len(rounds))})

    attack = attacks.composed(
        entry(objective="squares", unknowns=unknowns, optimiser={"adam": {"lr": 0.02}}, iterations=150)
    )
    sent = {name: 0.3 * value for name, value in plain.updates.items()}
    known = Adaptation(mechanism=mechanism, nuisance=nuisance)
    attack(replace(plain, updates=sent, adaptation=known), torch.Generator().manual_seed(0))
    assert (found[0] == 1).all()
    # Nearer to the secret than to where it began.
    assert (found[-1] - 0.3).abs().max() < 0.35
