"""BigGAN-deep against its paper's tables and its published weights' names; no weights are at hand."""

import pytest
import torch
from torch.nn.functional import interpolate

from leakbench.networks import generators


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


def test_images_without_colour_are_refused() -> None:
    with pytest.raises(ValueError, match="three channels"):
        generators.build("biggan-deep", (10,), (256, 256, 1), {})
