"""Engines that take whole derivatives are compared with plain autograd before an attack trusts them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, SHAPE, group, network, ones, terms

from leakbench.attacks.matching.composition import Composition
from leakbench.attacks.matching.engines import gradients
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.engines.layers import RULES
from leakbench.attacks.matching.engines.own_gradient import OwnGradient
from leakbench.attacks.matching.engines.shared_weights import SharedWeights
from leakbench.attacks.matching.trials import Group

RESNET = ("resnet20_4", {"width": 4, "normalise": "cifar10"})
FROZEN, BATCHED = {"derivative": "frozen"}, {"precision": "bfloat16"}


def trials() -> Group:
    images = torch.rand(2, 1, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return group(network(*RESNET), images, torch.zeros(2, 1, dtype=torch.int64))


def engine(of: Group, how: dict[str, Any]) -> Any:
    composed = Composition(terms("cosine", ones), unknowns=None, optimiser=None, **how)
    return composed.objective_of(of).engine


@pytest.mark.parametrize(("how", "expected"), [(FROZEN, FrozenDifference), (BATCHED, SharedWeights)])
def test_an_engine_that_agrees_is_used_and_draws_on_nobodys_chance(
    how: dict[str, Any], expected: type, capsys: pytest.CaptureFixture[str]
) -> None:
    of, before = trials(), torch.get_rng_state()
    assert engine(of, how) is expected
    assert torch.equal(torch.get_rng_state(), before)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "where"),
    [
        (FROZEN, (FrozenDifference, "one")),
        (BATCHED, (SharedWeights, "rates")),
        (BATCHED, (OwnGradient, "back")),
    ],
)
def test_an_engine_that_is_off_is_left_with_one_line(
    how: dict[str, Any],
    where: tuple[type, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = getattr(*where)

    def more(value: Any) -> Any:
        if isinstance(value, Tensor):
            return 1.1 * value
        if isinstance(value, dict):
            return {name: more(each) for name, each in value.items()}
        return (value[0], more(value[1])) if where[1] == "one" else (more(value[0]), value[1])

    monkeypatch.setattr(*where, lambda *given: more(right(*given)))
    of = trials()
    assert engine(of, how) is None
    assert engine(of, how) is None
    assert capsys.readouterr().err.count("exact derivatives without") == 1


def test_an_engine_that_is_off_only_without_zeros_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient passes a last layer of zeros, so an error in the layers before it does not show."""
    of, right, stir = trials(), SharedWeights.rates, gradients._stir
    moved: list[nn.Module] = []
    nn.init.zeros_(list(of.model.parameters())[-2])

    def stirred(model: nn.Module) -> None:
        moved.append(model)
        stir(model)

    def off(*given: Any) -> tuple[Tensor, Any]:
        rate, others = right(*given)
        return (1.1 if moved else 1) * rate, others

    monkeypatch.setattr(gradients, "_stir", stirred)
    monkeypatch.setattr(SharedWeights, "rates", off)
    assert engine(of, BATCHED) is None
    assert list(of.model.parameters())[-2].eq(0).all()


def test_the_derivative_of_the_loss_in_the_images_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences take it back through the first layer, which gradients alone do not."""
    known = RULES[nn.Conv2d]
    assert known.link
    right = known.link.backward

    def off(layer: nn.Conv2d, kept: Any, read: torch.Size, slope: Tensor) -> Tensor:
        return right(layer, kept, read, slope) * (1.1 if layer.in_channels == SHAPE[1] else 1)

    monkeypatch.setitem(RULES, nn.Conv2d, known._replace(link=known.link._replace(backward=off)))
    assert not engines_fit(network("lenet_dlg", {}), SHAPE)


@pytest.mark.parametrize("layer", [nn.Conv2d, nn.Linear])
def test_the_two_factors_of_a_weight_gradient_are_compared_too(
    layer: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = RULES[layer]
    assert known.operands
    right = known.operands

    def off(*given: Any) -> tuple[Tensor, Tensor]:
        x, slope = right(*given)
        return 1.1 * x, slope

    monkeypatch.setitem(RULES, layer, known._replace(operands=off))
    assert not engines_fit(network("lenet_dlg", {}), SHAPE)


def test_norms_of_the_batch_are_compared_trial_by_trial() -> None:
    torch.manual_seed(0)
    norms = (nn.BatchNorm2d(3, track_running_stats=False) for _ in range(10))
    blocks = (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), norm, nn.ReLU()) for norm in norms)
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(3 * 64, CLASSES)).double().eval()
    of = group(model, torch.rand(2, 2, 3, 8, 8, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.int64))
    assert engine(of, FROZEN) is FrozenDifference


@torch.no_grad()
def test_a_network_is_met_where_nothing_else_is_differentiated() -> None:
    model = network("lenet_dlg", {}).requires_grad_(False)
    assert engines_fit(model, torch.Size([1, 3, 32, 32]))


class Twice(nn.Module):
    """A network whose forward pass uses the weights of a layer outside the layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3072, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.convolution(x))
        x = torch.tanh(nn.functional.conv2d(x, self.convolution.weight, padding=1))
        return self.head(x.flatten(1))


def test_a_last_layer_of_zeros_does_not_hide_that_an_engine_is_wrong() -> None:
    """All other gradients are zero then, until a step of the client has moved the last layer."""
    torch.manual_seed(0)
    model = Twice().double()
    nn.init.zeros_(model.head.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not engines_fit(model, SHAPE)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_last_layer_of_zeros_does_no_harm() -> None:
    model = network("lenet_dlg", {})
    nn.init.zeros_(list(model.parameters())[-2])
    assert engines_fit(model, SHAPE)
