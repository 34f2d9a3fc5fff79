"""Generators against the tables of their papers, and labelled images of the attacker's own."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leakbench.federation.training import fit
from leakbench.networks import generators


def test_fidels_generators_have_their_sizes_and_fit_their_images() -> None:
    def build(module: str, side: int, shape: tuple[int, int, int], **given: Any) -> tuple[int, Any]:
        model = generators.build(module, (32, side, side), shape, given).eval()
        return sum(p.numel() for p in model.parameters()), model(torch.randn(2, 32, side, side)).shape

    # By hand: two convolutions and a dense layer that reads 4,000 values.
    size = 32 * 20 * 25 + 20 + 20 * 10 * 25 + 10 + 4000 * 784 + 784
    assert build("fidel-mnist", 13, (28, 28, 1)) == (size, (2, 1, 28, 28))
    convolutions = [32 * 128 * 25 + 128, 128 * 64 * 25 + 64, 2 * 64, 64 * 64 * 25 + 64, 64 * 32 * 9 + 32, 867]
    # Table IV fits CIFAR-10 only with a valid third layer.
    for third, side in (("valid", 32), ("same", 28)):
        found = build("fidel-cifar10", 15, (32, 32, 3), third=third)
        assert found == (sum(convolutions), (2, 3, side, side))


def test_at_full_width_it_has_the_size_of_the_published_weights() -> None:
    with torch.device("meta"):
        model = generators.build("biggan-deep", (1000,), (256, 256, 3), {})
    state = model.state_dict()
    assert sum(value.numel() for value in state.values()) == 55_929_473
    for name, shape in {
        "embeddings.weight": (128, 1000),
        "gen_z.weight": (32768, 256),
        "layers.0.bn_0.scale.weight": (2048, 256),
        "layers.3.conv_3.weight": (1024, 512, 1, 1),
        "layers.8.snconv1x1_g.weight": (256, 512, 1, 1),
        "layers.12.conv_1.weight": (64, 64, 3, 3),
        "bn.running_mean": (128,),
        "conv_to_rgb.weight": (128, 128, 3, 3),
    }.items():
        assert tuple(state[name].shape) == shape
    # Attention stands at 64×64, between the eighth block and the ninth.
    assert [name for name in state if name.endswith("gamma")] == ["layers.8.gamma"]


def test_images_are_in_range_and_shrink_by_means_over_areas() -> None:
    whole, half = (
        generators.build("biggan-deep", (4,), (side, side, 3), {"width": 8}).eval() for side in (256, 128)
    )
    half.load_state_dict(whole.state_dict())
    latents, labels = torch.rand(2, 128, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 3])
    with torch.no_grad():
        images, small = whole(latents, labels), half(latents, labels)
        assert images.shape == (2, 3, 256, 256)
        assert 0 <= images.min() < images.max() <= 1
        assert not torch.equal(images, whole(latents, labels.flip(0)))
        torch.testing.assert_close(small, interpolate(images, (128, 128), mode="area"))
        # Attention adds nothing at zero and something otherwise.
        whole.get_parameter("layers.8.snconv1x1_o_conv.weight").mul_(3)
        assert torch.equal(whole(latents, labels), images)
        whole.get_parameter("layers.8.gamma").fill_(5)
        assert not torch.equal(whole(latents, labels), images)


FIT = {
    "optimiser": "adam", "lr": 0.003, "options": {}, "batch_size": 20, "checkpoints": [], "images": None,
    "settled": None, "epochs": 30,
}  # fmt: skip


def build(**parameters: Any) -> Any:
    torch.manual_seed(0)
    return generators.build("cvae", (3,), (8, 16, 1), {"latent": 5, "width": 4} | parameters)


def bars(count: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % 3
    images = torch.zeros(count, 1, 8, 16)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 3 * label : 3 * label + 2] = 0.5 + 0.5 * torch.rand(1, generator=rng)
    return images, labels


def test_a_latent_and_a_class_become_an_image_in_range() -> None:
    model, far = build(reach=1.0).eval(), build(reach=3.0).eval()
    latents, labels = torch.randn(4, 5), torch.tensor([0, 1, 2, 2])
    images = model(100 * latents, labels)
    assert images.shape == (4, 1, 8, 16)
    assert 0 <= images.min() < images.max() <= 1
    assert model.latent == 5
    assert not torch.equal(model(latents, labels), model(latents, labels.flip(0)))
    assert not torch.equal(model(latents, labels), model(latents.flip(0), labels))
    # The reach is how far a latent goes.
    far.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(3 * latents, labels), far(latents, labels))


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


def test_fitted_it_draws_its_classes(tmp_path: Path) -> None:
    images, labels = bars(60)
    whole = build(noise=0.7)
    learner = whole.learner()
    before = learner.eval().errors(images, labels).mean()
    fit(learner, images, labels, learner.loss, FIT, 7, tmp_path / "a", "t", save_every=1e9)
    assert learner.errors(images, labels).mean() < before / 2
    drawn = whole(torch.randn(30, 5) / 2, torch.arange(30) % 3)
    means = torch.stack([images[labels == label].mean(0) for label in range(3)])
    nearest = (drawn[:, None] - means).square().flatten(2).sum(2).argmin(1)
    assert torch.equal(nearest, torch.arange(30) % 3)


def test_the_first_images_of_each_class_are_kept_with_their_labels() -> None:
    network, again = (generators.build("samples", (3,), (4, 4, 1), {"each": 2}) for _ in range(2))
    images = torch.arange(9.0)[:, None, None, None].expand(9, 1, 4, 4) / 9
    network.keep(images, torch.tensor([2, 0, 0, 1, 0, 2, 1, 1, 2]))
    assert network.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert torch.allclose(network.images[:, 0, 0, 0] * 9, torch.tensor([1.0, 2, 3, 6, 0, 5]))
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.images, network.images)
