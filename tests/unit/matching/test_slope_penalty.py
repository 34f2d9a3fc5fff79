"""The penalty on the slope: by hand on a quadratic form, and on a network against finite differences."""

import pytest
import torch
from torch import Tensor
from trial_networks import first_images, terms, trials_of_two

from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.slope_penalty import flatter, slope_penalty
from leakbench.attacks.matching.objectives.total_variation import variation
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
