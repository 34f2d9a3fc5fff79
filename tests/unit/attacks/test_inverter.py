"""The fit of an inverter: assignment by hand, the epoch that a third split chooses, resuming."""

import copy
import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from leakbench.attacks import inverter
from leakbench.attacks.inverter import Fitting, Inverter, Pairs, assigned, error, fitted


def pairs(count: int, seed: int, noise: float = 0.0) -> Pairs:
    """Updates that are images [count, 1, 4] through a fixed mixture, with fresh noise each time."""
    rng = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 1, 4, generator=rng)
    mixture = torch.randn(4, 12, generator=torch.Generator().manual_seed(99))

    def updates(rows: Tensor, drawn: torch.Generator) -> Tensor:
        return images[rows, 0] @ mixture + noise * torch.randn(len(rows), 12, generator=drawn)

    return Pairs(images, updates)


def test_images_are_assigned_as_the_best_of_all_orders_does() -> None:
    rng = torch.Generator().manual_seed(0)
    made, wanted = torch.rand(2, 20, 3, 5, generator=rng)
    found = assigned(made, wanted)
    for one, truth, given in zip(made, wanted, found, strict=True):
        orders = [truth[list(order)] for order in itertools.permutations(range(3))]
        best = min(orders, key=lambda order: float((one - order).square().sum()))
        assert torch.equal(given, best)
    assert torch.equal(assigned(made[:, :1], wanted[:, :1]), wanted[:, :1])


def test_the_error_is_the_mean_over_pixels_in_the_best_order() -> None:
    images = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]])
    made = torch.tensor([[[0.9, 1.0], [0.0, 0.2]]])
    network = Inverter(torch.zeros(2, 3), images, 4)
    network.forward = lambda updates: made
    assert error(network, torch.zeros(1, 3), images) == pytest.approx((0.01 + 0.04) / 4)


def test_the_error_is_over_more_updates_than_are_taken_at_once() -> None:
    def nothing(updates: Tensor) -> Tensor:
        return torch.zeros(len(updates), 1, 1, 2, 2)

    images = torch.zeros(300, 1, 1, 2, 2)
    images[-1] = 1
    assert error(nothing, torch.zeros(300, 3), images) == pytest.approx(1 / 300)  # type: ignore[arg-type]


def test_before_any_step_it_makes_about_the_mean_image() -> None:
    images = torch.rand(200, 2, 6)
    torch.manual_seed(0)
    network = Inverter(torch.randn(200, 5), images, 30)
    made = network(torch.randn(50, 5))
    assert made.shape == (50, 2, 6)
    assert (made.mean(0) - images.mean((0, 1))).abs().max() < 0.15


def test_inputs_that_never_vary_do_no_harm() -> None:
    updates = torch.randn(50, 3)
    updates[:, 1] = 7.0
    network = Inverter(updates, torch.rand(50, 1, 4), 8)
    updates[:, 1] += 1
    assert network(updates).isfinite().all()
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
    fitting = Fitting(64, 60, 1e-2, 5)
    states: list[dict[str, Tensor]] = []
    judge = inverter.error

    def watched(network: Inverter, updates: Tensor, images: Tensor) -> float:
        states.append(copy.deepcopy(network.state_dict()))
        return judge(network, updates, images)

    monkeypatch.setattr(inverter, "error", watched)
    found, errors = fitted(own, held, fitting, 0)
    best = min(range(60), key=errors.__getitem__)
    assert best < 40
    assert errors[best] < 0.9 * errors[-1]
    assert len(states) == 60
    for name, value in found.state_dict().items():
        assert torch.equal(value, states[best][name])
    assert not torch.equal(found.layers[0].weight, states[-1]["layers.0.weight"])


def test_an_error_that_is_no_number_is_never_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([0.5, 0.2, float("nan"), 0.3])
    monkeypatch.setattr(inverter, "error", lambda *_: next(given))
    _, errors = fitted(pairs(8, 1), pairs(4, 2), Fitting(4, 4, 1e-3, 4), 0)
    assert errors == [0.5, 0.2, 1.0, 0.3]


def test_the_rate_falls_late(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *given: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    fitted(pairs(8, 1), pairs(4, 2), Fitting(4, 8, 1e-2, 8), 0)
    assert rates == pytest.approx([1e-2] * 6 + [1e-3] * 2)


def test_a_killed_fit_goes_on_to_the_same_inverter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, held, fitting = pairs(40, 1, noise=0.5), pairs(20, 2), Fitting(8, 7, 1e-2, 8)
    whole, errors = fitted(own, held, fitting, 3)
    monkeypatch.setattr(inverter, "track", lambda items, label: ((item, True) for item in items))
    file, judge, calls = tmp_path / "new" / "fit.safetensors", inverter.error, itertools.count(1)

    def killed(*given: Inverter | Tensor) -> float:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return judge(*given)

    monkeypatch.setattr(inverter, "error", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(own, held, fitting, 3, scratch=file)
    assert file.is_file()
    for _ in range(2):
        again, same = fitted(own, held, fitting, 3, scratch=file)
        assert same == errors
        for name, value in whole.state_dict().items():
            assert torch.equal(value, again.state_dict()[name]), name
    # Three epochs were left to the second run, and none to the third.
    assert next(calls) == 9


def test_the_seed_decides_everything_and_torch_s_own_chance_nothing() -> None:
    own, held, fitting = pairs(20, 1, noise=0.5), pairs(10, 2), Fitting(4, 2, 1e-2, 8)
    torch.manual_seed(1)
    one, _ = fitted(own, held, fitting, 0)
    before = torch.get_rng_state()
    torch.manual_seed(2)
    two, _ = fitted(own, held, fitting, 0)
    other, _ = fitted(own, held, fitting, 1)
    assert torch.equal(one.layers[0].weight, two.layers[0].weight)
    assert not torch.equal(one.layers[0].weight, other.layers[0].weight)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)
