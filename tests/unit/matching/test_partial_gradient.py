"""Partial gradient matching: which entries are chosen, and that the others count nothing."""

import pytest
import torch
from torch import Tensor
from trial_networks import everything, first_images, terms, trials_of_two

from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.layer_weights import layer_weights
from leakbench.attacks.matching.objectives.partial_gradient import chosen, partial_gradient
from leakbench.base.errors import Unfit


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


def test_candidates_without_gradients_are_refused() -> None:
    with pytest.raises(Unfit, match="cma-es"):
        Objective(trials_of_two(), [*terms("squares"), partial_gradient(share=0.1)]).losses(torch.arange(2))
