"""Derivatives by one difference of first ones ("frozen") against exact ones, in float32 as they are used."""

from functools import partial
from typing import Any

import pytest
import torch
from trial_networks import CLASSES, group, meet, ones, terms

from leakbench.attacks.matching.engines import frozen
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import parameter_weights
from leakbench.networks import victims

# As batch norm's weights in one reading of AGIC.
WITHOUT_NORMS = partial(
    parameter_weights, shape="linear", beta=50.0, relu=True, norms="none", order="forward"
)
RESNET = ("resnet20-4", {"width": 8, "normalise": "cifar10"})


def near(
    network: tuple[str, dict[str, Any]], distance: str, batch: int, weights: Any, tv: float, known: bool
) -> None:
    """Assert that differences and exact derivatives are the same to a hundredth."""
    torch.manual_seed(0)
    module, parameters = network
    model = victims.build(module, (32, 32, 3), CLASSES, parameters).eval()
    meet(model.to(memory_format=torch.channels_last), module, parameters)
    of = group(model, torch.rand(3, batch, 3, 32, 32), torch.randint(0, CLASSES, (3, batch)), known)
    unknowns = of.draw("normal", torch.Generator().manual_seed(1))
    (losses, exact), (same, found) = (
        Objective(of, terms(distance, weights, tv), engine=way).evaluate(torch.arange(3))(unknowns)
        for way in (None, frozen.FrozenDifference)
    )
    torch.testing.assert_close(same, losses, rtol=1e-4, atol=1e-6)
    assert list(found) == ["images"] if known else ["images", "labels"]
    for name, value in exact.items():
        for one, other in zip(value, found[name], strict=True):
            assert float((one - other).norm() / one.norm()) < 0.01
            assert float((one.sign() == other.sign()).double().mean()) > 0.99


@pytest.mark.parametrize(
    ("network", "distance", "batch", "weights", "tv", "known"),
    [
        (RESNET, "cosine", 1, WITHOUT_NORMS, 0.5, True),
        (("lenet-dlg", {}), "squares", 2, ones, 0.0, False),
        # Max-pools keep their choice, as ReLUs do.
        (("convnet", {"width": 8, "normalise": "cifar10"}), "squares", 3, ones, 0.0, True),
        # Convolutions that are unfolded.
        pytest.param(("resnet", {"depth": 18}), "cosine", 1, ones, 0.0, True, marks=pytest.mark.nightly),
    ],
)
def test_differences_are_near_the_exact_derivative(
    network: tuple[str, dict[str, Any]], distance: str, batch: int, weights: Any, tv: float, known: bool
) -> None:
    near(network, distance, batch, weights, tv, known)


@pytest.mark.parametrize("first", [4e-7, 4e-5, 4e-4])
def test_a_bad_first_step_is_mended(first: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "STEP", first)
    near(RESNET, "squares", 1, ones, 0.0, True)
