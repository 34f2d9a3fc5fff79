"""What malicious servers write into a first dense layer."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from leakbench.base.errors import UserError
from leakbench.federation import servers
from leakbench.federation.servers import Held, Written
from leakbench.federation.servers.soliton import degrees
from leakbench.networks import victims

SHAPE, PLACE = (6, 6, 1), (1, 6, 6)


def held(batch: int = 16, samples: int = 0, seed: int = 0) -> Held:
    rng = torch.Generator().manual_seed(seed)
    own = torch.rand(samples, *PLACE, generator=torch.Generator().manual_seed(1)) if samples else None
    return Held(PLACE, batch, rng, own)


def network(width: int = 40, **more: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build("mlp", SHAPE, 5, {"hidden": [width, 20], **more}).eval()


def written(model: nn.Module) -> nn.Linear:
    layer = next(module for module in model.modules() if isinstance(module, nn.Linear))
    return layer


def test_half_of_a_trapped_row_is_the_other_half_reversed_and_shrunk() -> None:
    model = network()
    assert servers.build("trap_weights", {"deviation": 0.2, "scale": 0.9})(model, held()) == Written()
    layer = written(model)
    for row in layer.weight.detach():
        positive, negative = row[row > 0].sort().values, (-row[row < 0]).sort().values
        assert len(positive) == len(negative) == 18
        torch.testing.assert_close(positive, 0.9 * negative)
    assert layer.weight[layer.weight < 0].square().mean().sqrt().item() == pytest.approx(0.2, rel=0.1)
    assert not layer.bias.any()


def test_trapped_neurons_are_open_for_few_samples() -> None:
    images = torch.rand(200, *PLACE, generator=torch.Generator().manual_seed(3)) ** 2
    honest, model = network(400), network(400)
    servers.build("trap_weights", {})(model, held())

    def share(net: nn.Module) -> float:
        layer = written(net)
        return float((images.flatten(1) @ layer.weight.T + layer.bias > 0).float().mean())

    assert 0.4 < share(honest) < 0.6
    assert 0.05 < share(model) < 0.45


def test_the_robust_soliton_distribution_is_luby_s() -> None:
    batch, spread, failure = 64, 0.05, 0.4
    found = degrees(batch, spread, failure)
    assert len(found) == batch
    assert found.sum().item() == pytest.approx(1)
    # By hand: R = 0.05 ln(160) 8 = 2.030, whose spike is at floor(64 / R) = 31.
    ripple = 2.0300695
    weights = {1: 1 / 64 + ripple / 64, 2: 1 / 2 + ripple / 128, 3: 1 / 6 + ripple / 192, 32: 1 / (32 * 31)}
    for one, other in ((1, 2), (2, 3), (3, 32)):
        assert (found[one - 1] / found[other - 1]).item() == pytest.approx(
            weights[one] / weights[other], rel=1e-6
        )
    assert found[30] > 5 * found[29]


@pytest.mark.parametrize("samples", [0, 500])
def test_soliton_neurons_are_open_for_about_as_many_samples_as_were_drawn(samples: int) -> None:
    batch = 32
    model = network(600)
    servers.build("soliton", {})(model, held(batch, samples, seed=5))
    layer = written(model)
    images = torch.rand(4000, *PLACE, generator=torch.Generator().manual_seed(7))
    degree = batch * (images.flatten(1) @ layer.weight.T + layer.bias > 0).double().mean(0)
    order = torch.arange(1, batch + 1, dtype=torch.float64)
    wanted = (degrees(batch, 0.05, 0.4) * order).sum()
    assert degree.mean().item() == pytest.approx(wanted.item(), rel=0.2)
    # Half of the neurons are meant for two samples.
    assert 1 < degree.median().item() < 3.5


@pytest.mark.parametrize("bins", ["quantiles", "normal"])
def test_bins_sort_samples_by_their_mean(bins: str) -> None:
    model, own = network(50), held(16, 5000)
    expected = servers.build("robbing_the_fed", {"bins": bins})(model, own).expected
    assert expected == {"exact": pytest.approx((1 - 1 / 50) ** 15)}
    layer = written(model)
    assert cosine_similarity(layer.weight, layer.weight[:1]).min() > 1 - 1e-6
    opens = own.samples.flatten(1) @ layer.weight.T + layer.bias > 0
    # Every sample opens the first neuron, and a neuron only with all before it.
    assert opens[:, 0].all()
    assert (opens[:, 1:] <= opens[:, :-1]).all()
    share = torch.bincount(opens.sum(1), minlength=51)[1:].double() / len(own.samples)
    assert share.max() < 0.05
    second = [module for module in model.modules() if isinstance(module, nn.Linear)][1]
    assert (second.weight == second.weight[:, :1]).all()


def test_normalised_samples_are_sorted_as_the_layer_reads_them() -> None:
    torch.manual_seed(0)
    model = victims.build("mlp", SHAPE, 5, {"hidden": [20, 20], "normalise": "mnist"}).eval()
    own = held(16, 2000)
    servers.build("robbing_the_fed", {})(model, own)
    layer = written(model)
    opens = (own.samples.flatten(1) - 0.1306637) / 0.3081078 @ layer.weight.T + layer.bias > 0
    assert torch.bincount(opens.sum(1), minlength=21)[1:].double().std() < 5


@pytest.mark.parametrize("server", ["trap_weights", "soliton", "robbing_the_fed"])
def test_a_network_that_begins_with_a_convolution_is_refused(server: str) -> None:
    model = victims.build("lenet_dlg", SHAPE, 5, {}).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(UserError, match="the network begins with Conv2d") as refused:
        servers.build(server, {})(model, held(16, 10))
    assert "\n" not in str(refused.value)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_bins_need_samples_and_a_second_dense_layer() -> None:
    with pytest.raises(UserError, match="give the server auxiliary ones"):
        servers.build("robbing_the_fed", {})(network(), held())
    alone = nn.Sequential(nn.Flatten(), nn.Linear(36, 5))
    with pytest.raises(UserError, match="no second one reads the first"):
        servers.build("robbing_the_fed", {})(alone, held(16, 10))


def test_the_same_chance_writes_the_same_weights() -> None:
    for name in ("trap_weights", "soliton"):
        first, second = network(), network()
        for model in (first, second):
            servers.build(name, {})(model, held(seed=9))
        assert torch.equal(written(first).weight, written(second).weight)
