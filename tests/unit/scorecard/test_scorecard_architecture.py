import pytest
import torch
from torch import nn

from leakbench.scorecard.architecture import layer_text, output_side


def test_layer_text_leaves_out_what_is_empty() -> None:
    layer = {
        "layer": "conv2d",
        "size": "3,3 x 32",
        "stride": "",
        "padding": None,
        "activation": "none",
        "extra": 1,
    }
    assert layer_text(layer) == "layer=conv2d; size=3,3 x 32; activation=none"


@pytest.mark.parametrize(
    ("layer", "module"),
    [
        ({"layer": "conv2d", "size": "3,3 x 2"}, nn.Conv2d(1, 2, 3)),
        ({"layer": "conv2d", "size": "5,5 x 2", "padding": "same"}, nn.Conv2d(1, 2, 5, padding="same")),
        ({"layer": "conv2d", "size": "5,5 x 2", "stride": "2,2"}, nn.Conv2d(1, 2, 5, stride=2)),
        ({"layer": "maxpool", "size": "2,2"}, nn.MaxPool2d(2)),
        ({"layer": "up-sampling nearest", "size": "2,2"}, nn.Upsample(scale_factor=2)),
        ({"layer": "conv2d transpose", "size": "5,5 x 2", "padding": "valid"}, nn.ConvTranspose2d(1, 2, 5)),
        (
            {"layer": "conv2d transpose", "size": "5,5 x 2", "stride": "2,2"},
            nn.ConvTranspose2d(1, 2, 5, stride=2),
        ),
        (
            {"layer": "conv2d transpose", "size": "5,5 x 2", "stride": "2,2", "padding": "same"},
            nn.ConvTranspose2d(1, 2, 5, stride=2, padding=2, output_padding=1),
        ),
        ({"layer": "batchnorm"}, nn.BatchNorm2d(1)),
        ({"layer": "flatten"}, nn.Identity()),
    ],
)
def test_output_side_agrees_with_torch(layer: dict[str, str], module: nn.Module) -> None:
    side = module(torch.zeros(2, 1, 15, 15)).shape[-1]
    assert output_side([{"layer": "input", "size": "15,15,1"}, layer]) == side


def test_dense_layers_end_the_image_part(facts) -> None:
    networks = facts["architectures"]
    assert output_side(networks["generator-cifar10"]["layers"]) == 32
    # 13 -> 26 -> 22 -> 44 -> 20: the 4000 = 20 * 20 * 10 values that Table III flattens.
    assert output_side(networks["generator-mnist"]["layers"]) == 20
