"""DP-SGD and Outpost: what is bounded, what is perturbed, and what does not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench import defences
from leakbench.attacks.adaptive.outpost import outpost as known
from leakbench.base.errors import UserError
from leakbench.defences import Batch, Update

CLIP, COUNT, CLASSES = 0.5, 12, 3
IMAGES = torch.rand(COUNT, 1, 8, 8, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(COUNT) % CLASSES


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), nn.Tanh(),
        nn.Linear(5, CLASSES),
    )  # fmt: skip


def gradient(images: Tensor = IMAGES, labels: Tensor = LABELS, seed: int = 0, **parameters: Any) -> Update:
    """Return what a step goes by. With central noise a client adds none."""
    given = {"noise_multiplier": 1.0, "clip": CLIP, "noise": "central", "observer": "client"} | parameters
    defence = defences.build("dp-sgd", given)
    model = network()
    batch = Batch(model, {n: v.detach() for n, v in model.named_parameters()}, images, labels)
    return defence.examples(batch, torch.Generator().manual_seed(seed))


def length(update: Update) -> float:
    return float(torch.cat([value.flatten() for value in update.values()]).norm())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("clip", [CLIP, 4.5, 100.0])
def test_clipping_is_that_of_opacus(clip: float) -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = network()
    GradSampleModule(model, batch_first=True, loss_reduction="mean")
    optimiser = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=0.0, max_grad_norm=clip,
        expected_batch_size=COUNT,
    )  # fmt: skip
    cross_entropy(model(IMAGES), LABELS).backward()
    lengths = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in model.parameters()]).norm(dim=0)
    # One bound binds for every sample, one for some, one for none.
    assert CLIP < lengths.min() < 4.5 < lengths.max() < 100.0
    optimiser.pre_step()
    found = gradient(clip=clip)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-7)


def test_no_sample_moves_the_sum_by_more_than_the_bound() -> None:
    for one in torch.arange(COUNT).split(1):
        assert length(gradient(IMAGES[one], LABELS[one])) <= CLIP * (1 + 1e-5)
    broken, rest = IMAGES.clone(), torch.arange(COUNT) != 3
    broken[3] = torch.nan
    found, without = gradient(broken, LABELS), gradient(IMAGES[rest], LABELS[rest])
    for name, value in found.items():
        torch.testing.assert_close(value * COUNT, without[name] * (COUNT - 1))


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_noise_is_on_the_sum_and_has_the_stated_deviation(rate: float) -> None:
    both = [gradient(noise="local", noise_multiplier=s, sample_rate=rate) for s in (0.1, 50.1)]
    drawn = torch.cat([(both[1][name] - both[0][name]).flatten() for name in both[0]])
    assert float(drawn.std()) == pytest.approx(50 * CLIP / (rate * COUNT), rel=0.1)
    assert abs(float(drawn.mean())) < 4 * 50 * CLIP / (rate * COUNT) / len(drawn) ** 0.5
    other = gradient(noise="local", noise_multiplier=50.1, sample_rate=rate, seed=1)
    assert not torch.equal(other["6.bias"], both[1]["6.bias"])


def test_each_sample_takes_part_by_chance_at_the_stated_rate() -> None:
    one = IMAGES[:1], LABELS[:1]
    whole, rate = length(gradient(*one)), 0.25
    found = [length(gradient(*one, seed=seed, sample_rate=rate)) for seed in range(200)]
    taken = [value for value in found if value > 0]
    # What takes part is divided by the expected number of samples.
    assert taken == pytest.approx([whole / rate] * len(taken), rel=1e-5)
    assert 0.15 < len(taken) / len(found) < 0.35


def test_central_noise_is_on_the_mean_that_clients_are_sent() -> None:
    given = {"noise_multiplier": 2.0, "clip": 3.0, "noise": "central"}
    defence, server = (defences.build("dp-sgd", given | more) for more in ({"observer": "client"}, {}))
    view = defence.view([1, 3])
    assert view.groups == [[0, 1]]
    sent = {"a": torch.stack([torch.zeros(40_000), torch.ones(40_000)])}
    (seen,) = view.seen(sent, torch.Generator().manual_seed(0))["a"]
    assert float(seen.mean()) == pytest.approx(0.75, abs=0.03)
    assert float(seen.std()) == pytest.approx(2.0 * 3.0 / 4, rel=0.02)
    assert defence.certificate(1, "gradient")["noise_multiplier"] == 2.0
    # The server that adds it sees what it adds it to.
    assert server.certificate(1, "gradient") is None
    assert server.view([1, 3]).seen is defences.unchanged
    with pytest.raises(UserError, match=r"parameters\.noise: central noise covers one gradient"):
        defence.certificate(1, "model")


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(4), nn.LSTM(4, 4)])
def test_a_layer_that_leaves_no_sample_a_gradient_of_its_own_is_refused(layer: nn.Module) -> None:
    defence = defences.build("dp-sgd", {"noise_multiplier": 1.0, "clip": 1.0})
    rng = torch.Generator()
    plain = network()
    assert defence.model(plain, rng) is plain
    with pytest.raises(UserError, match=rf"victim: layer '1' \({type(layer).__name__}\)"):
        defence.model(nn.Sequential(nn.Conv2d(1, 4, 3), layer), rng)


ROWS, CLASSES_OF = torch.rand(3, 20, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2])


def remembered(memory: Update) -> Batch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return Batch(model, weights, ROWS, CLASSES_OF, memory=memory)


def sent(steps: int, seed: int = 0, **parameters: Any) -> list[Update]:
    """Return the gradients of so many steps of one client; the weights stay as they are."""
    defence = defences.build("outpost", parameters)
    memory: Update = {}
    rng = torch.Generator().manual_seed(seed)
    return [defence.examples(remembered(memory), rng) for _ in range(steps)]


def changed(update: Update) -> bool:
    plain = remembered({}).mean()
    return not all(torch.equal(value, plain[name]) for name, value in update.items())


def test_step_i_is_protected_with_probability_one_over_one_plus_beta_i() -> None:
    steps, runs = 24, 30
    found = sum(torch.tensor([changed(each) for each in sent(steps, seed)]) for seed in range(runs)) / runs
    wanted = 1 / (1 + 0.125 * torch.arange(1, steps + 1))
    # Four deviations of a mean over eight steps.
    assert (found - wanted).view(3, 8).mean(1).abs().max() < 4 * 0.5 / (8 * runs) ** 0.5
    assert found[:8].mean() > found[-8:].mean() + 0.2


def test_a_protected_gradient_is_pruned_and_noised_where_it_is_sensitive() -> None:
    (pruned,) = sent(1, decay=0.0, share=0.0)
    plain = remembered({}).mean()
    for name, value in pruned.items():
        zeros = float((value == 0).double().mean())
        assert zeros == pytest.approx(0.8, abs=0.5 / value.numel() + 1e-9), name
        kept = value != 0
        assert torch.equal(value[kept], plain[name][kept])
        assert plain[name][kept].abs().min() > plain[name][~kept].abs().max()
    (noised,) = sent(1, decay=0.0)
    drawn = {name: value - pruned[name] for name, value in noised.items()}
    places = torch.cat([(value != 0).double().amax(0).flatten() for value in drawn.values()])
    assert float(places.mean()) == pytest.approx(0.4, abs=0.05)
    # The second layer's gradients are the larger ones, so it has the noise.
    weights, noise = remembered({}).weights["2.weight"], drawn["2.weight"][drawn["2.weight"] != 0]
    assert len(noise) > 50
    assert float(noise.std()) == pytest.approx(0.8 * float(weights.var()), rel=0.2)


def test_the_adaptive_attacker_takes_the_rounds_without_perturbation() -> None:
    seen, plain = torch.stack([each["0.weight"] for each in sent(40)]), remembered({}).mean()["0.weight"]
    torch.testing.assert_close(known().pooled(seen), plain)
    assert float((seen.mean(0) - plain).norm() / plain.norm()) > 0.05
    # The released version changes nothing.
    assert not any(changed(each) for each in [*sent(20, released=True), *sent(20, decay=1e9)])
