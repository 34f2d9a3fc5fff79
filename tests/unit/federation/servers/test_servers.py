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
    models = network(400), network(400)
    images = torch.rand(200, *PLACE, generator=torch.Generator().manual_seed(3)).flatten(1) ** 2
    honest = (images @ written(models[0]).weight.T + written(models[0]).bias > 0).float().mean()
    for model in models:
        given = {"deviation": 0.2, "scale": 0.9}
        assert servers.build("trap_weights", given)(model, held(seed=9)) == Written()
    layer, again = map(written, models)
    # The same chance writes the same weights.
    assert torch.equal(layer.weight, again.weight)
    for row in layer.weight.detach():
        positive, negative = row[row > 0].sort().values, (-row[row < 0]).sort().values
        assert len(positive) == len(negative) == 18
        torch.testing.assert_close(positive, 0.9 * negative)
    assert layer.weight[layer.weight < 0].square().mean().sqrt().item() == pytest.approx(0.2, rel=0.1)
    assert not layer.bias.any()
    # Trapped neurons are open for few samples.
    assert 0.4 < honest < 0.6
    assert 0.05 < (images @ layer.weight.T > 0).float().mean() < 0.45


def test_the_robust_soliton_distribution_is_luby_s() -> None:
    found = degrees(64, 0.05, 0.4)
    assert len(found) == 64
    assert found.sum().item() == pytest.approx(1)
    # By hand: R = 0.05 ln(160) 8 = 2.030, whose spike is at floor(64 / R) = 31.
    ripple = 2.0300695
    weights = {1: 1 / 64 + ripple / 64, 2: 1 / 2 + ripple / 128, 3: 1 / 6 + ripple / 192, 32: 1 / (32 * 31)}
    shares = torch.tensor([found[n - 1] / weight for n, weight in weights.items()])
    torch.testing.assert_close(shares, shares[:1].expand(4), rtol=1e-6, atol=0)
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


@pytest.mark.parametrize("normalise", ["none", "mnist"])
@pytest.mark.parametrize("bins", ["quantiles", "normal"])
def test_bins_sort_samples_by_their_mean(bins: str, normalise: str) -> None:
    model, own = network(50, normalise=normalise), held(16, 5000)
    expected = servers.build("robbing_the_fed", {"bins": bins})(model, own).expected
    assert expected == {"exact": pytest.approx((1 - 1 / 50) ** 15)}
    layer, read = written(model), own.samples.flatten(1)
    if normalise == "mnist":
        read = (read - 0.1306637) / 0.3081078
    assert cosine_similarity(layer.weight, layer.weight[:1]).min() > 1 - 1e-6
    opens = read @ layer.weight.T + layer.bias > 0
    # Every sample opens the first neuron, and a neuron only with all before it.
    assert opens[:, 0].all()
    assert (opens[:, 1:] <= opens[:, :-1]).all()
    share = torch.bincount(opens.sum(1), minlength=51)[1:].double() / len(own.samples)
    assert share.max() < 0.05
    second = [module for module in model.modules() if isinstance(module, nn.Linear)][1]
    assert (second.weight == second.weight[:, :1]).all()


@pytest.mark.parametrize("server", ["trap_weights", "soliton", "robbing_the_fed"])
def test_a_network_that_begins_with_a_convolution_is_refused(server: str) -> None:
    model = victims.build("lenet_dlg", SHAPE, 5, {}).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(UserError, match="the network begins with Conv2d"):
        servers.build(server, {})(model, held(16, 10))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(UserError, match="give the server auxiliary ones"):
        servers.build("robbing_the_fed", {})(network(), held())
    with pytest.raises(UserError, match="no second one reads the first"):
        servers.build("robbing_the_fed", {})(nn.Sequential(nn.Flatten(), nn.Linear(36, 5)), held(16, 10))
