"""DLF's terms: weights of layers, the clip penalty and the prior that holds epochs together, by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d
from trial_networks import CLASSES, group, network, terms

from leakbench.attacks.matching.local_epochs import taken_for
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.depth_weights import depth_weights
from leakbench.attacks.matching.objectives.epochs_alike import FILTERS, SEED, SIDE, epochs_alike
from leakbench.attacks.matching.objectives.outside_box import outside_box
from leakbench.attacks.matching.trials import Group

SHAPE = (8, 8, 2)
LR, EPOCHS, SIZE, N = 0.1, 3, 2, 4


def trials(updates: Any = "reshuffled", kind: Any = "model") -> Group:
    """Return two trials of four samples, whose client took three epochs of two steps at a rate of 0.1."""
    torch.manual_seed(3)
    model = network("lenet_dlg", {}, SHAPE)
    images = torch.rand(2, N, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    of = group(model, images, torch.randint(0, CLASSES, (2, N)))
    local = {"lr": LR, "batch_size": SIZE, "epochs": EPOCHS}
    observation = replace(of.observation, kind=kind, local=local)
    taken = taken_for(observation, N, updates)
    assert of.labels is not None
    return replace(
        of,
        observation=observation,
        batch=N * taken.epochs,
        labels=of.labels.repeat(1, taken.epochs),
        steps=taken.steps,
        epochs=taken.epochs,
        stride=taken.stride,
    )


def drawn(of: Group) -> Tensor:
    return of.draw("normal", torch.Generator().manual_seed(4))["images"].double()


def rises(valued: Any, images: Tensor) -> None:
    """Compare a prior's derivative with differences of its value, trial by trial."""
    step = 1e-6 * torch.randn(images.shape, generator=torch.Generator().manual_seed(5), dtype=images.dtype)
    slope = valued(images)[1]
    apart = (valued(images + step)[0] - valued(images - step)[0]) / 2
    assert float(apart.abs().min()) > 0
    torch.testing.assert_close(apart, (slope * step).flatten(1).sum(1), rtol=1e-4, atol=1e-14)


@pytest.mark.parametrize(
    ("updates", "kind", "scale"),
    [
        # (w₀ − w)/η is the update over the rate: its square by 100, over six unknown mini-batches.
        ("reshuffled", "model", 100 / 6),
        # One set of images has two mini-batches.
        ("shuffled", "model", 100 / 2),
        ("epochs", "model", 100 / 2),
        # The mean gradient of six steps stands for a sum that is six times as large.
        ("one-batch", "model", 36 / 2),
        ("reshuffled", "gradient", 1.0),
    ],
)
def test_layers_count_less_and_less_and_updates_count_as_sums_of_gradients(
    updates: str, kind: str, scale: float
) -> None:
    of = trials(updates, kind)
    found = depth_weights(factor=3.0).of(of)(of.observed(torch.arange(2)))
    names = [name for name, _ in of.model.named_parameters()]
    assert list(found) == names
    layers = list(dict.fromkeys(name.split(".")[0] for name in names))
    assert len(layers) > 2
    for name, value in found.items():
        number = layers.index(name.split(".")[0])
        assert value.tolist() == pytest.approx([3 * scale * math.exp(-number)] * 2, rel=1e-12)


def test_the_distance_is_dlfs() -> None:
    """Σ ω |Δ|² of sums of gradients over the number of mini-batches, from the simulated update itself."""
    of, rows = trials(), torch.arange(2)
    images = drawn(of)
    losses, _ = Objective(of, [*terms("squares"), depth_weights(factor=2.0)]).evaluate(rows)(
        {"images": images}
    )
    mine = of.caused(of.to_pixels(images).requires_grad_(), of.labels, rows, {})  # type: ignore[arg-type]
    expected = torch.zeros(2, dtype=torch.float64)
    layers = list(dict.fromkeys(name.split(".")[0] for name in mine))
    for name, value in of.observed(rows).items():
        apart = (mine[name].detach() - value) / -LR
        expected += math.exp(-layers.index(name.split(".")[0])) * apart.square().flatten(1).sum(1)
    torch.testing.assert_close(losses, 2.0 * expected / (EPOCHS * 2), rtol=1e-9, atol=0)


def test_the_clip_penalty_is_the_squared_excess_of_an_image_on_average() -> None:
    of = trials()
    pixels = torch.full((2, of.batch, *of.pixels), 0.5, dtype=torch.float64)
    pixels[0, 0, 0, 0, 0], pixels[0, 3, 1, 2, 2] = -0.3, 1.2
    values, slope = outside_box(weight=1.0).of(of)((pixels - of.mean) / of.deviation)
    assert values.tolist() == pytest.approx([(0.09 + 0.04) / of.batch, 0])
    assert int(slope.count_nonzero()) == 2
    assert float(slope[0, 0, 0, 0, 0]) == pytest.approx(-2 * 0.3 * 0.3 / of.batch)
    rises(outside_box(weight=1.0).of(of), drawn(of))


@pytest.mark.parametrize("by", ["mean", "largest"])
@pytest.mark.parametrize("kind", ["pixels", "filters"])
def test_epochs_are_compared_pair_by_pair(kind: Any, by: Any) -> None:
    of = trials()
    images = drawn(of)
    values, _ = epochs_alike(weight=1.0, of=kind, by=by).of(of)(images)
    rng = torch.Generator().manual_seed(SEED)
    filters = torch.randn(FILTERS, 2, SIDE, SIDE, generator=rng).double() / (2 * SIDE * SIDE) ** 0.5
    for trial in range(2):
        seen = conv2d(images[trial], filters, padding=1) if kind == "filters" else images[trial]
        each = [seen[begin : begin + N] for begin in range(0, EPOCHS * N, N)]
        whole = [epoch.mean(0) if by == "mean" else epoch.max(0).values for epoch in each]
        pairs = [float((a - b).square().mean()) for a in whole for b in whole]
        assert float(values[trial]) == pytest.approx(sum(pairs) / EPOCHS**2, rel=1e-6)
    rises(epochs_alike(weight=1.0, of=kind, by=by).of(of), images)


def test_the_order_within_an_epoch_costs_nothing() -> None:
    of = trials()
    first = drawn(of)[:, :N]
    same = torch.cat([first, first[:, [2, 0, 3, 1]], first[:, [1, 0, 2, 3]]], 1)
    values, slope = epochs_alike(weight=1.0).of(of)(same)
    assert values.max() < 1e-30
    assert slope.abs().max() < 1e-15


def test_one_set_of_images_is_alike() -> None:
    values, slope = epochs_alike(weight=1.0).of(trials("shuffled"))(drawn(trials("shuffled")))
    assert not values.any()
    assert not slope.any()
