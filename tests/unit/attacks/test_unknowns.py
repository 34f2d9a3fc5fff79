"""The span of an update and surrogate weights as what an attack seeks."""

from functools import partial
from typing import Any

import pytest
import torch
from matching_observations import QUICK, configured, observe, photographs, run, small
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from leakbench.attacks.exact.membership import certified
from leakbench.attacks.matching.trials import groups
from leakbench.attacks.matching.unknowns.span import span
from leakbench.base.errors import Unfit
from leakbench.networks import victims
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

TANH = {"hidden": [24, 20], "activation": "tanh"}
ADAM = {"adam": {"lr": 0.1, "signed": True, "decay": True}}


@pytest.fixture(scope="module")
def images() -> Tensor:
    return photographs(12, 16).view(2, 6, 3, 16, 16)


def seen(images: Tensor, victim: str = "mlp") -> Observation:
    parameters = TANH if victim == "mlp" else {}
    return observe(images, (torch.arange(12) % 10).view(2, 6), victim, parameters)


def attacked(observation: Observation, unknowns: str) -> Reconstruction:
    sought = {unknowns: {"boxed": True}}
    return run(observation, objective="cosine", unknowns=sought, optimiser=ADAM, iterations=100)


def errors(found: Reconstruction, images: Tensor) -> Tensor:
    """Return the squared error of each private image's nearest reconstruction."""
    apart = found.images[:, 0, :, None] - images[:, None]
    return apart.square().flatten(3).mean(3).amin(1)


def test_images_come_nearer_within_the_span_and_its_distance_says_so(images: Tensor) -> None:
    observation = seen(images)
    plain, within = (attacked(observation, name) for name in ("dummies", "span"))
    assert errors(within, images).mean() < 0.5 * errors(plain, images).mean()
    far, near = (certified(observation, found).span_distance for found in (plain, within))
    assert near.mean() < 0.5 * far.mean()


def test_dummies_are_projections_each_onto_its_own_span(images: Tensor) -> None:
    (group,) = groups(seen(images), "one-batch", 2)
    sought = span()(group, torch.Generator().manual_seed(1))
    assert sought.start["images"].shape == (4, 6, 3, 16, 16)
    rows = torch.tensor([3, 0])
    once = sought.dummies({"images": sought.start["images"][rows]}, rows)
    twice = sought.dummies(once, rows)
    torch.testing.assert_close(once["images"], twice["images"], atol=1e-5, rtol=1e-4)
    # Private images of a trial's own update stay as they are, and those of the other do not.
    own, other = images[[1, 0]], images[[0, 1]]
    torch.testing.assert_close(sought.dummies({"images": own}, rows)["images"], own, atol=1e-4, rtol=0)
    assert (sought.dummies({"images": other}, rows)["images"] - other).abs().mean() > 0.01


def test_features_have_no_pixels_to_project(images: Tensor) -> None:
    with pytest.raises(Unfit, match="unknowns: span needs a first layer that is dense"):
        attacked(seen(images, "cnn"), "span")


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a gradient": ({}, {}, "sent a gradient"),
    "simulation": ({"kind": "model"}, {"updates": "simulated"}, "set updates: one-batch"),
    "evolution": ({"kind": "model"}, {"objective": "squares", "optimiser": "cma-es"}, "set optimiser: adam"),
    "joint epochs": ({"kind": "model"}, {"epochs": {"joint": {"steps": "joint"}}}, "set unknowns: dummies"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", ["surrogate", "surrogate-curve"])
def test_what_surrogate_weights_cannot_serve_is_refused_in_one_line(kind: str, case: str) -> None:
    options, changes, words = REFUSED[case]
    with pytest.raises(Unfit, match=words):
        run(small(victim="fedavg-cnn", **options), **QUICK | {"unknowns": kind} | changes)


def test_differences_do_not_stand_for_derivatives_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep network asks for differences, which know nothing of moving weights: they are not used."""
    monkeypatch.setattr("leakbench.attacks.matching.engines.frozen.pays", lambda model, shape: True)
    seen = small(kind="model", local={"lr": 0.1, "batch_size": None, "epochs": 2})
    several = partial(run, seen, **QUICK | {"unknowns": "surrogate"})
    exact, frozen = several(derivative="exact"), several(derivative="frozen")
    assert torch.equal(exact.images, frozen.images)


def by_two_optimisers(
    model: torch.nn.Module, update: dict[str, Tensor], x: Tensor, labels: Tensor, iterations: int, rate: float
) -> tuple[Tensor, float]:
    """Return images and α after SME's loop, written with an Adam for each as its authors have it.

    x: the first images. rate: of α. Pixels are of a network without normalisation: from 0 to 1.
    """
    sent = {name: p.detach() for name, p in model.named_parameters()}
    x, alpha = x.clamp(0, 1).requires_grad_(), torch.tensor(0.5, requires_grad=True)
    steppers = {1.0: torch.optim.Adam([x]), rate: torch.optim.Adam([alpha])}
    for iteration in range(iterations):
        weights = {name: w + alpha * update[name] for name, w in sent.items()}
        loss = cross_entropy(functional_call(model, weights, (x,)), labels)
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        mine, theirs = (torch.cat([v.flatten() for v in each]) for each in (slopes, update.values()))
        down, across = ((x.diff(dim=axis)).abs().mean() for axis in (2, 3))
        total = 1 - cosine_similarity(mine, -theirs, 0) + 0.01 * (down + across) / 2
        x.grad, alpha.grad = torch.autograd.grad(total, (x, alpha))
        fallen = sum(iteration >= int(iterations * share) for share in (3 / 8, 5 / 8, 7 / 8))
        for first, stepper in steppers.items():
            stepper.param_groups[0]["lr"] = first * 0.1**fallen
            stepper.step()
        with torch.no_grad():
            x.clamp_(0, 1)
            alpha.clamp_(0, 1)
    return x.detach(), alpha.item()


@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_the_catalogues_sme_is_the_loop_of_its_authors(rate: float) -> None:
    """One Adam that seeks α in thousandths takes the steps of their two. At their rate α hardly moves in a
    few steps, so a larger one is compared too."""
    images, labels = photographs(2, 8)[None], torch.tensor([[1, 4]])
    local = {"lr": 0.05, "batch_size": 1, "epochs": 4}
    seen = observe(images, labels, kind="model", local=local, victim="fedavg-cnn", parameters={"width": 8})
    found = run(seen, **configured("sme") | {"iterations": 16, "unknowns": {"surrogate": {"share": rate}}})
    torch.manual_seed(0)
    model = victims.build("fedavg-cnn", (8, 8, 3), 10, {"width": 8}).eval()
    first = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    update = {name: torch.from_numpy(value[0, 0]) for name, value in seen.updates.items()}
    expected, alpha = by_two_optimisers(model, update, first, labels[0], 16, rate)
    assert abs(alpha - 0.5) > 2 * rate
    # Adam's first steps are of one size whatever the gradient, so rounding may send single pixels elsewhere.
    assert float(((found.images[0, 0] - expected).abs() > 1e-3).float().mean()) < 0.02
