"""A device that is not the processor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matching_observations import observe, photographs
from nightly import daily, first_of_each
from trial_networks import CASES, group, meet, network, ones, priors, terms

from leakbench import attacks
from leakbench.attacks.matching import composition
from leakbench.attacks.matching.engines import agreement, gradients
from leakbench.attacks.matching.epochs import joint
from leakbench.attacks.matching.joint import EpochTerm, JointObjective
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.trials import Group
from leakbench.base.processes.workers import Crew
from leakbench.catalogue.load import load_kind
from leakbench.networks import generators

ROOT = Path(__file__).parents[4]
KEYS = ("objective", "unknowns", "optimiser", "epochs", "labels", "parameters")
ENTRIES = {
    name: found
    for name, entry in load_kind(ROOT / "config", "attacks").items()
    if (found := entry.model_dump(mode="json"))["module"] == "gradient-matching"
}
# A part → a victim that it can attack.
SUITED = {
    "span": ("mlp", {}), "before-layer": ("precode", {"network": "lenet-dlg"}),
    "batch-norm-statistics": ("lenet-fedkl", {}),
}  # fmt: skip


class Evaluated(Exception):
    """The attack has taken the derivatives of its first dummies."""


def parts_of(name: str) -> str:
    """Return the parts of an attack and how it reads updates, without numbers."""
    entry = ENTRIES[name]
    words = {key: value for key, value in entry["parameters"].items() if isinstance(value, str)}
    return repr([*(sorted(entry[key] or {}) for key in KEYS[:4]), entry["labels"] == "joint", words])


@pytest.mark.parametrize("name", first_of_each(ENTRIES, parts_of))
def test_every_catalogued_attack_stays_on_its_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def match(start: Any, evaluate: Any, make: Any, project: Any, *more: Any) -> None:
        unknowns = {name: value.to("meta") for name, value in start.items()}
        if (population := make().population) > 1:
            unknowns = {name: torch.stack([value] * population, 1) for name, value in unknowns.items()}
        losses, moves = evaluate(torch.arange(len(next(iter(start.values())))))(unknowns)
        project(unknowns)
        assert {value.device.type for value in [losses, *moves.values(), *unknowns.values()]} == {"meta"}
        raise Evaluated

    for room in (composition, joint):
        monkeypatch.setattr(room, "match", match)
    # Numbers that are read from the device are zero, for it has none.
    monkeypatch.setattr(torch.Tensor, "cpu", lambda value: torch.zeros(value.shape, dtype=value.dtype))
    for room in (gradients, agreement):
        monkeypatch.setattr(room, "_misfit", lambda *given: "")
    monkeypatch.setattr(Objective, "chunk", lambda *given: 2)
    monkeypatch.setattr(JointObjective, "chunk", lambda *given: 2)
    entry = ENTRIES[name]
    parts = {part for key in KEYS[:4] for part in entry[key] or {}}
    victim, parameters = next((SUITED[part] for part in SUITED if part in parts), ("lenet-dlg", {}))
    kind = "model" if any("surrogate" in part for part in parts) else "gradient"
    seen = observe(photographs(2, 32)[:, None], torch.tensor([[1], [2]]), victim, parameters, kind)
    seen = replace(
        seen, work=Crew(device="meta"), labelling="joint" if entry["labels"] == "joint" else "oracle"
    )
    if entry["generator"]:
        made = generators.build("cvae", (10,), (32, 32, 3), {"latent": 2, "width": 4})
        seen = replace(seen, generator=made.eval())
    with pytest.raises(Evaluated):
        attacks.run(entry, seen, torch.Generator().manual_seed(0))


def elsewhere(module: str, parameters: dict[str, Any], steps: list[slice], known: bool) -> Group:
    """Return two trials of two images, put on the device as `groups` does."""
    with torch.device("meta"):
        model = network(module, parameters)
    meet(model, module, parameters)
    images = torch.zeros(2, 2, 3, 32, 32).double()
    observed = {name: torch.zeros(2, *value.shape).double() for name, value in model.named_parameters()}
    of = group(model, images, torch.tensor([[1, 2], [3, 4]]), known, observed, steps)
    return replace(
        of, observation=replace(of.observation, work=Crew(device="meta")),
        labels=None if of.labels is None else of.labels.to("meta"), mean=of.mean.to("meta"),
        deviation=of.deviation.to("meta"),
    )  # fmt: skip


# Each day a network without branches and one with them: a layer does not meet the others.
@pytest.mark.parametrize(
    "case", daily(CASES, [("lenet_dlg", {}), ("resnet20_4", {"width": 4, "normalise": "cifar10"})])
)
@pytest.mark.parametrize(("known", "steps"), [(True, []), (False, [slice(0, 1), slice(1, 2)])])
def test_an_objective_stays_on_its_device(
    case: tuple[str, dict[str, Any]], known: bool, steps: list[slice]
) -> None:
    of = elsewhere(*case, steps, known)
    unknowns = {n: v.double() for n, v in of.draw("normal", torch.Generator().manual_seed(0)).items()}
    losses, moves = Objective(of, terms("cosine", ones, 0.1)).evaluate(torch.arange(2))(unknowns)
    of.clip(unknowns)
    assert {value.device.type for value in [losses, *moves.values(), *unknowns.values()]} == {"meta"}


def test_a_joint_objective_stays_on_its_device() -> None:
    of = elsewhere("lenet_dlg", {}, [], True)
    part = EpochTerm(
        Objective(of, terms("cosine", ones, 0.0)), torch.arange(2), torch.tensor([[0, 1], [1, 0]]), 1.0
    )
    unknowns = {n: v.double() for n, v in of.draw("normal", torch.Generator().manual_seed(0)).items()}
    losses, moves = JointObjective([part, part], priors(0.1)).evaluate(torch.arange(2))(unknowns)
    assert losses.device.type == moves["images"].device.type == "meta"


def test_the_device_does_refuse_to_be_mixed() -> None:
    """Guards the tests above."""
    of = elsewhere("lenet_dlg", {}, [], True)
    of = replace(of, mean=torch.zeros(3, 1, 1).double())
    unknowns = {n: v.double() for n, v in of.draw("normal", torch.Generator().manual_seed(0)).items()}
    with pytest.raises(RuntimeError, match="device"):
        Objective(of, terms("cosine", ones, 0.1)).evaluate(torch.arange(2))(unknowns)
