"""DP-SGD: the bound on each sample's gradient, the noise, and what it does not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench import defences
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
