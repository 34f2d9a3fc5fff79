"""Derivatives by one difference of first ones ("frozen") against exact second derivatives, in float32 as
used."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, group, meet, ones, terms

from leakbench.attacks.matching.engines import frozen
from leakbench.attacks.matching.engines.layers import RULES
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import parameter_weights
from leakbench.attacks.matching.trials import Group
from leakbench.networks import victims

VICTIMS = [
    ("resnet20-4", {"width": 8, "normalise": "cifar10"}),
    ("lenet-dlg", {}),
    ("convnet", {"width": 8, "normalise": "cifar10"}),
    pytest.param("resnet", {"depth": 18, "normalise": "cifar10"}, marks=pytest.mark.nightly),
]


def trials(module: str, parameters: dict[str, Any], batch: int = 1, known: bool = True) -> Group:
    torch.manual_seed(0)
    model = victims.build(module, (32, 32, 3), CLASSES, parameters).eval()
    model.to(memory_format=torch.channels_last)
    meet(model, module, parameters)
    return group(model, torch.rand(3, batch, 3, 32, 32), torch.randint(0, CLASSES, (3, batch)), known)


def both(
    of: Group, distance: str, weights: Any, tv: float = 0.0
) -> tuple[tuple[Tensor, dict[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]:
    unknowns = of.draw("normal", torch.Generator().manual_seed(1))
    exact, differences = (
        Objective(of, terms(distance, weights, tv), engine=way).evaluate(torch.arange(3))(unknowns)
        for way in (None, frozen.FrozenDifference)
    )
    return exact, differences


def agree(exact: Tensor, found: Tensor) -> None:
    assert found.shape == exact.shape
    for one, other in zip(exact, found, strict=True):
        assert float((one - other).norm() / one.norm()) < 0.01
        assert float((one.sign() == other.sign()).double().mean()) > 0.99


BY_LAYER = partial(
    parameter_weights, shape="linear", beta=50.0, relu=True, norms="following", order="parameters"
)
# As batch norm's weights in one reading of AGIC.
WITHOUT_NORMS = partial(
    parameter_weights, shape="linear", beta=50.0, relu=True, norms="none", order="forward"
)


@pytest.mark.parametrize(("module", "parameters"), VICTIMS)
@pytest.mark.parametrize(
    ("distance", "batch", "weights", "tv", "known"),
    [
        ("squares", 3, BY_LAYER, 0.0, True),
        ("cosine", 1, WITHOUT_NORMS, 0.5, True),
        ("squares", 2, ones, 0.0, False),
    ],
)
def test_differences_are_near_the_exact_derivative(
    module: str, parameters: dict[str, Any], distance: str, batch: int, weights: Any, tv: float, known: bool
) -> None:
    of = trials(module, parameters, batch, known)
    (losses, exact), (same, found) = both(of, distance, weights, tv)
    torch.testing.assert_close(same, losses, rtol=1e-4, atol=1e-6)
    assert list(found) == ["images"] if known else ["images", "labels"]
    for name, value in exact.items():
        agree(value, found[name])


def test_a_step_that_is_too_long_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the tests above: in a step a thousand times as long curvature shows."""
    of = trials("resnet20-4", {"width": 8})
    monkeypatch.setattr(frozen, "STEP", 2e-2)
    monkeypatch.setattr(frozen, "MOST", 1e9)
    (_, exact), (_, found) = both(of, "cosine", ones)
    with pytest.raises(AssertionError):
        agree(exact["images"], found["images"])


def test_neither_hooks_nor_weights_of_the_model_stay_changed() -> None:
    of = trials("convnet", {"width": 8})
    before = {name: value.clone() for name, value in of.model.state_dict().items()}
    both(of, "squares", ones)
    assert all(torch.equal(value, before[name]) for name, value in of.model.state_dict().items())
    assert not any(layer._forward_hooks for layer in of.model.modules() if isinstance(layer, nn.Module))


@pytest.mark.parametrize("first", [4e-7, 4e-5, 4e-4])
def test_a_bad_first_step_is_mended(first: float, monkeypatch: pytest.MonkeyPatch) -> None:
    of = trials("resnet20-4", {"width": 8})
    monkeypatch.setattr(frozen, "STEP", first)
    (_, exact), (_, found) = both(of, "squares", ones)
    agree(exact["images"], found["images"])


def test_max_pools_keep_their_choice_as_relus_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the tests above: a pool that chooses anew breaks the difference."""
    known = RULES[nn.MaxPool2d]
    assert known.link
    monkeypatch.setitem(RULES, nn.MaxPool2d, known._replace(link=known.link._replace(kinked=False)))
    (_, exact), (_, found) = both(trials("convnet", {"width": 8}), "squares", ones)
    with pytest.raises(AssertionError):
        agree(exact["images"], found["images"])


def test_networks_with_a_step_that_nobody_knows_have_exact_derivatives() -> None:
    class Kinked(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.abs())

    layers = [nn.Conv2d(3, 3, 3, 1, 1) for _ in range(frozen.DEEP)]
    plain, own = (
        nn.Sequential(*layers, nn.Flatten(), nn.Linear(48, 10)),
        Kinked(*layers, nn.Flatten(), nn.Linear(48, 10)),
    )
    assert frozen.pays(plain, torch.Size([1, 3, 4, 4]))
    assert not frozen.pays(own, torch.Size([1, 3, 4, 4]))
