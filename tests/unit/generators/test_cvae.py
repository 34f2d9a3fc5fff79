"""The decoder of a class-conditional auto-encoder: its images, its bound, and that it learns classes
apart."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from leakbench.federation.training import fit
from leakbench.networks import generators

FIT = {
    "optimiser": "adam",
    "lr": 0.003,
    "options": {},
    "batch_size": 20,
    "checkpoints": [],
    "images": None,
    "settled": None,
}


def build(**parameters: Any) -> Any:
    torch.manual_seed(0)
    return generators.build("cvae", (3,), (8, 16, 1), {"latent": 5, "width": 4} | parameters)


def bars(count: int) -> tuple[Tensor, Tensor]:
    """Return images of a bar whose height is the class and whose brightness varies."""
    rng = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % 3
    images = torch.zeros(count, 1, 8, 16)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 3 * label : 3 * label + 2] = 0.5 + 0.5 * torch.rand(1, generator=rng)
    return images, labels


def test_a_latent_and_a_class_become_an_image_in_range() -> None:
    model = build().eval()
    latents, labels = torch.randn(4, 5), torch.tensor([0, 1, 2, 2])
    images = model(100 * latents, labels)
    assert images.shape == (4, 1, 8, 16)
    assert images.min() >= 0
    assert images.max() <= 1
    assert model.latent == 5
    assert not torch.equal(model(latents, labels), model(latents, labels.flip(0)))
    assert not torch.equal(model(latents, labels), model(latents.flip(0), labels))


def test_the_reach_is_how_far_a_latent_goes() -> None:
    near, far = build(reach=1.0).eval(), build(reach=3.0).eval()
    far.load_state_dict(near.state_dict())
    latents, labels = torch.rand(2, 5), torch.tensor([0, 1])
    torch.testing.assert_close(near(3 * latents, labels), far(latents, labels))


def test_the_loss_is_the_evidence_bound_by_torchs_own_distributions() -> None:
    learner = build(noise=0.7).learner().eval()
    images, labels = bars(6)
    rng = torch.Generator().manual_seed(1)
    learner.sample.keep = learner.sample.draw((6,), rng)
    found = learner(images)
    mean, spread = learner.encoder(images).chunk(2, 1)
    code = torch.distributions.Normal(mean, (spread / 2).exp())
    latents = mean + (spread / 2).exp() * torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    pixels = torch.distributions.Normal(learner.decoder(latents / 2, labels), 0.7)
    prior = torch.distributions.kl_divergence(code, torch.distributions.Normal(0.0, 1.0)).sum(1)
    constant = torch.distributions.Normal(0.0, 0.7).log_prob(torch.tensor(0.0)) * images[0].numel()
    expected = (prior - pixels.log_prob(images).flatten(1).sum(1) + constant).mean()
    torch.testing.assert_close(learner.loss(found, labels), expected)


def test_fitted_it_draws_its_classes_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    images, labels = bars(60)
    whole = build(noise=0.7)
    learner = whole.learner()
    before = learner.eval().errors(images, labels).mean()
    fit(learner, images, labels, learner.loss, FIT | {"epochs": 30}, 7, tmp_path / "a", "t", save_every=1e9)
    assert learner.errors(images, labels).mean() < before / 2
    drawn = whole(torch.randn(30, 5) / 2, torch.arange(30) % 3)
    means = torch.stack([images[labels == label].mean(0) for label in range(3)])
    nearest = (drawn[:, None] - means).square().flatten(2).sum(2).argmin(1)
    assert torch.equal(nearest, torch.arange(30) % 3)

    class Killed(Exception):
        pass

    again = build(noise=0.7)
    cut, calls = again.learner(), [0]

    def dying(found: Any, y: Tensor) -> Tensor:
        calls[0] += 1
        if calls[0] > 40:
            raise Killed
        return cut.loss(found, y)

    with pytest.raises(Killed):
        fit(cut, images, labels, dying, FIT | {"epochs": 30}, 7, tmp_path / "b", "t", save_every=0)
    resumed = build(noise=0.7)
    rest = resumed.learner()
    fit(rest, images, labels, rest.loss, FIT | {"epochs": 30}, 7, tmp_path / "b", "t", save_every=0)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_sides_that_cannot_be_doubled_thrice_are_refused() -> None:
    with pytest.raises(ValueError, match="28×28"):
        generators.build("cvae", (10,), (28, 28, 1), {})
