"""The span of an update as a prior of gradient matching: images lie in it, and come nearer for it."""

import pytest
import torch
from matching_observations import observe, photographs, run
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
    assert far is not None
    assert near is not None
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
