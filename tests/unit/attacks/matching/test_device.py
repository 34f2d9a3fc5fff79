"""bfloat16, and a device that is not the processor."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from nightly import daily
from trial_networks import CASES, distance_of, group, meet, network, ones, priors, terms

from leakbench.attacks.matching.joint import EpochTerm, JointObjective
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.trials import Group
from leakbench.base.processes.workers import Work
from leakbench.networks import victims


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


# A number in bfloat16 has eight bits. A LeNet rounds one some ten times behind one another in each pass.
ROUNDING = 10 * 2**-8


def test_bfloat16_is_off_by_rounding_alone_and_returns_float32() -> None:
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (16, 16, 3), 10, {}).eval()
    of = group(model, torch.rand(2, 1, 3, 16, 16), torch.randint(0, 10, (2, 1)))
    unknowns, rows = of.draw("uniform", torch.Generator().manual_seed(1)), torch.arange(2)
    found = []
    for each in (of, replace(of, precision="bfloat16")):
        caused = each.caused(unknowns["images"].clone().requires_grad_(), of.labels, rows, {})
        losses, slopes = Objective(each, [distance_of("cosine")]).evaluate(rows)(unknowns)
        found.append({name: value.detach() for name, value in caused.items()} | {"loss": losses} | slopes)
    for name, exact in found[0].items():
        assert found[1][name].dtype == torch.float32
        off = float((found[1][name] - exact).norm() / exact.norm())
        assert 0 < off < (3 if name == "images" else 1) * ROUNDING, name
