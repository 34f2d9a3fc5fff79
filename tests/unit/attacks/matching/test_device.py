"""A device that is not the processor."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from nightly import daily
from trial_networks import CASES, group, meet, network, ones, priors, terms

from leakbench.attacks.matching.joint import EpochTerm, JointObjective
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.trials import Group
from leakbench.base.processes.workers import Work


def elsewhere(module: str, parameters: dict[str, Any], steps: list[slice], known: bool) -> Group:
    """Return two trials of two images, put on the device as `groups` does."""
    with torch.device("meta"):
        model = network(module, parameters)
    meet(model, module, parameters)
    images = torch.zeros(2, 2, 3, 32, 32).double()
    observed = {name: torch.zeros(2, *value.shape).double() for name, value in model.named_parameters()}
    of = group(model, images, torch.tensor([[1, 2], [3, 4]]), known, observed, steps)
    return replace(
        of,
        observation=replace(of.observation, work=Work(device="meta")),
        labels=None if of.labels is None else of.labels.to("meta"),
        mean=of.mean.to("meta"),
        deviation=of.deviation.to("meta"),
    )


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
