"""BigGAN's published weights: found by name, spectral norm divided out, damage told."""

from pathlib import Path

import pytest
import torch
from catalogued import available, place
from torch import nn

from leakbench.datasets.biggan_deep_256 import biggan_deep_256
from leakbench.datasets.canonical import Damaged


def layers() -> nn.ModuleDict:
    """Return a normalised convolution and a normalised dense layer after some steps of their power
    iteration."""
    torch.manual_seed(0)
    out = nn.ModuleDict(
        {
            "conv_0": nn.utils.spectral_norm(nn.Conv2d(3, 5, 3)),
            "gen_z": nn.utils.spectral_norm(nn.Linear(4, 6)),
        }
    )
    for _ in range(3):
        out["conv_0"](torch.rand(1, 3, 4, 4))
        out["gen_z"](torch.rand(1, 4))
    return out.eval()


@pytest.mark.parametrize("name", ["biggan-deep-256-pytorch_model.bin", "biggan-deep-256/pytorch_model.bin"])
def test_a_folded_layer_answers_as_the_normalised_one(name: str, tmp_path: Path) -> None:
    made = nn.ModuleDict({"generator": layers()})
    state = made.state_dict() | {"generator.bn.running_means": torch.arange(6.0).view(3, 2)}
    assert place("biggan-deep-256", tmp_path) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    torch.save(state, tmp_path / name)
    assert available("biggan-deep-256", [tmp_path])
    home = place("biggan-deep-256", tmp_path)
    assert home is not None
    found = {n: torch.from_numpy(v) for n, v in biggan_deep_256(home).tensors.items()}
    assert set(found) == {"conv_0.weight", "conv_0.bias", "gen_z.weight", "gen_z.bias", "bn.running_mean"}
    assert found["bn.running_mean"].tolist() == [4, 5]
    normed = layers()
    x, z = torch.rand(2, 3, 6, 6), torch.rand(2, 4)
    torch.testing.assert_close(
        nn.functional.conv2d(x, found["conv_0.weight"], found["conv_0.bias"]), normed["conv_0"](x)
    )
    torch.testing.assert_close(
        nn.functional.linear(z, found["gen_z.weight"], found["gen_z.bias"]), normed["gen_z"](z)
    )


@pytest.mark.parametrize("kind", ["cut", "pickle", "other"])
def test_a_file_that_holds_no_such_weights_is_damaged(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "biggan-deep-256-pytorch_model.bin"
    state = layers().state_dict()
    if kind == "other":
        del state["gen_z.weight_u"]
    torch.save(state if kind != "pickle" else print, file)
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(Damaged, match="cut short or altered"):
        biggan_deep_256(tmp_path)
