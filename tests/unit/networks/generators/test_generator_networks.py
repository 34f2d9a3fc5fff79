"""Generators against the tables of their papers, and labelled images of the attacker's own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from leakbench.federation.training import fit
from leakbench.networks import generators


def test_table_3_flattens_4000_values_and_gives_28_by_28() -> None:
    model = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {}).eval()
    seen: dict[str, tuple[int, ...]] = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: seen.update({name: tuple(out.shape[1:])}))
    out = model(torch.randn(2, 32, 13, 13))
    assert [seen[n] for n in ("up1", "conv1", "up2", "conv2", "flatten", "dense")] == [
        (32, 26, 26), (20, 22, 22), (20, 44, 44), (10, 20, 20), (4000,), (784,)
    ]  # fmt: skip
    assert out.shape == (2, 1, 28, 28)
    count = 32 * 20 * 25 + 20 + 20 * 10 * 25 + 10 + 4000 * 784 + 784
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize(("third", "side"), [("valid", 32), ("same", 28)])
def test_table_4_fits_cifar_only_with_a_valid_third_layer(third: str, side: int) -> None:
    model = generators.build("fidel-cifar10", (32, 15, 15), (32, 32, 3), {"third": third}).eval()
    assert model(torch.randn(2, 32, 15, 15)).shape == (2, 3, side, side)


def test_table_4_layer_by_layer() -> None:
    model = generators.build("fidel-cifar10", (32, 15, 15), (32, 32, 3), {}).eval()
    seen: dict[str, tuple[int, ...]] = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: seen.update({name: tuple(out.shape[1:])}))
    model(torch.randn(1, 32, 15, 15))
    assert [seen[n] for n in ("convt1", "convt2", "norm", "convt3", "conv4", "conv5")] == [
        (128, 15, 15), (64, 30, 30), (64, 30, 30), (64, 34, 34), (32, 32, 32), (3, 32, 32)
    ]  # fmt: skip
    count = (
        32 * 128 * 25
        + 128
        + 128 * 64 * 25
        + 64
        + 2 * 64
        + 64 * 64 * 25
        + 64
        + 64 * 32 * 9
        + 32
        + 32 * 3 * 9
        + 3
    )
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize(
    ("module", "features", "shape"),
    [("fidel-mnist", (32, 13, 13), (28, 28, 1)), ("fidel-cifar10", (32, 15, 15), (32, 32, 3))],
)
def test_generated_pixels_are_in_range_and_weights_glorot(
    module: str, features: tuple[int, int, int], shape: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    model = generators.build(module, features, shape, {}).eval()
    out = model(100 * torch.randn(3, *features))
    assert out.min() >= 0
    assert out.max() <= 1
    assert out.std() > 0
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            area = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
            bound = (6 / (area * (layer.weight.shape[0] + layer.weight.shape[1]))) ** 0.5
            assert bound * 0.99 <= layer.weight.abs().max() <= bound
            assert not layer.bias.any()


def test_up_sampling_repeats_pixels() -> None:
    model = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {})
    small = torch.rand(1, 32, 13, 13)
    large = model.get_submodule("up1")(small)
    assert torch.equal(large, small.repeat_interleave(2, 2).repeat_interleave(2, 3))


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
        others = whole(latents, labels.flip(0))
    assert images.shape == (2, 3, 256, 256)
    assert images.min() >= 0
    assert images.max() <= 1
    assert not torch.equal(images, others)
    torch.testing.assert_close(small, interpolate(images, (128, 128), mode="area"))


def test_attention_adds_nothing_at_zero_and_something_otherwise() -> None:
    model = generators.build("biggan-deep", (4,), (256, 256, 3), {"width": 8}).eval()
    latents, labels = torch.rand(1, 128), torch.tensor([0])
    with torch.no_grad():
        before = model(latents, labels)
        model.get_parameter("layers.8.snconv1x1_o_conv.weight").mul_(3)
        assert torch.equal(model(latents, labels), before)
        model.get_parameter("layers.8.gamma").fill_(5)
        assert not torch.equal(model(latents, labels), before)


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


def of_classes(each: int) -> Any:
    return generators.build("samples", (3,), (4, 4, 1), {"each": each})


def test_the_first_images_of_each_class_are_kept_with_their_labels() -> None:
    images = torch.arange(9.0)[:, None, None, None].expand(9, 1, 4, 4) / 9
    network = of_classes(2)
    network.keep(images, torch.tensor([2, 0, 0, 1, 0, 2, 1, 1, 2]))
    assert network.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert torch.allclose(network.images[:, 0, 0, 0] * 9, torch.tensor([1.0, 2, 3, 6, 0, 5]))
    again = of_classes(2)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.images, network.images)
