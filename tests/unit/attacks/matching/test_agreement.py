"""Engines are chosen where they pay, compared with plain autograd first, and near it in float32."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile
from trial_networks import CLASSES, SHAPE, everything, gradient, group, meet, met, network, ones, terms

from leakbench.attacks.matching.composition import Composition
from leakbench.attacks.matching.engines import frozen, gradients
from leakbench.attacks.matching.engines.frozen import FrozenDifference, pays
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.engines.layers import RULES
from leakbench.attacks.matching.engines.own_products import OwnProducts
from leakbench.attacks.matching.engines.shared_weights import SharedWeights, fits
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import parameter_weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.processes.workers import Crew
from leakbench.networks import victims

RESNET: tuple[str, dict[str, Any]] = ("resnet20_4", {"width": 4, "normalise": "cifar10"})
FROZEN = {"derivative": "frozen"}


def trials(known: bool = True) -> Group:
    """Return two trials on a small ResNet, whose gradients are known to be autograd's or not."""
    model = met(*RESNET) if known else network(*RESNET)
    images = torch.rand(2, 1, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return group(model, images, torch.zeros(2, 1, dtype=torch.int64))


def engine(of: Group, device: str, how: dict[str, Any] = FROZEN) -> Any:
    composed = Composition(terms("cosine", ones), unknowns=None, optimiser=None, **how)
    return composed.objective_of(
        replace(of, observation=replace(of.observation, work=Crew(device=device)))
    ).engine


@pytest.mark.parametrize(
    ("how", "device", "expected"),
    [
        (FROZEN, "cpu", FrozenDifference),
        ({}, "cpu", None),
        # A GPU takes batches in place of differences.
        (FROZEN, "cuda:0", SharedWeights),
        ({}, "cuda:0", None),
    ],
)
def test_an_engine_that_agrees_is_used_and_draws_on_nobodys_chance(
    how: dict[str, Any], device: str, expected: type | None, capsys: pytest.CaptureFixture[str]
) -> None:
    of, before = trials(), torch.get_rng_state()
    assert engine(of, device, how) is expected
    assert torch.equal(torch.get_rng_state(), before)
    assert not capsys.readouterr().err


def test_a_processor_takes_batches_on_a_network_of_twelve_channels() -> None:
    images = torch.rand(2, 1, 3, 32, 32, dtype=torch.float64)
    of = group(met("lenet_dlg", {}), images, torch.zeros(2, 1, dtype=torch.int64))
    assert engine(of, "cpu", {}) is SharedWeights


def more(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: more(each) for name, each in value.items()}
    return 1.1 * value if isinstance(value, Tensor) else value


@pytest.mark.parametrize(
    ("device", "where", "wrong"),
    [("cpu", (FrozenDifference, "one"), lambda found: (found[0], more(found[1]))),
     ("cuda:0", (SharedWeights, "rates"), lambda found: (more(found[0]), found[1])),
     ("cuda:0", (OwnProducts, "back"), more)],
)  # fmt: skip
def test_an_engine_that_is_off_is_left_with_one_line(
    device: str, where: tuple[type, str], wrong: Any, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    right = getattr(*where)
    monkeypatch.setattr(*where, lambda *given: wrong(right(*given)))
    of = trials(known=False)
    assert engine(of, device) is None
    assert engine(of, device) is None
    assert capsys.readouterr().err.count("exact derivatives without") == 1


def test_an_engine_that_is_off_only_without_zeros_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient passes a last layer of zeros, so an error in the layers before it does not show."""
    of, right, stir = trials(known=False), SharedWeights.rates, gradients._stir
    moved: list[nn.Module] = []
    nn.init.zeros_(list(of.model.parameters())[-2])

    def off(*given: Any) -> tuple[Tensor, Any]:
        rate, others = right(*given)
        return (1.1 if moved else 1) * rate, others

    monkeypatch.setattr(gradients, "_stir", lambda model: (moved.append(model), stir(model)))
    monkeypatch.setattr(SharedWeights, "rates", off)
    assert engine(of, "cuda:0") is None
    assert list(of.model.parameters())[-2].eq(0).all()


def slope_of_images(right: Any) -> Any:
    """Return a rule's way back with an error in the first layer alone, which gradients do not show."""
    return lambda layer, kept, read, slope: (
        right(layer, kept, read, slope) * (1.1 if getattr(layer, "in_channels", 0) == SHAPE[1] else 1)
    )


def first_factor(right: Any) -> Any:
    return lambda *given: (1.1 * right(*given)[0], right(*given)[1])


@pytest.mark.parametrize(
    ("layer", "part", "off"),
    [(nn.Conv2d, "backward", slope_of_images), (nn.Conv2d, "operands", first_factor),
     (nn.Linear, "operands", first_factor)],
)  # fmt: skip
def test_what_differences_and_products_take_beside_gradients_is_compared_too(
    layer: type, part: str, off: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = RULES[layer]
    where = known.link if part == "backward" else known
    assert where is not None
    changed: Any = where._replace(**{part: off(getattr(where, part))})
    monkeypatch.setitem(RULES, layer, known._replace(link=changed) if part == "backward" else changed)
    assert not engines_fit(network("lenet_dlg", {}), SHAPE)


def test_norms_of_the_batch_are_compared_trial_by_trial_and_lie_in_no_batch() -> None:
    torch.manual_seed(0)
    norms = (nn.BatchNorm2d(3, track_running_stats=False) for _ in range(10))
    blocks = (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), norm, nn.ReLU()) for norm in norms)
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(3 * 64, CLASSES)).double().eval()
    of = group(model, torch.rand(2, 2, 3, 8, 8, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.int64))
    assert engine(of, "cpu") is FrozenDifference
    assert not fits(model, of.shape)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)], True), ([nn.Conv2d(3, 4, 2, dilation=2)], False)],
)
def test_dilated_convolutions_lie_in_no_batch(layers: list[nn.Module], expected: bool) -> None:
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, CLASSES)).eval()
    assert fits(model, torch.Size([2, 3, 8, 8])) == expected


class Absolute(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.abs())


@pytest.mark.parametrize(
    ("kind", "rectify", "right"),
    [(nn.Sequential, nn.ReLU, True), (nn.Sequential, partial(nn.ReLU, inplace=True), True),
     (nn.Sequential, nn.ReLU6, False), (Absolute, nn.ReLU, False)],
)  # fmt: skip
def test_differences_serve_where_every_kink_is_seen(
    kind: type[nn.Sequential], rectify: Any, right: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), rectify()) for _ in range(10)]
    model = kind(nn.Conv2d(3, 4, 3), *layers, nn.Flatten(), nn.Linear(4 * 36, 3)).requires_grad_(False)
    assert pays(model, torch.Size([1, 3, 8, 8])) == right
    assert ("exact second derivatives" in capsys.readouterr().err) != right


class Twice(nn.Module):
    """A network whose forward pass uses the weights of a layer outside the layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3072, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.convolution(x))
        x = torch.tanh(nn.functional.conv2d(x, self.convolution.weight, padding=1))
        return self.head(x.flatten(1))


# Also where nothing else is differentiated.
@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "fit"), [(Twice, False), (lambda: network("lenet_dlg", {}), True)], ids=["twice", "lenet"]
)
def test_a_last_layer_of_zeros_hides_no_error_and_does_no_harm(make: Any, fit: bool) -> None:
    """All other gradients are zero then, until a step of the client has moved the last layer."""
    torch.manual_seed(0)
    model = make().double()
    nn.init.zeros_(list(model.parameters())[-2])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert engines_fit(model, SHAPE) == fit
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_no_gradient_of_a_wide_layer_is_made() -> None:
    """A dense layer of 6 million weights: eight gradients of it would be 192 MB."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(300, 20_000), nn.ReLU())
    model = nn.Sequential(model, nn.Linear(20_000, 10, bias=False)).requires_grad_(False)
    observed = {name: rows_of(torch.ones(1, *value.shape)) for name, value in model.named_parameters()}
    engines_fit(model, torch.Size([1, 3, 10, 10]))
    zeros = torch.zeros(8, 1, dtype=torch.long)
    with profile(profile_memory=True) as seen:
        gradient_products(model, torch.rand(8, 1, 3, 10, 10), zeros, observed, zeros[:, 0])
    assert max(event.cpu_memory_usage for event in seen.events()) < 40 * 20_000 * 8


@pytest.mark.parametrize(("chunk", "known"), [(2, True), (5, True), (2, False)])
def test_the_gap_is_the_mean_square_of_all_and_none_at_the_private_images(chunk: int, known: bool) -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, CLASSES, (3, 2))
    of = group(model, images, labels, known)
    told = {} if known else {"labels": nn.functional.one_hot(labels, CLASSES).double() * 100}
    assert of.gap({"images": (images - of.mean) / of.deviation} | told, chunk).max() < 1e-20
    dummies = torch.randn(3, 2, 3, 16, 16).double()
    found = of.gap({"images": dummies} | told, chunk)
    for trial in range(3):
        mine = gradient(model, of.to_pixels(dummies[trial]), labels[trial])
        theirs = {name: value[trial] for name, value in everything(of).items()}
        apart = torch.cat([(mine[name] - theirs[name]).flatten() for name in theirs])
        assert float(found[trial]) == pytest.approx(float(apart.square().mean()), rel=1e-9)


# As batch norm's weights in one reading of AGIC.
WITHOUT_NORMS = partial(
    parameter_weights, shape="linear", beta=50.0, relu=True, norms="none", order="forward"
)
NORMALISED = ("resnet20-4", {"width": 8, "normalise": "cifar10"})


def near(
    network: tuple[str, dict[str, Any]], distance: str, batch: int, weights: Any, tv: float, known: bool
) -> None:
    """Assert that differences and exact derivatives are the same to a hundredth."""
    torch.manual_seed(0)
    module, parameters = network
    model = victims.build(module, (32, 32, 3), CLASSES, parameters).eval()
    meet(model.to(memory_format=torch.channels_last), module, parameters)
    of = group(model, torch.rand(3, batch, 3, 32, 32), torch.randint(0, CLASSES, (3, batch)), known)
    unknowns = of.draw("normal", torch.Generator().manual_seed(1))
    (losses, exact), (same, found) = (
        Objective(of, terms(distance, weights, tv), engine=way).evaluate(torch.arange(3))(unknowns)
        for way in (None, frozen.FrozenDifference)
    )
    torch.testing.assert_close(same, losses, rtol=1e-4, atol=1e-6)
    assert list(found) == ["images"] if known else ["images", "labels"]
    for name, value in exact.items():
        for one, other in zip(value, found[name], strict=True):
            assert float((one - other).norm() / one.norm()) < 0.01
            assert float((one.sign() == other.sign()).double().mean()) > 0.99


@pytest.mark.parametrize(
    ("network", "distance", "batch", "weights", "tv", "known"),
    [
        (NORMALISED, "cosine", 1, WITHOUT_NORMS, 0.5, True),
        (("lenet-dlg", {}), "squares", 2, ones, 0.0, False),
        # Max-pools keep their choice, as ReLUs do.
        (("convnet", {"width": 8, "normalise": "cifar10"}), "squares", 3, ones, 0.0, True),
        # Convolutions that are unfolded.
        pytest.param(("resnet", {"depth": 18}), "cosine", 1, ones, 0.0, True, marks=pytest.mark.nightly),
    ],
)
def test_differences_are_near_the_exact_derivative(
    network: tuple[str, dict[str, Any]], distance: str, batch: int, weights: Any, tv: float, known: bool
) -> None:
    near(network, distance, batch, weights, tv, known)


@pytest.mark.parametrize("first", [4e-7, 4e-5, 4e-4])
def test_a_bad_first_step_is_mended(first: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "STEP", first)
    near(NORMALISED, "squares", 1, ones, 0.0, True)
