"""Priors and penalties: their values by hand, their derivatives, and where they cannot be."""

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, everything, first_images, group, network, terms, trials_of_two

from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.batch_norm_statistics import batch_norm_statistics
from leakbench.attacks.matching.objectives.layer_weights import layer_weights
from leakbench.attacks.matching.objectives.partial_gradient import chosen, partial_gradient
from leakbench.attacks.matching.objectives.slope_penalty import flatter, slope_penalty
from leakbench.attacks.matching.objectives.total_variation import variation
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit


def quadratic(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """½ (x² + 4 y²) of each trial, whose images are one pixel x and whose labels are one number y."""
    x, y = unknowns["images"], unknowns["labels"]
    return (x.square() + 4 * y.square()).flatten(1).sum(1) / 2, {"images": x, "labels": 4 * y}


def test_on_a_quadratic_form_it_is_the_hessian_times_the_direction() -> None:
    """Slope (3, 4), its length 5, Hessian diag(1, 4): the penalty's gradient is (3, 16) / 5, at any reach."""
    at = {"images": torch.tensor([[3.0]]), "labels": torch.tensor([[1.0]])}
    for reach in (0.5, 2.0):
        losses, slopes = flatter(quadratic, 0.1, reach)(at)
        assert float(losses) == pytest.approx((9 + 4) / 2 + 0.1 * 5)
        assert float(slopes["images"]) == pytest.approx(3 + 0.1 * 3 / 5, rel=1e-5)
        assert float(slopes["labels"]) == pytest.approx(4 + 0.1 * 16 / 5, rel=1e-5)


def test_trials_do_not_mix() -> None:
    at = {"images": torch.tensor([[3.0], [0.0]]), "labels": torch.tensor([[1.0], [-2.0]])}
    losses, slopes = flatter(quadratic, 0.1, 1.0)(at)
    one, own = flatter(quadratic, 0.1, 1.0)({name: value[1:] for name, value in at.items()})
    torch.testing.assert_close(losses[1:], one)
    torch.testing.assert_close(slopes["labels"][1:], own["labels"])


def test_where_there_is_no_slope_nothing_moves() -> None:
    losses, slopes = flatter(quadratic, 0.1, 1.0)({"images": torch.zeros(1, 1), "labels": torch.zeros(1, 1)})
    assert float(losses) == float(slopes["images"]) == float(slopes["labels"]) == 0


def test_its_gradient_is_that_of_its_value() -> None:
    of, rows = trials_of_two(), torch.arange(2)
    evaluate = Objective(of, [*terms("cosine"), slope_penalty(weight=0.3, reach=1e-5)]).evaluate(rows)
    images = first_images(of)
    step = 1e-5 * torch.randn(images.shape, generator=torch.Generator().manual_seed(5), dtype=images.dtype)
    slope = evaluate({"images": images})[1]["images"]
    ahead, behind = (evaluate({"images": images + sign * step})[0] for sign in (1, -1))
    torch.testing.assert_close((ahead - behind) / 2, (slope * step).flatten(1).sum(1), rtol=1e-3, atol=1e-12)


def test_priors_are_not_penalised() -> None:
    of, rows = trials_of_two(), torch.arange(2)
    unknowns = {"images": first_images(of)}
    penalty = slope_penalty(weight=0.3, reach=1.0)
    bare, with_prior = (
        Objective(of, [*terms("cosine", tv=tv), penalty]).evaluate(rows)(unknowns) for tv in (0.0, 2.0)
    )
    value, slope = variation(unknowns["images"])
    torch.testing.assert_close(with_prior[0], bare[0] + 2 * value)
    torch.testing.assert_close(with_prior[1]["images"], bare[1]["images"] + 2 * slope)


def test_frozen_differences_are_penalised_too() -> None:
    of, rows = trials_of_two(), torch.arange(2)
    unknowns = {"images": first_images(of)}
    both = [*terms("cosine"), slope_penalty(weight=0.3, reach=0.1)]
    exact, frozen = (Objective(of, both, each).evaluate(rows)(unknowns) for each in (None, FrozenDifference))
    torch.testing.assert_close(frozen[0], exact[0], rtol=0.02, atol=1e-6)


def test_candidates_without_gradients_are_refused() -> None:
    with pytest.raises(Unfit, match="cma-es"):
        Objective(trials_of_two(), [*terms("squares"), slope_penalty(weight=0.1, reach=1.0)]).losses(
            torch.arange(2)
        )


def test_the_largest_are_chosen_by_size_and_not_by_sign() -> None:
    seen = torch.tensor([[[1.0, -5.0], [3.0, 0.0]], [[0.0, 0.0], [-2.0, 1.0]]])
    assert chosen(seen, 0.5, "largest").tolist() == [[[0, 1], [1, 0]], [[0, 0], [1, 1]]]


@pytest.mark.parametrize(("share", "count"), [(0.001, 1), (0.25, 2), (0.3, 2), (1.0, 8)])
@pytest.mark.parametrize("choice", ["largest", "random"])
def test_of_each_parameter_a_share_counts_and_at_least_one(share: float, count: int, choice: str) -> None:
    """Also of a parameter whose gradient is zero throughout."""
    for seen in (torch.randn(3, 2, 4), torch.zeros(3, 2, 4)):
        assert chosen(seen, share, choice).flatten(1).sum(1).tolist() == [count] * 3  # type: ignore[arg-type]


def test_the_lot_is_blind_and_always_the_same() -> None:
    a, b = (chosen(torch.randn(2, 1000), 0.1, "random") for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(a[0], a[1])


@pytest.mark.parametrize("name", ["squares", "cosine"])
def test_the_distance_is_that_of_the_chosen_entries(name: str) -> None:
    of, share = trials_of_two(), 0.2
    images = first_images(of)
    found = of.caused(of.to_pixels(images).requires_grad_(), of.labels, torch.arange(2), {})  # type: ignore[arg-type]
    losses, _ = Objective(of, [*terms(name), partial_gradient(share=share)]).evaluate(torch.arange(2))(
        {"images": images}
    )
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


@pytest.mark.parametrize("name", ["squares", "cosine", "wasserstein"])
def test_the_derivative_is_that_of_the_value(name: str) -> None:
    of, rows = trials_of_two(), torch.arange(2)
    evaluate = Objective(of, [*terms(name), partial_gradient(share=0.2)]).evaluate(rows)
    images = first_images(of)
    step = 1e-5 * torch.randn(images.shape, generator=torch.Generator().manual_seed(5), dtype=images.dtype)
    slope = evaluate({"images": images})[1]["images"]
    ahead, behind = (evaluate({"images": images + sign * step})[0] for sign in (1, -1))
    torch.testing.assert_close((ahead - behind) / 2, (slope * step).flatten(1).sum(1), rtol=1e-4, atol=1e-12)


def test_all_entries_are_the_whole_distance() -> None:
    of, rows = trials_of_two(), torch.arange(2)
    unknowns = {"images": first_images(of)}
    plain, all_of_it = (
        Objective(of, [*terms("cosine"), *more]).evaluate(rows)(unknowns)[0]
        for more in ([], [partial_gradient(share=1.0)])
    )
    assert torch.equal(plain, all_of_it)


def test_weights_of_layers_read_the_whole_gradient() -> None:
    """AGIC's share of zeros is of the gradient that was observed, and not of what is left of it."""
    of, rows = trials_of_two(), torch.arange(2)
    seen: list[Tensor] = []
    weigh = layer_weights(shape="one", relu=True)
    plain = weigh.of(of)(everything(of))

    def noted(observed: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append(next(iter(observed.values())))
        return weigh.of(of)(observed)

    both = [*terms("squares", lambda _, observed: noted(observed)), partial_gradient(share=0.01)]
    Objective(of, both).evaluate(rows)
    torch.testing.assert_close(seen[0], next(iter(everything(of).values())))
    assert plain


def test_two_choices_do_not_go_together() -> None:
    with pytest.raises(Unfit, match="a choice of entries"):
        Objective(
            trials_of_two(), [*terms("squares"), partial_gradient(share=0.1), partial_gradient(share=0.2)]
        )


def test_a_share_of_candidates_without_gradients_is_refused() -> None:
    with pytest.raises(Unfit, match="cma-es"):
        Objective(trials_of_two(), [*terms("squares"), partial_gradient(share=0.1)]).losses(torch.arange(2))


SHAPE = (16, 16, 3)


def trials(statistics: str = "running", batch: int = 2) -> Group:
    torch.manual_seed(3)
    model = network("lenet_dlg", {"norm": "batch", "statistics": statistics}, SHAPE)
    images = torch.rand(3, batch, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (3, batch)))


def drawn(of: Group) -> torch.Tensor:
    return of.draw("normal", torch.Generator().manual_seed(4))["images"].double()


def is_the_distance(sign: float = 1.0) -> None:
    """Assert that the prior, times `sign`, is the distance of means and variances."""
    of, prior = trials(), batch_norm_statistics(weight=1.0)
    images = drawn(of)
    values = sign * prior.of(of)(images)[0]
    for trial, value in enumerate(values):
        x, expected = of.to_pixels(images[trial]), 0.0
        for layer in of.model.children():
            if isinstance(layer, nn.BatchNorm2d):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
                expected += float((mean - layer.running_mean).norm() + (variance - layer.running_var).norm())
            x = layer(x)
        assert float(value) == pytest.approx(expected, rel=1e-9)


def test_the_value_is_the_distance_of_means_and_variances_trial_by_trial() -> None:
    is_the_distance()
    # Guards the line above.
    with pytest.raises(AssertionError):
        is_the_distance(-1.0)


def test_the_derivative_passes_gradcheck() -> None:
    valued = batch_norm_statistics(weight=1.0).of(trials())
    images, step = drawn(trials()), torch.randn(3, 2, 3, 16, 16, dtype=torch.float64) * 1e-6
    _, slope = valued(images)
    apart = (valued(images + step)[0] - valued(images - step)[0]) / 2
    torch.testing.assert_close(apart, (slope * step).flatten(1).sum(1), rtol=1e-4, atol=1e-12)


def test_it_is_added_with_its_weight() -> None:
    of = trials()
    unknowns, rows = {"images": drawn(of)}, torch.arange(3)
    plain, slopes = Objective(of, terms("cosine")).evaluate(rows)(unknowns)
    both, more = Objective(of, [*terms("cosine"), batch_norm_statistics(weight=0.5)]).evaluate(rows)(unknowns)
    value, slope = batch_norm_statistics(weight=0.5).of(of)(unknowns["images"])
    torch.testing.assert_close(both, plain + 0.5 * value)
    torch.testing.assert_close(more["images"], slopes["images"] + 0.5 * slope)


def test_a_network_without_running_statistics_is_refused() -> None:
    with pytest.raises(Unfit, match="needs a network that sends running statistics") as problem:
        batch_norm_statistics(weight=0.5).of(trials("batch"))
    assert "\n" not in str(problem.value)


def test_true_images_of_a_trained_networks_kind_are_likelier_than_noise() -> None:
    """Statistics that were taken from the images themselves: nothing is nearer."""
    of = trials(batch=4)
    true = torch.rand(1, 4, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    for layer in of.model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
            layer.train()
    with torch.no_grad():
        for _ in range(3):
            of.model(true[0])
    of.model.eval()
    valued = batch_norm_statistics(weight=1.0).of(of)
    own, noise = (
        float(valued((images - of.mean) / of.deviation)[0]) for images in (true, torch.rand_like(true) ** 3)
    )
    assert own < 0.05 * noise
