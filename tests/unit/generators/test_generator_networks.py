"""The generators against Tables III and IV: sizes, ranges, the padding that the paper misprints."""

import pytest
import torch
from torch import nn

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
