"""The learned inverter: how it is fitted, and what it finds of protected updates."""

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deaths import Death
from observing import LOCAL, seen_of, sent_by
from torch import Tensor, nn

from leakbench import attacks, defences
from leakbench.attacks import inverter
from leakbench.attacks import learned_inverter as module
from leakbench.attacks.inverter import Fitting, Inverter, Pairs, assigned, error, fitted
from leakbench.attacks.learned_inverter import hashed, learned_inverter
from leakbench.base.errors import Unfit
from leakbench.networks import generators, victims
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

SHAPE = (8, 8, 1)
SMALL: dict[str, Any] = {"hidden": 64, "epochs": 12, "rate": 3e-3, "batch": 16, "bins": 0}


def bars(count: int, seed: int) -> Tensor:
    """Return images [count, 1, 8, 8] of rows and columns that are bright by chance."""
    rng = torch.Generator().manual_seed(seed)
    across = torch.rand(count, 1, 1, 8, generator=rng).expand(-1, -1, 8, -1)
    return (across + torch.rand(count, 1, 8, 1, generator=rng)) / 2


def own_samples(count: int = 400) -> nn.Module:
    generator: Any = generators.build("samples", (1,), SHAPE, {"each": count})
    generator.keep(bars(count, 1), torch.zeros(count, dtype=torch.int64))
    return generator


def protected(
    module: str = "none", parameters: dict[str, Any] | None = None, k: int = 1, kind: str = "gradient"
) -> tuple[Observation, Tensor]:
    """Return what a server sees of ten rounds with images [10, k, 1, 8, 8] of class 0, and these."""
    torch.manual_seed(0)
    network = {"module": "mlp", "parameters": {"hidden": [24]}, "shape": list(SHAPE), "classes": 10}
    model = victims.build("mlp", SHAPE, 10, network["parameters"])
    images = bars(10 * k, 2).view(10, k, 1, 8, 8)
    update = sent_by(model, images, torch.zeros(10, k, dtype=torch.int64), kind)
    sent = defences.build(module, parameters or {}).update(update, torch.Generator().manual_seed(5))
    more = {"generator": own_samples(), "knows": ThreatModel(defence=module), "local": LOCAL}
    return seen_of(model, network, sent, k, kind=kind, **more), images


def run(seen: Observation, **parameters: Any) -> Tensor:
    found = learned_inverter(seen, torch.Generator().manual_seed(0), **(SMALL | parameters))
    assert found.usable.all()
    return found.images[:, 0]


def errors(found: Tensor, truth: Tensor) -> tuple[float, float]:
    """Return the mean squared error of what was found and that of the mean image of the attacker's own."""
    mean = own_samples().images.mean(0)
    return float((found - truth).square().mean()), float((mean - truth).square().mean())


@pytest.mark.parametrize(
    ("module", "parameters", "kind"),
    [("none", {}, "model"), ("sign", {}, "gradient"), ("gaussian", {"scale": 0.003}, "model"),
     ("prune", {"share": 0.1}, "gradient")],
)  # fmt: skip
def test_it_beats_the_mean_image(module: str, parameters: dict[str, Any], kind: str) -> None:
    seen, images = protected(module, parameters, kind=kind)
    found, mean = errors(run(seen, defence={"module": module, "parameters": parameters}), images)
    # Signs alone say less of images in gray.
    assert found < (0.8 if module == "sign" else 0.6) * mean


def test_updates_of_several_samples_are_inverted() -> None:
    seen, images = protected(k=2)
    found = run(seen, epochs=25)
    best = torch.stack(
        [(found - images[:, list(order)]).square().flatten(1).mean(1) for order in ([0, 1], [1, 0])]
    )
    assert best.amin(0).mean() < 0.8 * errors(images * 0, images)[1]


def test_an_update_of_noise_gives_no_image() -> None:
    seen, images = protected()
    noise = seen.randomised(10, torch.Generator().manual_seed(0))
    entry = {"module": "learned-inverter", "parameters": SMALL}
    both = attacks.with_null(entry, seen, noise, (torch.Generator().manual_seed(0), torch.Generator()))
    own, null = (list(each) for each in both)
    assert errors(own[0][1].images[:, 0], images)[0] < 0.5 * errors(null[0][1].images[:, 0], images)[0]
    # Some processors round the products of twenty updates otherwise than those of ten.
    torch.testing.assert_close(own[0][1].images[:, 0], run(seen), rtol=0, atol=1e-5)


def test_bins_are_drawn_by_chance_and_summed_and_many_leave_updates_as_they_are() -> None:
    updates = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0], [1.0, 0.0, 0.0, 0.0, -1.0]])
    into = torch.tensor([2, 0, 2, 1, 0])
    assert hashed(updates, into).tolist() == [[18.0, 8.0, 5.0], [-1.0, 0.0, 1.0]]
    assert torch.equal(hashed(updates, None), updates)
    counts = module._bins(1000, 50, 3).bincount(minlength=50)
    assert 5 <= counts.min() <= counts.max() <= 45
    assert torch.equal(module._bins(1000, 50, 3), module._bins(1000, 50, 3))
    assert not torch.equal(module._bins(1000, 50, 3), module._bins(1000, 50, 4))
    assert module._bins(1000, 0, 3) is module._bins(1000, 1000, 3) is None
    seen, images = protected()
    found, mean = errors(run(seen, bins=300), images)
    assert found < 0.7 * mean


def test_the_result_is_the_same_for_rounds_one_by_one() -> None:
    seen, _ = protected("gaussian", {"scale": 0.01})
    given = {"defence": {"module": "gaussian", "parameters": {"scale": 0.01}}, "epochs": 1}
    whole = run(seen, **given)
    alone = torch.cat([run(seen.part(slice(i, i + 1)), **given) for i in (0, 9)])
    assert torch.allclose(whole[[0, 9]], alone, atol=1e-6)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What inverters were fitted to."""
    given: list[Any] = []
    fitted = module.fitted
    monkeypatch.setattr(module, "fitted", lambda *own: (given.append(own), fitted(*own))[1])
    return given


def test_each_model_and_each_number_of_samples_has_its_own_inverter(fits: list[Any]) -> None:
    seen, _ = protected()
    twice = {name: np.concatenate([value, 0.5 * value]) for name, value in seen.weights.items()}
    run(replace(seen, weights=twice, origin=np.array([0, 1] * 5)), epochs=1)
    assert len(fits) == 2
    three = {name: value.repeat(3, 1) for name, value in seen.updates.items()}
    several = replace(seen, clients=[1, 2, 1], updates=three)
    found = learned_inverter(several, torch.Generator(), **(SMALL | {"epochs": 1}))
    assert len(fits) == 4
    assert found.usable.sum((0, 2)).tolist() == [10, 20, 10]
    assert not found.images[:, [0, 2], 1].any()


def test_samples_that_choose_the_epoch_are_not_fitted_to(fits: list[Any]) -> None:
    seen, _ = protected(k=2)
    run(seen, epochs=1, pairs=50)
    both = fits[0][:2]
    own, held = ({image.numpy().tobytes() for image in part.images.flatten(0, 1)} for part in both)
    assert [len(part) for part in both] == [50, 40]
    assert own
    assert held
    assert not own & held
    assert all(not torch.equal(*images) for part in both for images in part.images)


def test_updates_that_would_be_the_same_again_are_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    updates = module.Rehearsal.updates
    monkeypatch.setattr(
        module.Rehearsal, "updates", lambda *given: (calls.append(len(given[1])), updates(*given))[1]
    )
    for name, parameters, times in (
        ("sign", {}, 1),
        ("censor", {"trials": 1}, 1),
        ("gaussian", {"scale": 1.0}, 3),
    ):
        calls.clear()
        seen = replace(protected()[0], generator=own_samples(100))
        run(seen, epochs=3, defence={"module": name, "parameters": parameters})
        # Two pairs of each split are looked at twice; of random ones all are drawn to standardise by, too.
        first = 90 if times > 1 else 0
        assert sum(calls) == 8 + first + 90 * times + 10, name


def test_what_it_cannot_do_is_one_line() -> None:
    seen, _ = protected()
    cases = [
        (replace(seen, generator=None), "needs labelled samples"),
        (replace(seen, generator=nn.Linear(1, 1)), "needs labelled samples"),
        (replace(seen, clients=[9]), "9 samples in an update are more than 8"),
        (replace(seen, origin=np.arange(10)), "10 models were sent out"),
        (replace(seen, clients=[8], generator=own_samples(70)),
         "70 samples of the attacker's own are too few"),
        (replace(seen, knows=ThreatModel(defence="prune")), "defence prune are not known"),
    ]  # fmt: skip
    for odd, message in cases:
        with pytest.raises(Unfit, match=message):
            run(odd)


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


def test_what_is_no_number_is_never_best_and_the_rate_falls_late(
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
