"""Products of gradients, their gap, convolutions whose weights stand still, and derivatives by one difference
of first ones ("frozen") against exact ones, in float32 as they are used."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import profile
from trial_networks import CLASSES, everything, gradient, group, meet, network, ones, terms

from leakbench.attacks.matching.engines import frozen
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import parameter_weights
from leakbench.networks import victims


def test_no_gradient_of_a_wide_layer_is_made() -> None:
    """A dense layer of 6 million weights: eight gradients of it would be 192 MB."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(300, 20_000), nn.ReLU())
    model = nn.Sequential(model, nn.Linear(20_000, 10, bias=False)).requires_grad_(False)
    observed = {name: rows_of(torch.ones(1, *value.shape)) for name, value in model.named_parameters()}
    engines_fit(model, torch.Size([1, 3, 10, 10]))
    zeros = torch.zeros(8, 1, dtype=torch.long)
    with profile(profile_memory=True) as seen:
        gradient_products(model, torch.rand(8, 1, 3, 10, 10), zeros, observed, zeros[:, 0])
    assert max(event.cpu_memory_usage for event in seen.events()) < 40 * 20_000 * 8


@pytest.mark.parametrize(("chunk", "known"), [(2, True), (5, True), (2, False)])
def test_the_gap_is_the_mean_square_over_all_parameters_and_none_at_the_private_images(
    chunk: int, known: bool
) -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, CLASSES, (3, 2))
    of = group(model, images, labels, known)
    told = {} if known else {"labels": nn.functional.one_hot(labels, CLASSES).double() * 100}
    assert of.gap({"images": (images - of.mean) / of.deviation} | told, chunk).max() < 1e-20
    dummies = torch.randn(3, 2, 3, 16, 16).double()
    found = of.gap({"images": dummies} | told, chunk)
    for trial in range(3):
        mine = gradient(model, of.to_pixels(dummies[trial]), labels[trial])
        theirs = {name: value[trial] for name, value in everything(of).items()}
        apart = torch.cat([(mine[name] - theirs[name]).flatten() for name in theirs])
        assert float(found[trial]) == pytest.approx(float(apart.square().mean()), rel=1e-9)


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
