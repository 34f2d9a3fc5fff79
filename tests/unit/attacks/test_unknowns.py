"""The span of an update and surrogate weights as what an attack seeks."""

from functools import partial
from typing import Any

import pytest
import torch
from matching_observations import QUICK, observe, photographs, run, small
from torch import Tensor

from leakbench.attacks.exact.membership import certified
from leakbench.attacks.matching.trials import groups
from leakbench.attacks.matching.unknowns.span import span
from leakbench.base.errors import Unfit
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
    "bfloat16": ({"kind": "model"}, {"precision": "bfloat16"}, "precision: float32"),
    "joint epochs": ({"kind": "model"}, {"epochs": {"joint": {"steps": "joint"}}}, "set unknowns: dummies"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", ["surrogate", "surrogate-curve"])
def test_what_surrogate_weights_cannot_serve_is_refused_in_one_line(kind: str, case: str) -> None:
    options, changes, words = REFUSED[case]
    with pytest.raises(Unfit, match=words) as raised:
        run(small(victim="fedavg-cnn", **options), **QUICK | {"unknowns": kind} | changes)
    assert "\n" not in str(raised.value)


def test_differences_do_not_stand_for_derivatives_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep network asks for differences, which know nothing of moving weights: they are not used."""
    monkeypatch.setattr("leakbench.attacks.matching.composition.pays", lambda model, shape: True)
    seen = small(kind="model", local={"lr": 0.1, "batch_size": None, "epochs": 2})
    several = partial(run, seen, **QUICK | {"unknowns": "surrogate"})
    exact, frozen = several(derivative="exact"), several(derivative="frozen")
    assert torch.equal(exact.images, frozen.images)
