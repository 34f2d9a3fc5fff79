"""The fit of an inverter: assignment by hand, the epoch that a third split chooses, resuming."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from deaths import Death
from torch import Tensor

from leakbench.attacks import inverter
from leakbench.attacks.inverter import Fitting, Inverter, Pairs, assigned, error, fitted


def pairs(count: int, seed: int, noise: float = 0.0) -> Pairs:
    """Updates that are images [count, 1, 4] through a fixed mixture, with fresh noise each time."""
    images = torch.rand(count, 1, 4, generator=torch.Generator().manual_seed(seed))
    mixture = torch.randn(4, 12, generator=torch.Generator().manual_seed(99))

    def updates(rows: Tensor, drawn: torch.Generator) -> Tensor:
        return images[rows, 0] @ mixture + noise * torch.randn(len(rows), 12, generator=drawn)

    return Pairs(images, updates)


def test_images_are_assigned_as_the_best_of_all_orders_does() -> None:
    made, wanted = torch.rand(2, 20, 3, 5, generator=torch.Generator().manual_seed(0))
    for one, truth, given in zip(made, wanted, assigned(made, wanted), strict=True):
        orders = [truth[list(order)] for order in itertools.permutations(range(3))]
        assert torch.equal(given, min(orders, key=lambda order: float((one - order).square().sum())))
    assert torch.equal(assigned(made[:, :1], wanted[:, :1]), wanted[:, :1])


@pytest.mark.parametrize(
    ("made", "images", "expected"),
    [
        ([[[0.9, 1.0], [0.0, 0.2]]], [[[0.0, 0.0], [1.0, 1.0]]], (0.01 + 0.04) / 4),
        # More updates than are taken at once.
        ([[[0.0, 0.0]]] * 300, [*[[[0.0, 0.0]]] * 299, [[1.0, 1.0]]], 1 / 300),
    ],
)
def test_the_error_is_the_mean_over_pixels_in_the_best_order(made: Any, images: Any, expected: float) -> None:
    parts: Any = iter(torch.tensor(made).split(256))
    assert error(lambda _: next(parts), torch.zeros(len(made), 3), torch.tensor(images)) == pytest.approx(
        expected
    )


def test_before_any_step_it_makes_about_the_mean_image_whatever_never_varies() -> None:
    images = torch.rand(200, 2, 6)
    torch.manual_seed(0)
    updates = torch.randn(200, 5)
    updates[:, 1] = 7.0
    network = Inverter(updates, images, 30)
    made = network(updates[:50] + torch.tensor([0.0, 0.01, 0.0, 0.0, 0.0]))
    assert made.shape == (50, 2, 6)
    assert (made.mean(0) - images.mean((0, 1))).abs().max() < 0.15
    assert Inverter(torch.zeros(5, 3), torch.rand(5, 1, 4), 8)(torch.zeros(5, 3)).isfinite().all()


def test_it_learns_to_invert_and_beats_the_mean_image_on_other_samples() -> None:
    own, held, other = pairs(500, 1), pairs(100, 2), pairs(200, 3)
    found, errors = fitted(own, held, Fitting(64, 20, 1e-2, 32), 0)
    mean = float((other.images - own.images.mean(0)).square().mean())
    assert error(found, other.updates(torch.arange(200), torch.Generator()), other.images) < 0.1 * mean
    assert errors[-1] < errors[0] / 3


def test_the_third_split_chooses_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few noisy pairs are soon learnt by heart: the last epochs are worse on others, and are not taken."""
    own, held = pairs(20, 1, noise=3.0), pairs(200, 2, noise=3.0)
    drawn = own.updates(torch.arange(20), torch.Generator())
    own = Pairs(own.images, lambda rows, rng: drawn[rows])
    states: list[dict[str, Tensor]] = []
    judge = inverter.error
    monkeypatch.setattr(
        inverter, "error", lambda *a: (states.append(copy.deepcopy(a[0].state_dict())), judge(*a))[1]
    )
    found, errors = fitted(own, held, Fitting(64, 60, 1e-2, 5), 0)
    best = min(range(60), key=errors.__getitem__)
    assert best < 40
    assert errors[best] < 0.9 * errors[-1]
    assert all(torch.equal(value, states[best][name]) for name, value in found.state_dict().items())


def test_an_error_that_is_no_number_is_never_the_best_and_the_rate_falls_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, rates, step = iter([0.5, 0.2, float("nan"), 0.3]), list[float](), torch.optim.Adam.step
    monkeypatch.setattr(inverter, "error", lambda *_: next(given))
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda *a: (rates.append(a[0].param_groups[0]["lr"]), step(*a))[1]
    )
    _, errors = fitted(pairs(8, 1), pairs(4, 2), Fitting(4, 4, 1e-2, 8), 0)
    assert errors == [0.5, 0.2, 1.0, 0.3]
    assert rates == pytest.approx([1e-2] * 3 + [1e-3])


def test_a_killed_fit_goes_on_to_the_same_inverter(tmp_path: Path, death: Death) -> None:
    own, held, fitting = pairs(40, 1, noise=0.5), pairs(20, 2), Fitting(8, 7, 1e-2, 8)
    whole, errors = fitted(own, held, fitting, 3)
    file = tmp_path / "new" / "fit.safetensors"
    with death.meets(1, 4):
        fitted(own, held, fitting, 3, scratch=file)
    assert file.is_file()
    # Of the second run, and of a third that has nothing left to do.
    for _ in range(2):
        again, same = fitted(own, held, fitting, 3, scratch=file)
        assert same == errors
        assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())


def test_the_seed_decides_everything_and_torch_s_own_chance_nothing() -> None:
    own, held, fitting = pairs(20, 1, noise=0.5), pairs(10, 2), Fitting(4, 2, 1e-2, 8)
    found = []
    for chance, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(chance)
        before = torch.get_rng_state()
        found.append(fitted(own, held, fitting, seed)[0].layers[0].weight)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
