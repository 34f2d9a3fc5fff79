"""Trials in one batch against trials beside each other, in float64; test_engines has every victim.

What a GPU does with each layer's own gradients (`own_products`) is computed on the processor here.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, Weigh, group, met, ones, terms

from leakbench.attacks.matching.composition import Composition
from leakbench.attacks.matching.engines import own_gradient
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.engines.layers import RULES
from leakbench.attacks.matching.engines.layers.rule import Link, Rule
from leakbench.attacks.matching.engines.own_gradient import OwnGradient
from leakbench.attacks.matching.engines.own_products import OwnProducts
from leakbench.attacks.matching.engines.shared_weights import SharedWeights, fits
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import parameter_weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.processes.workers import Work

TRIALS = 3
# ResNet20-4 is the network of which bfloat16 is timed.
RESNET = ("resnet20_4", {"width": 4, "normalise": "cifar10"})
BY_LAYER = partial(
    parameter_weights, shape="linear", beta=50.0, relu=True, norms="following", order="parameters"
)


@pytest.fixture(params=[OwnGradient, OwnProducts], autouse=True)
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What takes the gradients of a layer's own parameters."""
    monkeypatch.setattr(SharedWeights, "own", request.param)
    return request.param


def trials(module: str, parameters: dict[str, Any], batch: int = 2) -> Group:
    model = met(module, parameters)
    torch.manual_seed(1)
    images = torch.rand(TRIALS, batch, 3, 32, 32, dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (TRIALS, batch)))


def agree(of: Group, distance: str = "cosine", weights: Weigh = ones) -> None:
    unknowns = of.draw("normal", torch.Generator().manual_seed(2))
    unknowns = {name: value.double() for name, value in unknowns.items()}
    (losses, exact), (same, found) = (
        Objective(of, terms(distance, weights, 0.0), engine=engine).evaluate(torch.arange(TRIALS))(unknowns)
        for engine in (None, SharedWeights)
    )
    torch.testing.assert_close(same, losses, rtol=1e-9, atol=1e-12)
    assert found.keys() == exact.keys()
    for name, value in exact.items():
        apart = (found[name] - value).norm() / value.norm()
        assert float(apart) < 1e-9, name


@pytest.mark.parametrize(("module", "distance"), [("lenet_dlg", "squares"), ("resnet20_4", "cosine")])
def test_gradients_larger_than_a_piece(
    module: str, distance: str, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own is OwnProducts:
        pytest.skip("it takes every gradient whole")
    monkeypatch.setattr(own_gradient, "PIECE", 40)
    agree(trials(module, {} if module == "lenet_dlg" else RESNET[1]), distance)


@pytest.mark.parametrize(
    ("distance", "weights", "batch"),
    [("squares", BY_LAYER, 1), ("squares", ones, 3), ("cosine", BY_LAYER, 3)],
)
def test_distances_weights_and_batches(distance: str, weights: Weigh, batch: int) -> None:
    agree(trials(*RESNET, batch), distance, weights)


def test_slopes_lie_in_memory_as_the_unknowns() -> None:
    """An optimiser goes through both in the order of memory."""
    of = trials(*RESNET)
    unknowns = {"images": of.draw("normal", torch.Generator())["images"].double()}
    _, found = Objective(of, terms("cosine", ones, 0.0), engine=SharedWeights).evaluate(torch.arange(TRIALS))(
        unknowns
    )
    assert found["images"].stride() == unknowns["images"].stride()


def test_bfloat16_takes_this_engine_where_it_can() -> None:
    of = trials(*RESNET)
    composed = Composition(terms("cosine", ones, 0.0), unknowns=None, optimiser=None, precision="bfloat16")
    assert composed.objective_of(of).engine is SharedWeights
    assert replace(composed, precision="float32").objective_of(of).engine is None


class Shift(nn.Module):
    """A registered layer that no product is known of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[:, None, None]


# It keeps four tensors, as a batch norm does.
SHIFT = Link(
    lambda layer, x, trials: (x + layer.weight.repeat(trials)[:, None, None], (x, x, x, x)),
    lambda layer, kept, read, slope: slope,
    lambda layer, kept, read, rate, own, trials: (
        (torch.zeros_like(kept[0]) if rate is None else rate)
        + (own["weight"].reshape(-1, 1, 1) if own else 0)
    ),
    lambda layer, kept, read, slope, moved, rate, own: (
        torch.zeros_like(kept[0]) if rate is None else 1 * rate
    ),
    lambda layer, kept, slope, trials: {"weight": slope.sum((0, 2, 3)).view(trials, -1)},
)


def test_a_layer_without_products_goes_trial_by_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, Shift, Rule(link=SHIFT))
    layers = nn.Conv2d(3, 4, 3), Shift(), nn.Sigmoid(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)
    model = nn.Sequential(*layers).double()
    assert fits(model, torch.Size([2, 3, 8, 8]))
    images = torch.rand(TRIALS, 2, 3, 8, 8, dtype=torch.float64)
    agree(group(model, images, torch.randint(0, CLASSES, (TRIALS, 2)), True))


def test_dilated_convolutions_lie_in_no_batch() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, dilation=2), nn.Flatten(), nn.Linear(4 * 16, CLASSES))
    assert not fits(model, torch.Size([2, 3, 8, 8]))


def test_a_gpu_takes_batches_in_place_of_differences() -> None:
    of = trials(*RESNET)
    on_gpu = replace(of, observation=replace(of.observation, work=Work(device="cuda:0")))
    composed = Composition(terms("cosine", ones, 0.0), unknowns=None, optimiser=None, derivative="frozen")
    assert composed.objective_of(of).engine is FrozenDifference
    assert composed.objective_of(on_gpu).engine is SharedWeights
    assert replace(composed, derivative="exact").objective_of(on_gpu).engine is None


def test_norms_of_the_batch_keep_trials_apart() -> None:
    """With statistics of its batch, a norm would mix the trials."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, CLASSES))
    shape = torch.Size([2, 3, 8, 8])
    assert fits(model.eval(), shape)
    norm = nn.BatchNorm2d(4, track_running_stats=False)
    own = nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.Flatten(), nn.Linear(144, CLASSES))
    assert not fits(own.eval(), shape)
