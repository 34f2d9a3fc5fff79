"""The terms of an objective: their values by hand, what they refuse, and the slope of each by differences."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from trial_networks import (
    CLASSES,
    everything,
    first_images,
    follows,
    group,
    network,
    ones,
    terms,
    trials_of_two,
)

from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.local_epochs import taken_for
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.batch_norm_statistics import batch_norm_statistics
from leakbench.attacks.matching.objectives.depth_weights import depth_weights
from leakbench.attacks.matching.objectives.epochs_alike import FILTERS, SEED, SIDE, epochs_alike
from leakbench.attacks.matching.objectives.layer_weights import layer_weights
from leakbench.attacks.matching.objectives.outside_box import outside_box
from leakbench.attacks.matching.objectives.partial_gradient import chosen, partial_gradient
from leakbench.attacks.matching.objectives.slope_penalty import flatter, slope_penalty
from leakbench.attacks.matching.objectives.total_variation import total_variation, variation
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit

ROWS = torch.arange(2)
LR, EPOCHS, SIZE, N = 0.1, 3, 2, 4


def normed(statistics: str = "running", batch: int = 2) -> Group:
    """Return two trials on a LeNet with batch norms."""
    torch.manual_seed(3)
    model = network("lenet_dlg", {"norm": "batch", "statistics": statistics}, (16, 16, 3))
    images = torch.rand(2, batch, 3, 16, 16, dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (2, batch)))


def epochs(updates: Any = "reshuffled", kind: Any = "model") -> Group:
    """Return two trials of four samples, whose client took three epochs of two steps at a rate of 0.1."""
    of = trials_of_two(N)
    local = {"lr": LR, "batch_size": SIZE, "epochs": EPOCHS}
    observation = replace(of.observation, kind=kind, local=local)
    taken = taken_for(observation, N, updates)
    own = {"steps": taken.steps, "epochs": taken.epochs, "stride": taken.stride}
    labels = of.labels.repeat(1, taken.epochs)
    return replace(of, observation=observation, batch=N * taken.epochs, labels=labels, **own)


def simulated() -> Group:
    return replace(trials_of_two(lr=0.1), steps=[slice(0, 1), slice(1, 2), slice(0, 1)])


def uneven(model: nn.Module, observed: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: 0.5 + place / 3 + ones(model, observed)[name] for place, name in enumerate(observed)}


def with_prior(prior: Any, distance: str = "cosine") -> list[Any]:
    return [*terms(distance), prior]


# Trials, and the terms of their objective.
SLOPES: dict[str, tuple[Callable[[], Group], list[Any]]] = {
    "squares": (trials_of_two, terms("squares", uneven, 0.01)),
    "cosine": (trials_of_two, terms("cosine", uneven, 0.01)),
    "labels of squares": (lambda: trials_of_two(known=False), terms("squares", uneven)),
    "labels of cosine": (lambda: trials_of_two(known=False), terms("cosine", uneven)),
    "simulated steps": (simulated, terms("cosine", ones)),
    "squared variation": (trials_of_two, with_prior(total_variation(weight=0.3, squared=True))),
    "batch norm": (normed, with_prior(batch_norm_statistics(weight=0.5))),
    "clip": (trials_of_two, with_prior(outside_box(weight=0.3))),
    "epochs by mean pixels": (epochs, with_prior(epochs_alike(weight=0.3, of="pixels", by="mean"))),
    "epochs by largest pixels": (epochs, with_prior(epochs_alike(weight=0.3, of="pixels", by="largest"))),
    "epochs by mean filters": (epochs, with_prior(epochs_alike(weight=0.3, of="filters", by="mean"))),
    "epochs by largest filters": (epochs, with_prior(epochs_alike(weight=0.3, of="filters", by="largest"))),
    "depth": (epochs, with_prior(depth_weights(factor=2.0), "squares")),
    "slope penalty": (trials_of_two, with_prior(slope_penalty(weight=0.3, reach=1e-5))),
    **{
        f"part of {name}": (trials_of_two, with_prior(partial_gradient(share=0.2), name))
        for name in ("squares", "cosine", "wasserstein")
    },
}


@pytest.mark.parametrize("case", SLOPES)
def test_the_slope_is_that_of_the_value(case: str) -> None:
    make, objective = SLOPES[case]
    of = make()
    unknowns = {n: v.double() for n, v in of.draw("normal", torch.Generator().manual_seed(4)).items()}
    assert set(unknowns) == ({"images"} if of.labels is not None else {"images", "labels"})
    # A slope penalty is itself a difference.
    tolerance = 1e-3 if case == "slope penalty" else 1e-4
    follows(Objective(of, objective).evaluate(ROWS), unknowns, tolerance)


@pytest.mark.parametrize(
    ("make", "prior"),
    [(trials_of_two, total_variation(weight=0.25)), (normed, batch_norm_statistics(weight=0.25)),
     (trials_of_two, outside_box(weight=0.25)), (epochs, epochs_alike(weight=0.25))],
)  # fmt: skip
def test_a_prior_is_added_with_its_weight_and_is_no_part_of_a_slope_penalty(make: Any, prior: Any) -> None:
    of = make()
    images = first_images(of)
    value, slope = prior.of(of)(images)
    for bare in (terms("squares"), with_prior(slope_penalty(weight=0.3, reach=1.0))):
        (plain, slopes), (both, more) = (
            Objective(of, each).evaluate(ROWS)({"images": images}) for each in (bare, [*bare, prior])
        )
        torch.testing.assert_close(both, plain + 0.25 * value)
        torch.testing.assert_close(more["images"], slopes["images"] + 0.25 * slope)


def losses(of: Group, *more: Any) -> object:
    return Objective(of, [*terms("squares"), *more]).losses(ROWS)


# What makes an objective, or asks it for losses without gradients → what is said.
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "candidates and a slope penalty": (
        lambda: losses(trials_of_two(), slope_penalty(weight=0.1, reach=1.0)), "cma-es",
    ),
    "candidates and a part of the gradient": (
        lambda: losses(trials_of_two(), partial_gradient(share=0.1)), "cma-es",
    ),
    "candidates and wasserstein": (lambda: losses(trials_of_two(), *terms("wasserstein")[:1]), "cma-es"),
    "candidates and steps": (lambda: losses(simulated()), "cma-es takes"),
    "two choices": (
        lambda: Objective(
            trials_of_two(), [*terms("squares"), partial_gradient(share=0.1), partial_gradient(share=0.2)]
        ),
        "a choice of entries",
    ),
    "no running statistics": (
        lambda: batch_norm_statistics(weight=0.5).of(normed("batch")),
        "needs a network that sends running statistics",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused_in_one_line(case: str) -> None:
    call, says = REFUSED[case]
    with pytest.raises(Unfit, match=says):
        call()


def quadratic(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """½ (x² + 4 y²) of each trial, whose images are one pixel x and whose labels are one number y."""
    x, y = unknowns["images"], unknowns["labels"]
    return (x.square() + 4 * y.square()).flatten(1).sum(1) / 2, {"images": x, "labels": 4 * y}


@pytest.mark.parametrize("reach", [0.5, 2.0])
def test_on_a_quadratic_form_the_penalty_is_the_hessian_times_the_direction(reach: float) -> None:
    """Slope (3, 4), Hessian diag(1, 4): the gradient is (3, 16) / 5; without a slope nothing moves."""
    at = {"images": torch.tensor([[3.0], [0.0]]), "labels": torch.tensor([[1.0], [0.0]])}
    losses, slopes = flatter(quadratic, 0.1, reach)(at)
    assert losses.tolist() == pytest.approx([(9 + 4) / 2 + 0.1 * 5, 0])
    assert slopes["images"].flatten().tolist() == pytest.approx([3 + 0.1 * 3 / 5, 0], rel=1e-5)
    assert slopes["labels"].flatten().tolist() == pytest.approx([4 + 0.1 * 16 / 5, 0], rel=1e-5)


def test_frozen_differences_are_penalised_too() -> None:
    of = trials_of_two()
    both = with_prior(slope_penalty(weight=0.3, reach=0.1))
    exact, frozen = (
        Objective(of, both, engine).evaluate(ROWS)({"images": first_images(of)})
        for engine in (None, FrozenDifference)
    )
    torch.testing.assert_close(frozen[0], exact[0], rtol=0.02, atol=1e-6)


@pytest.mark.parametrize(("share", "count"), [(0.001, 1), (0.25, 2), (0.3, 2), (1.0, 8)])
@pytest.mark.parametrize("choice", ["largest", "random"])
def test_of_each_parameter_a_share_counts_and_at_least_one(share: float, count: int, choice: Any) -> None:
    """Also of a parameter whose gradient is zero throughout."""
    for seen in (torch.randn(3, 2, 4), torch.zeros(3, 2, 4)):
        assert chosen(seen, share, choice).flatten(1).sum(1).tolist() == [count] * 3


def test_the_largest_are_chosen_by_size_and_not_by_sign_and_the_lot_is_blind_and_always_the_same() -> None:
    seen = torch.tensor([[[1.0, -5.0], [3.0, 0.0]], [[0.0, 0.0], [-2.0, 1.0]]])
    assert chosen(seen, 0.5, "largest").tolist() == [[[0, 1], [1, 0]], [[0, 0], [1, 1]]]
    a, b = (chosen(torch.randn(2, 1000), 0.1, "random") for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(a[0], a[1])


@pytest.mark.parametrize("name", ["squares", "cosine"])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_the_distance_is_that_of_the_chosen_entries(name: str, share: float) -> None:
    of = trials_of_two()
    images = first_images(of)
    found = of.caused(of.to_pixels(images).requires_grad_(), of.labels, ROWS, {})
    objective = Objective(of, with_prior(partial_gradient(share=share), name))
    losses, _ = objective.evaluate(ROWS)({"images": images})
    for trial in range(2):
        mine, theirs = [], []
        for parameter, observed in everything(of).items():
            seen = observed[trial].flatten()
            top = seen.abs().argsort(descending=True)[: max(1, round(share * len(seen)))]
            mine.append(found[parameter][trial].detach().flatten()[top])
            theirs.append(seen[top])
        g, o = torch.cat(mine), torch.cat(theirs)
        expected = (g - o).square().sum() if name == "squares" else 1 - g @ o / (g.norm() * o.norm())
        torch.testing.assert_close(losses[trial], expected, rtol=1e-9, atol=1e-12)


def test_weights_of_layers_read_the_whole_gradient() -> None:
    """AGIC's share of zeros is of the gradient that was observed, and not of what is left of it."""
    of = trials_of_two()
    seen: list[Tensor] = []

    def noted(_: nn.Module, observed: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append(next(iter(observed.values())))
        return layer_weights(shape="one", relu=True).of(of)(observed)

    Objective(of, [*terms("squares", noted), partial_gradient(share=0.01)]).evaluate(ROWS)
    torch.testing.assert_close(seen[0], next(iter(everything(of).values())))


def test_batch_norms_prior_is_the_distance_of_means_and_variances_trial_by_trial() -> None:
    of = normed()
    images = first_images(of)
    for trial, value in enumerate(batch_norm_statistics(weight=1.0).of(of)(images)[0]):
        x, expected = of.to_pixels(images[trial]), 0.0
        for layer in of.model.children():
            if isinstance(layer, nn.BatchNorm2d):
                mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
                expected += float((mean - layer.running_mean).norm() + (variance - layer.running_var).norm())
            x = layer(x)
        assert float(value) == pytest.approx(expected, rel=1e-9)


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
def test_layers_count_less_and_updates_as_sums_of_gradients(updates: str, kind: str, scale: float) -> None:
    of = epochs(updates, kind)
    found = depth_weights(factor=3.0).of(of)(of.observed(ROWS))
    names = [name for name, _ in of.model.named_parameters()]
    assert list(found) == names
    layers = list(dict.fromkeys(name.split(".")[0] for name in names))
    assert len(layers) > 2
    for name, value in found.items():
        number = layers.index(name.split(".")[0])
        assert value.tolist() == pytest.approx([3 * scale * math.exp(-number)] * 2, rel=1e-12)


def test_the_clip_penalty_is_the_squared_excess_of_an_image_on_average() -> None:
    of = epochs()
    pixels = torch.full((2, of.batch, *of.pixels), 0.5, dtype=torch.float64)
    pixels[0, 0, 0, 0, 0], pixels[0, 3, 1, 2, 2] = -0.3, 1.2
    values, slope = outside_box(weight=1.0).of(of)((pixels - of.mean) / of.deviation)
    assert values.tolist() == pytest.approx([(0.09 + 0.04) / of.batch, 0])
    assert int(slope.count_nonzero()) == 2
    assert float(slope[0, 0, 0, 0, 0]) == pytest.approx(-2 * 0.3 * 0.3 / of.batch)


@pytest.mark.parametrize(("kind", "by"), [("pixels", "mean"), ("pixels", "largest"), ("filters", "largest")])
def test_epochs_are_compared_pair_by_pair_whatever_the_order_within_them(kind: Any, by: Any) -> None:
    of = epochs()
    images, prior = first_images(of), epochs_alike(weight=1.0, of=kind, by=by)
    values, _ = prior.of(of)(images)
    rng = torch.Generator().manual_seed(SEED)
    filters = torch.randn(FILTERS, 2, SIDE, SIDE, generator=rng).double() / (2 * SIDE * SIDE) ** 0.5
    for trial in range(2):
        seen = conv2d(images[trial], filters, padding=1) if kind == "filters" else images[trial]
        each = [seen[begin : begin + N] for begin in range(0, EPOCHS * N, N)]
        whole = [epoch.mean(0) if by == "mean" else epoch.max(0).values for epoch in each]
        pairs = [float((a - b).square().mean()) for a in whole for b in whole]
        assert float(values[trial]) == pytest.approx(sum(pairs) / EPOCHS**2, rel=1e-6)
    first = images[:, :N]
    same = torch.cat([first, first[:, [2, 0, 3, 1]], first[:, [1, 0, 2, 3]]], 1)
    for trials, own in ((of, same), (epochs("shuffled"), first)):
        assert prior.of(trials)(own)[0].max() < 1e-30


def test_total_variation_is_the_mean_change_from_pixel_to_pixel() -> None:
    """Squared it is GRNN's code's: sums over a batch, divided by one image's count and by the batch."""
    images = torch.rand(2, 3, 2, 4, 5, dtype=torch.float64)
    down, across = images.diff(dim=-2), images.diff(dim=-1)
    means = [each.abs().flatten(1).mean(1) for each in (down, across)]
    torch.testing.assert_close(variation(images)[0], means[0] + means[1], rtol=1e-12, atol=0)
    squares = [each.square().flatten(1).sum(1) for each in (down, across)]
    expected = 2 * (squares[0] / (2 * 3 * 5) + squares[1] / (2 * 4 * 4)) / 3
    torch.testing.assert_close(variation(images, squared=True)[0], expected, rtol=1e-12, atol=0)
    for squared in (False, True):
        nothing, still = variation(torch.full((2, 1, 3, 4, 4), 0.7), squared)
        assert not nothing.any()
        assert not still.any()
