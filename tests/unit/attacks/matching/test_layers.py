"""Layers and products by hand, each held to torch's own."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, glu, interpolate

from leakbench.attacks.matching.engines import products
from leakbench.attacks.matching.engines.layers import narrow, unfolded
from leakbench.attacks.matching.engines.layers.convolution import derivatives
from leakbench.attacks.matching.engines.layers.without_weights import DROPOUT
from leakbench.attacks.matching.engines.products import WORTH, product
from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution
from leakbench.networks.batch_statistics import bent, by_trial, pulled, standardise, standardised
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
    torch.testing.assert_close(unfolded.convolved(conv, x, conv.weight, conv.bias), expected)
    to_x, to_weight = derivatives(conv, slope, x, conv.weight, 1, (True, True))[:2]
    torch.testing.assert_close(unfolded.transposed(conv, slope, conv.weight, x.shape), to_x)
    torch.testing.assert_close(unfolded.weight_gradient(conv, slope, x), to_weight)


def test_what_is_made_lies_channels_last() -> None:
    conv, x, slope = _case("3x3")
    for found in (unfolded.convolved(conv, x, conv.weight, None), unfolded.weight_gradient(conv, slope, x)):
        assert found.is_contiguous(memory_format=CL)


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


TRIALS = 3


def _wide(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double).to(memory_format=CL)


def _slow(conv: nn.Conv2d, slope: Tensor, weight: Tensor, read: Tensor) -> Tensor:
    """The transpose by autograd, trial by trial."""
    found: list[Tensor] = []
    for x, y, w in zip(read.chunk(TRIALS, 1), slope.chunk(TRIALS, 1), weight.chunk(TRIALS, 0), strict=True):
        x = x.detach().requires_grad_()
        found += torch.autograd.grad(conv2d(x, w, None, conv.stride, conv.padding), x, y)
    return torch.cat(found, 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"),
    [
        (5, 2, 2, (32, 32)),
        (5, 2, 2, (8, 12)),
        (3, 2, 0, (9, 7)),
        (5, (1, 2), (2, 2), (7, 8)),
        (4, 2, 0, (8, 6)),
    ],
)
def test_a_turned_convolution_is_the_transpose(
    kernel: int, stride: int | tuple[int, int], padding: int | tuple[int, int], size: tuple[int, int]
) -> None:
    conv = nn.Conv2d(3, 4, kernel, stride, padding).double()
    read, weight = _wide(2, TRIALS * 3, *size), _wide(TRIALS * 4, 3, kernel, kernel)
    slope = conv2d(read, weight, None, conv.stride, conv.padding, 1, TRIALS).to(memory_format=CL)
    assert narrow.turns(conv, read.shape, slope.shape)
    found = narrow.transposed(conv, slope, narrow.turned(conv, weight, TRIALS), read.shape, TRIALS)
    torch.testing.assert_close(found, _slow(conv, slope, weight, read))


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(16, 4, 5, 2, 2),
        nn.Conv2d(3, 4, 5, 1, 2),
        nn.Conv2d(3, 4, 3, 2, 1),
        nn.Conv2d(3, 4, 5, 2, 2, dilation=2),
    ],
    ids=["many channels", "no stride", "padding is no multiple", "dilation"],
)
def test_what_is_not_turned(conv: nn.Conv2d) -> None:
    read = torch.zeros(1, conv.in_channels, 16, 16)
    assert not narrow.turns(conv, read.shape, conv(read).shape)


def test_two_sums_are_one() -> None:
    x, y = _wide(2, TRIALS * 3, 6, 5), _wide(2, TRIALS * 3, 6, 5)
    v, w = _wide(TRIALS * 4, 3, 3, 3), _wide(TRIALS * 4, 3, 3, 3)
    both = conv2d(narrow.beside(x, y, TRIALS), narrow.reading_both(v, w), groups=TRIALS)
    torch.testing.assert_close(both, conv2d(x, v, groups=TRIALS) + conv2d(y, w, groups=TRIALS))


def test_two_transposes_are_one() -> None:
    conv, read = nn.Conv2d(3, 4, 3).double(), _wide(2, TRIALS * 3, 6, 5)
    a, b = _wide(2, TRIALS * 4, 4, 3), _wide(2, TRIALS * 4, 4, 3)
    v, w = _wide(TRIALS * 4, 3, 3, 3), _wide(TRIALS * 4, 3, 3, 3)
    found = torch.ops.aten.convolution_backward(
        narrow.beside(a, b, TRIALS), read, narrow.making_both(v, w, TRIALS), None, [1, 1], [0, 0], [1, 1],
        False, [0, 0], TRIALS, [True, False, False],
    )[0]  # fmt: skip
    torch.testing.assert_close(found, _slow(conv, a, v, read) + _slow(conv, b, w, read))


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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_each_trial_is_a_batch_of_its_own(layout: torch.memory_format) -> None:
    x = drawn(0).contiguous(memory_format=layout)
    found = standardised(x, APART, EPS)
    each = [nn.functional.batch_norm(part, None, None, training=True, eps=EPS) for part in x.split(BATCH)]
    torch.testing.assert_close(found, torch.cat(each))
    assert found.is_contiguous(memory_format=layout)


def test_both_derivatives_are_those_of_differences() -> None:
    x = drawn(0).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: standardised(x, APART, EPS), x)
    assert torch.autograd.gradgradcheck(lambda x: standardised(x, APART, EPS), x)


def test_the_map_and_its_bend_are_their_own_transposes() -> None:
    (normed, scale), u, v = standardise(drawn(0), APART, EPS), drawn(1), drawn(2)
    torch.testing.assert_close((pulled(u, normed, scale) * v).sum(), (pulled(v, normed, scale) * u).sum())
    torch.testing.assert_close(bent(u, v, normed, scale), bent(v, u, normed, scale))


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


@pytest.mark.parametrize(
    ("rows", "columns", "n", "channels"),
    [(4, 4, 1, 5), (2, 5, 3, 5), (2, 3, 1, 20), (1, 2, 2, 9), (1, 1, 1, 1)],
)
def test_it_is_a_convolution_after_upsampling(rows: int, columns: int, n: int, channels: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, n, rows, columns, channels).double()
    weight = torch.randn(3, channels, 3, 3, 7).double()
    found = upsampled_convolution(x, weight)
    for trial in range(3):
        large = interpolate(x[trial].permute(0, 3, 1, 2), scale_factor=2)
        expected = conv2d(large, weight[trial].permute(3, 0, 1, 2), padding=1).permute(0, 2, 3, 1)
        torch.testing.assert_close(found[trial], expected)


@pytest.mark.parametrize("n", [1, 3])
def test_it_is_batch_norm_of_each_trials_own_images_and_a_gate(n: int) -> None:
    torch.manual_seed(0)
    x, scale, shift = (torch.randn(*size).double() for size in ((2, n, 3, 4, 6), (2, 6), (2, 6)))
    found = normalised_gate(x, scale, shift)
    for trial in range(2):
        normed = batch_norm(
            x[trial].permute(0, 3, 1, 2), None, None, scale[trial], shift[trial], training=True
        )
        torch.testing.assert_close(found[trial], glu(normed, 1).permute(0, 2, 3, 1))


def test_derivatives_are_those_of_differences() -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 3), (2, 3, 3, 3, 2)))
    assert torch.autograd.gradcheck(upsampled_convolution, (x, weight))
    x, scale, shift = (
        torch.randn(*size).double().requires_grad_() for size in ((2, 2, 3, 2, 4), (2, 4), (2, 4))
    )
    assert torch.autograd.gradcheck(normalised_gate, (x, scale, shift))
