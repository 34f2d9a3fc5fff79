"""Layers and products by hand, each held to torch's own."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from leakbench.attacks.matching.engines import products
from leakbench.attacks.matching.engines.layers import narrow, unfolded
from leakbench.attacks.matching.engines.layers.convolution import derivatives
from leakbench.attacks.matching.engines.layers.without_weights import DROPOUT
from leakbench.attacks.matching.engines.products import WORTH, product
from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution
from leakbench.networks.batch_statistics import by_trial
from leakbench.networks.layers import Dropout


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what oneDNN was given."""
    shapes: list[tuple[int, ...]] = []
    linear = products._linear

    def counted(a: Tensor, b: Tensor) -> Tensor:
        shapes.append((*a.shape, b.shape[1]))
        return linear(a, b)

    monkeypatch.setattr(products, "_linear", counted)
    return shapes


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize(("across", "down"), [(False, False), (True, False), (False, True), (True, True)])
def test_large_products_are_onednns(called: list[tuple[int, ...]], across: bool, down: bool) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 170, 180).mT if across else torch.randn(3, 180, 170)
    b = torch.randn(3, 190, 170).mT if down else torch.randn(3, 170, 190)
    torch.testing.assert_close(product(a, b), a @ b)
    torch.testing.assert_close(product(a[0], b[0]), a[0] @ b[0])
    assert called == [(180, 170, 190)] * 4


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_other_precisions_are_torchs(called: list[tuple[int, ...]], kind: torch.dtype) -> None:
    a, b = torch.ones(170, 180, dtype=kind), torch.ones(180, 190, dtype=kind)
    assert torch.equal(product(a, b), a @ b)
    assert called == []


def test_small_products_are_torchs(called: list[tuple[int, ...]]) -> None:
    side = int(WORTH ** (1 / 3)) - 1
    a, b = torch.ones(2, side, side), torch.ones(2, side, side)
    assert torch.equal(product(a, b), a @ b)
    assert called == []


CL = torch.channels_last
SETTINGS = {
    "3x3": ((3, 1, 1), (8, 8)),
    "stride": ((3, 2, 1), (8, 8)),
    "stride that leaves a row": ((3, 2, 1), (7, 10)),
    "no padding": ((3, 1, 0), (9, 8)),
    "uneven": (((3, 2), (1, 2), (1, 0)), (8, 7)),
    "wide padding": ((2, 1, 2), (6, 6)),
}


def _case(setting: str) -> tuple[nn.Conv2d, Tensor, Tensor]:
    torch.manual_seed(0)
    (kernel, stride, padding), size = SETTINGS[setting]
    conv = nn.Conv2d(5, 6, kernel, stride, padding).double().to(memory_format=CL)
    x = torch.randn(1, 5, *size).double().to(memory_format=CL)
    return conv, x, torch.randn_like(conv(x)).to(memory_format=CL)


@pytest.mark.parametrize("setting", SETTINGS)
def test_forward_and_derivatives_are_torchs(setting: str) -> None:
    conv, x, slope = _case(setting)
    expected = conv2d(x, conv.weight, conv.bias, conv.stride, conv.padding)
    found = unfolded.convolved(conv, x, conv.weight, conv.bias)
    assert found.is_contiguous(memory_format=CL)
    torch.testing.assert_close(found, expected)
    to_x, to_weight = derivatives(conv, slope, x, conv.weight, 1, (True, True))[:2]
    torch.testing.assert_close(unfolded.transposed(conv, slope, conv.weight, x.shape), to_x)
    torch.testing.assert_close(unfolded.weight_gradient(conv, slope, x), to_weight)


def test_where_it_pays() -> None:
    wide = nn.Conv2d(256, 256, 3, 1, 1)
    assert unfolded.pays(wide, torch.empty(1, 256, 8, 8))
    others = {
        "two images": (wide, torch.empty(2, 256, 8, 8)),
        "a large image": (wide, torch.empty(1, 256, 16, 16)),
        "little to multiply": (nn.Conv2d(3, 8, 3), torch.empty(1, 3, 32, 32)),
        "double precision": (wide, torch.empty(1, 256, 8, 8).double()),
        "a large window": (nn.Conv2d(256, 256, 5, 1, 2), torch.empty(1, 256, 8, 8)),
        "dilation": (nn.Conv2d(256, 256, 3, 1, 2, dilation=2), torch.empty(1, 256, 8, 8)),
    }
    assert [name for name, case in others.items() if unfolded.pays(*case)] == []


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(16, 4, 5, 2, 2),
        nn.Conv2d(3, 4, 5, 1, 2),
        nn.Conv2d(3, 4, 3, 2, 1),
        nn.Conv2d(3, 4, 5, 2, 2, dilation=2),
        nn.Conv2d(3, 4, 2, 3, 0),
    ],
    ids=["many channels", "no stride", "padding is no multiple", "dilation", "a last pixel that none reads"],
)
def test_what_is_not_turned(conv: nn.Conv2d) -> None:
    read = torch.zeros(1, conv.in_channels, 16, 16)
    assert not narrow.turns(conv, read.shape, conv(read).shape)


def test_what_is_made_of_weights_is_made_again_where_they_change() -> None:
    conv = nn.Conv2d(1, 1, 1).requires_grad_(False)

    def made() -> float:
        return float(narrow.once(conv, "double", 2, lambda: 2 * conv.weight.clone()))

    conv.weight.fill_(1)
    assert (made(), made()) == (2, 2)
    conv.weight.fill_(3)
    assert made() == 6
    conv.weight = nn.Parameter(torch.full((1, 1, 1, 1), 5.0), requires_grad=False)
    assert made() == 10


def test_dropouts_link_multiplies_by_the_masks_that_are_lent() -> None:
    layer = Dropout(0.5, 6)
    rng = torch.Generator().manual_seed(1)
    layer.keep = layer.draw((4,), rng)
    assert {0.0, 2.0} == set(layer.keep.flatten().tolist())
    x, slope = torch.rand((4, 6), generator=rng), torch.rand((4, 6), generator=rng)
    assert torch.equal(DROPOUT.forward(layer, x, 1)[0], layer(x))
    assert torch.equal(DROPOUT.backward(layer, (), x.shape, slope), slope * layer.keep)


APART, BATCH, CHANNELS, EPS = 3, 2, 4, 1e-2


def drawn(seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(APART * BATCH, CHANNELS, 3, 2, dtype=torch.float64, generator=rng)


def test_a_network_takes_trials_apart_only_while_it_is_told_to() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm2d(CHANNELS, track_running_stats=False),
        nn.BatchNorm2d(CHANNELS),
        nn.BatchNorm2d(CHANNELS, track_running_stats=False, affine=False),
    )
    model = model.double().eval()
    x, before = drawn(0), model(drawn(0))
    with by_trial(model, APART):
        apart = model(x)
    torch.testing.assert_close(apart, torch.cat([model(part) for part in x.split(BATCH)]))
    assert not torch.allclose(apart, before)
    torch.testing.assert_close(model(x), before)
    assert {type(layer) for layer in model} == {nn.BatchNorm2d}
    assert "normed" not in vars(model[0])


def test_derivatives_are_those_of_differences() -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 3), (2, 3, 3, 3, 2)))
    assert torch.autograd.gradcheck(upsampled_convolution, (x, weight))
    x, scale, shift = (
        torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 4), (2, 4), (2, 4))
    )
    assert torch.autograd.gradcheck(normalised_gate, (x, scale, shift))
