"""Products of gradients, their gap, and convolutions whose weights stand still, against autograd's."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from trial_networks import CLASSES, everything, gradient, group, met, network

from leakbench.attacks.matching.engines.fixed_convolution import NARROW, fix_convolutions
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
from leakbench.attacks.matching.gap import gradient_gap


@pytest.mark.parametrize(
    ("module", "parameters", "batch"), [("lenet_dlg", {}, 1), ("resnet20_4", {"width": 4}, 2)]
)
def test_products_are_of_each_trials_own_observation_by_its_weights(
    module: str, parameters: dict[str, Any], batch: int
) -> None:
    model = met(module, parameters).requires_grad_(False)
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(3, batch, 3, 32, 32, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (3, batch), generator=rng)
    owner = torch.tensor([1, 0, 0])
    made = {n: g.detach() for n, g in gradients(model, images.clone().requires_grad_(), labels)[0].items()}
    seen = {n: g[1:] + 0.5 * g[:1] for n, g in made.items()}
    observed = {n: rows_of(g) for n, g in seen.items()}
    weights = {n: torch.rand(3, generator=rng, dtype=torch.float64) for n in made}
    for each in (None, weights):
        found = gradient_products(model, images.clone(), labels, observed, owner, each)
        for kind, other in (("mine", made), ("dot", {n: o[owner] for n, o in seen.items()})):
            expected = sum(
                (made[n] * other[n]).flatten(1).sum(1) * (1 if each is None else each[n]) for n in made
            )
            torch.testing.assert_close(found[kind], expected, rtol=1e-9, atol=1e-12)


def test_no_gradient_of_a_wide_layer_is_made() -> None:
    """A dense layer of 6 million weights: eight gradients of it would be 192 MB."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(300, 20_000), nn.ReLU())
    model = nn.Sequential(model, nn.Linear(20_000, 10, bias=False)).requires_grad_(False)
    observed = {name: rows_of(torch.ones(1, *value.shape)) for name, value in model.named_parameters()}
    engines_fit(model, torch.Size([1, 3, 10, 10]))
    with torch.profiler.profile(profile_memory=True) as profile:
        gradient_products(
            model, torch.rand(8, 1, 3, 10, 10), torch.zeros(8, 1, dtype=torch.long), observed,
            torch.zeros(8, dtype=torch.long),
        )  # fmt: skip
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 40 * 20_000 * 8


@pytest.mark.parametrize("chunk", [2, 5])
def test_it_is_the_mean_square_over_all_parameters(chunk: int) -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, CLASSES, (3, 2))
    of = group(model, images, labels)
    dummies = torch.randn(3, 2, 3, 16, 16).double()
    found = gradient_gap(of, {"images": dummies}, chunk)
    for trial in range(3):
        mine = gradient(model, dummies[trial] * of.deviation + of.mean, labels[trial])
        theirs = {name: value[trial] for name, value in everything(of).items()}
        apart = torch.cat([(mine[name] - theirs[name]).flatten() for name in theirs])
        assert float(found[trial]) == pytest.approx(float(apart.square().mean()), rel=1e-9)


def test_the_private_images_leave_no_gap_and_labels_may_be_unknown() -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(2, 1, 3, 16, 16).double(), torch.randint(0, CLASSES, (2, 1))
    of = group(model, images, labels, known=False)
    own = {"images": (images - of.mean) / of.deviation}
    right = nn.functional.one_hot(labels, CLASSES).double() * 100
    assert gradient_gap(of, own | {"labels": right}, 2).max() < 1e-20
    assert gradient_gap(of, own | {"labels": -right}, 2).min() > 1e-6


def test_the_second_derivative_works_out_no_weights() -> None:
    """Three convolutions of one layer: forward, its transpose, and once more forward; the tape's own has a
    fourth."""
    counts, seconds = [], []
    plain = nn.Conv2d(NARROW, 4, 3, 2, 1, 2).double().requires_grad_(False)
    x = torch.rand(2, NARROW, 9, 8, dtype=torch.float64, requires_grad=True)
    for conv in (plain, fix_convolutions(deepcopy(plain))):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            (slope,) = torch.autograd.grad(conv(x).sigmoid().sum(), x, create_graph=True)
            seconds += torch.autograd.grad(slope.square().sum(), x)
        kinds = ("aten::convolution", "aten::convolution_backward")
        counts.append(sum(event.count for event in seen.key_averages() if event.key in kinds))
    assert counts[1] < counts[0]
    torch.testing.assert_close(*seconds, rtol=1e-12, atol=1e-12)
