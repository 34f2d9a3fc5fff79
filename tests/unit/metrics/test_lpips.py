"""LPIPS against its definition written out: with random weights, and with the real ones where present."""

import subprocess
import sys
from pathlib import Path

import lpips as package
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from leakbench.base.errors import UserError
from leakbench.metrics.lpips import lpips_alex, lpips_alex_raw255_bgr, lpips_vgg, lpips_vgg_raw255_bgr

NETS = {"alex": lpips_alex, "vgg": lpips_vgg}
RAW = {"alex": lpips_alex_raw255_bgr, "vgg": lpips_vgg_raw255_bgr}
# (torchvision index, channels in, channels out, kernel, stride, padding, pooled before, feature map used)
LAYERS = {
    "alex": [
        (0, 3, 64, 11, 4, 2, False, True), (3, 64, 192, 5, 1, 2, True, True),
        (6, 192, 384, 3, 1, 1, True, True), (8, 384, 256, 3, 1, 1, False, True),
        (10, 256, 256, 3, 1, 1, False, True),
    ],
    "vgg": [
        (0, 3, 64, 3, 1, 1, False, False), (2, 64, 64, 3, 1, 1, False, True),
        (5, 64, 128, 3, 1, 1, True, False), (7, 128, 128, 3, 1, 1, False, True),
        (10, 128, 256, 3, 1, 1, True, False), (12, 256, 256, 3, 1, 1, False, False),
        (14, 256, 256, 3, 1, 1, False, True), (17, 256, 512, 3, 1, 1, True, False),
        (19, 512, 512, 3, 1, 1, False, False), (21, 512, 512, 3, 1, 1, False, True),
        (24, 512, 512, 3, 1, 1, True, False), (26, 512, 512, 3, 1, 1, False, False),
        (28, 512, 512, 3, 1, 1, False, True),
    ],
}  # fmt: skip


def linear_layers(net: str) -> list[torch.Tensor]:
    path = Path(package.__file__).parent / f"weights/v0.1/{net}.pth"
    state = torch.load(path, map_location="cpu", weights_only=True)
    return [state[f"lin{level}.model.1.weight"] for level in range(5)]


def written_out(net: str, weights: dict[str, np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """LPIPS as the paper defines it (eq. 1), of RGB images [N, 3, H, W] in the network's scale."""
    shift, scale = (
        torch.tensor(v).view(1, 3, 1, 1) for v in ([-0.030, -0.088, -0.188], [0.458, 0.448, 0.450])
    )
    x, y = ((torch.tensor(image, dtype=torch.float32) - shift) / scale for image in (a, b))
    total, linear = torch.zeros(len(a)), linear_layers(net)
    for index, _, _, _, stride, padding, pooled, used in LAYERS[net]:
        size = 3 if net == "alex" else 2
        if pooled:
            x, y = F.max_pool2d(x, size, 2), F.max_pool2d(y, size, 2)
        w, c = (torch.tensor(weights[f"{net}/features.{index}.{kind}"]) for kind in ("weight", "bias"))
        x, y = (torch.relu(F.conv2d(image, w, c, stride, padding)) for image in (x, y))
        if used:
            u, v = (image / (image.norm(dim=1, keepdim=True) + 1e-10) for image in (x, y))
            total += ((u - v) ** 2 * linear.pop(0)).sum(dim=1).mean(dim=(1, 2))
    return total.numpy()


@pytest.fixture(scope="module")
def random_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = {}
    for net, layers in LAYERS.items():
        for index, inputs, outputs, kernel, *_ in layers:
            shape = (outputs, inputs, kernel, kernel)
            scale = np.sqrt(2 / (inputs * kernel**2))
            weights[f"{net}/features.{index}.weight"] = (
                rng.standard_normal(shape, dtype=np.float32) * scale
            ).astype(np.float32)
            weights[f"{net}/features.{index}.bias"] = 0.1 * rng.standard_normal(outputs, dtype=np.float32)
    return weights


@pytest.fixture(params=["alex", "vgg"])
def net(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def real_weights(net: str, real_backbones: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if f"{net}/features.0.weight" not in real_backbones:
        pytest.skip(f"no {net} backbone in data/lpips-backbones.safetensors or LEAKBENCH_DATA")
    return real_backbones


def test_lpips_is_as_defined_and_fedkls_is_in_bgr(net: str, random_weights, photographs: np.ndarray) -> None:
    others = photographs[[1, 2, 0]]
    expected = written_out(net, random_weights, 2 * photographs - 1, 2 * others - 1)
    found = NETS[net](photographs, others, lpips_backbones=random_weights)
    assert found == pytest.approx(expected, rel=1e-4)
    assert found.dtype == np.float64
    in_bytes = written_out(net, random_weights, 255 * photographs[:, ::-1], 255 * others[:, ::-1])
    raw = RAW[net](photographs, others, lpips_backbones=random_weights)
    assert raw == pytest.approx(in_bytes, rel=1e-4)
    assert (raw != found).all()


def test_equal_images_are_at_no_distance(net: str, random_weights, photographs: np.ndarray) -> None:
    """Also where one copy is read channel-last: images are the same whatever their layout in memory."""
    turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(photographs, 1, -1)), -1, 1)
    photographs = np.ascontiguousarray(photographs)
    assert turned.strides != photographs.strides
    for metric in (NETS[net], RAW[net]):
        assert metric(turned, photographs, lpips_backbones=random_weights).tolist() == [0.0] * 3
        pair = photographs[:1], photographs[1:2]
        there, back = (metric(*each, lpips_backbones=random_weights) for each in (pair, pair[::-1]))
        assert there == pytest.approx(back)


def test_grey_images_are_three_equal_channels(net: str, random_weights, photographs: np.ndarray) -> None:
    grey, other = photographs[:1, :1, :32, :32], photographs[1:2, 1:2, :32, :32]
    found = NETS[net](grey, other, lpips_backbones=random_weights)
    tripled = NETS[net](grey.repeat(3, axis=1), other.repeat(3, axis=1), lpips_backbones=random_weights)
    assert found == pytest.approx(tripled)
    assert found[0] > 0


@pytest.mark.parametrize(("name", "narrowest"), [("alex", 31), ("vgg", 16)])
def test_only_images_the_network_cannot_take_are_enlarged(name: str, narrowest: int, random_weights) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 1, 3, narrowest, narrowest + 4))
    as_they_are = written_out(name, random_weights, 2 * a - 1, 2 * b - 1)
    assert NETS[name](a, b, lpips_backbones=random_weights) == pytest.approx(as_they_are, rel=1e-4)
    a, b = a[:, :, 1:], b[:, :, 1:]
    with pytest.raises(RuntimeError, match="too small"):
        written_out(name, random_weights, 2 * a - 1, 2 * b - 1)
    size = (64, round((narrowest + 4) * 64 / (narrowest - 1)))
    large = [F.interpolate(torch.tensor(2 * image - 1), size, mode="bilinear").numpy() for image in (a, b)]
    expected = written_out(name, random_weights, *large)
    assert NETS[name](a, b, lpips_backbones=random_weights) == pytest.approx(expected, rel=1e-4)


def test_a_score_does_not_depend_on_its_batch(random_weights) -> None:
    """300 images of 32×32 are more than one chunk; a diverged one is NaN and disturbs no other."""
    a, b = np.random.default_rng(6).random((2, 300, 3, 32, 32))
    a[7, 0, 0, 0] = np.nan
    scores = lpips_alex(a, b, lpips_backbones=random_weights)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [7]
    for row in (0, 255, 256, 299):
        alone = lpips_alex(a[row : row + 1], b[row : row + 1], lpips_backbones=random_weights)
        assert alone[0] == pytest.approx(scores[row], rel=1e-4)
    assert lpips_alex(a[:0], b[:0], lpips_backbones=random_weights).shape == (0,)
    assert np.isnan(lpips_alex_raw255_bgr(a[7:8], b[7:8], lpips_backbones=random_weights)).all()


def test_a_backbone_that_is_incomplete_or_foreign_is_refused(random_weights) -> None:
    image = np.zeros((1, 3, 32, 32))
    wrong = random_weights | {"alex/features.3.bias": np.zeros(7, dtype=np.float32)}
    with pytest.raises(UserError, match=r"alex/features\.3\.bias is \(7,\), expected \(192,\)"):
        lpips_alex(image, image, lpips_backbones=wrong)


def test_the_metrics_room_is_importable_without_torch() -> None:
    check = "import sys, leakbench.metrics; sys.exit('torch' in sys.modules or 'lpips' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_real_distance_equals_its_definition(net: str, real_weights, photographs: np.ndarray) -> None:
    others = photographs[[1, 2, 0]]
    expected = written_out(net, real_weights, 2 * photographs - 1, 2 * others - 1)
    found = NETS[net](photographs, others, lpips_backbones=real_weights)
    assert found == pytest.approx(expected, rel=1e-4)
    assert (found > 0.3).all()
