"""What malicious servers write: traps, bins, LOKI's blocks for each client, and suppressed gradients."""

from collections.abc import Callable

import pytest
import torch
from observing import seen_of
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from leakbench.attacks.imprint import imprint
from leakbench.base.errors import UserError
from leakbench.federation import servers
from leakbench.federation.servers import Held, Written
from leakbench.federation.servers.loki import first_alone, taps
from leakbench.federation.servers.robbing_the_fed import alone
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


COLOURED, COLOURS, CLIENTS = (6, 6, 3), (3, 6, 6), [4, 2, 4]


def held_by(clients: list[int] = CLIENTS, samples: int = 3000) -> Held:
    own = torch.rand(samples, *COLOURS, generator=torch.Generator().manual_seed(1)) if samples else None
    return Held(COLOURS, sum(clients), torch.Generator().manual_seed(0), own, clients)


def imprinted(clients: int = 3, bins: int = 20, bounded: bool = False) -> nn.Module:
    torch.manual_seed(0)
    parameters = {"bins": bins, "clients": clients, "bounded": bounded}
    return victims.build("imprinted", COLOURED, 5, parameters).eval()


def test_only_the_own_group_of_kernels_copies_a_sample() -> None:
    each = taps(torch.Size((6, 2, 3, 3)), 3)
    assert each.shape == (3, 6, 2, 3, 3)
    # One tap for each channel of each client, by hand: client 1, channel 0 is kernel 2.
    assert each.nonzero().tolist() == [[n, 2 * n + c, c, 1, 1] for n in range(3) for c in range(2)]
    assert each.sum() == 6


def read(model: nn.Module, kernels: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return what the first dense layer makes of samples with a client's kernels."""
    model.load_state_dict({"convolution.weight": kernels}, strict=False)
    kept: list[torch.Tensor] = []
    model.dense1.register_forward_hook(lambda _, inputs, output: kept.append(output))
    model(samples)
    return kept[0]


def test_a_gradient_lands_in_the_columns_of_its_client_alone() -> None:
    model = imprinted()
    written = servers.build("loki", {})(model, held_by())
    assert set(written.each) == {"convolution.weight"}
    samples = torch.rand(4, *COLOURS, generator=torch.Generator().manual_seed(2))
    for client, kernels in enumerate(written.each["convolution.weight"]):
        model.load_state_dict({"convolution.weight": kernels}, strict=False)
        loss = cross_entropy(model(samples), torch.arange(4))
        (slope,) = torch.autograd.grad(loss, [model.dense1.weight])
        blocks = slope.unflatten(1, (3, 108)).abs().amax((0, 2))
        assert blocks.nonzero()[:, 0].tolist() == [client]


def test_neurons_sort_each_clients_samples_by_their_mean() -> None:
    model, own = imprinted(), held_by()
    written = servers.build("loki", {})(model, own)
    # The largest client has four samples, of which one is alone in twenty bins so often.
    assert written.expected == {"exact": pytest.approx((1 - 1 / 20) ** 3)}
    place = (read(model, written.each["convolution.weight"][1], own.samples) > 0).sum(1)
    assert (place[own.samples.flatten(1).mean(1).argsort()].diff() >= 0).all()
    assert torch.bincount(place, minlength=21)[1:].double().std() < 10


def test_closing_bins_pass_a_gradient_on_between_two_cuts_alone() -> None:
    model, own = imprinted(bounded=True), held_by()
    written = servers.build("loki", {"closing": True, "factor": 50.0, "step": 2})(model, own)
    kernels = written.each["convolution.weight"][1]
    assert kernels.max() == 50
    found = read(model, kernels, own.samples)
    # A sample is between the cuts of one neuron. Those before it are at 1 or more, those behind at most 0.
    within = (found > 0) & (found < 1)
    assert (within.sum(1) == 1).double().mean() > 0.99
    assert within.sum(0).double().std() < 10
    for row, column in enumerate(within[:5].int().argmax(1).tolist()):
        assert (found[row, :column] >= 1).all()
        assert (found[row, column + 1 :] <= 0).all()


def test_the_share_of_closing_bins_is_counted_mini_batch_by_mini_batch() -> None:
    # By hand: the first two of four samples have one rival in twenty bins, the last two have three.
    assert first_alone(20, 4, 2) == pytest.approx((19 / 20 + (19 / 20) ** 3) / 2)
    # Five samples in twos: the fifth is alone in its mini-batch and has four rivals before it.
    assert first_alone(20, 5, 2) == pytest.approx((2 * 0.95 + 2 * 0.95**3 + 0.95**4) / 5)
    assert first_alone(20, 4, 0) == pytest.approx(alone(20, 4))
    # Bins are drawn, and the rule is played, without the formula.
    rng = torch.Generator().manual_seed(0)
    places = torch.randint(20, (20000, 6), generator=rng)
    same = places[:, :, None] == places[:, None, :]
    batch = torch.arange(6) // 3
    rival = same & (batch[None, :] <= batch[:, None]) & ~torch.eye(6, dtype=torch.bool)
    assert (~rival.any(2)).double().mean().item() == pytest.approx(first_alone(20, 6, 3), abs=0.005)


UNFIT: list[tuple[Callable[[], nn.Module], Held, dict[str, bool], str]] = [
    (lambda: imprinted(2), held_by(), {},
     "needs 3 kernels for each of 3 clients, and the first convolution has 6"),
    (lambda: imprinted(0), held_by(), {}, "the network does not begin so"),
    (lambda: victims.build("lenet_dlg", COLOURED, 5, {}), held_by(), {}, "the network does not begin so"),
    (imprinted, held_by([12]), {}, "two clients or more"),
    (imprinted, held_by(samples=0), {}, "give the server auxiliary ones"),
    (imprinted, held_by(), {"closing": True}, "need neurons that are cut off at 0 and 1"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "of", "given", "told"), UNFIT)
def test_what_does_not_fit_is_one_line_and_changes_nothing(
    make: Callable[[], nn.Module], of: Held, given: dict[str, bool], told: str
) -> None:
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(UserError, match=told) as refused:
        servers.build("loki", given)(model, of)
    assert str(refused.value).startswith("malicious: loki")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


GREY, GREYS, SIZES = (6, 6, 1), (1, 6, 6), [5, 4, 6]


def samples(count: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 1, 1, generator=rng) * torch.rand(count, *GREYS, generator=rng)


def held_of(clients: list[int] = SIZES, own: int = 5000) -> Held:
    of_server = samples(own, 1) if own else None
    return Held(GREYS, sum(clients), torch.Generator().manual_seed(0), of_server, clients)


def suppressed(module: str = "mlp", **more: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build(module, GREY, 5, {"hidden": [100, 20], **more}).eval()


@pytest.mark.parametrize("normalise", ["none", "mnist"])
@pytest.mark.parametrize("chosen", [0, 2])
def test_a_sum_is_read_as_the_chosen_client_s_update(chosen: int, normalise: str) -> None:
    model = suppressed(normalise=normalise)
    written = servers.build("suppression", {"chosen": chosen})(model, held_of())
    # By hand: in a hundred bins, of the 15 samples of all.
    own = SIZES[chosen]
    assert written.expected == {"exact": pytest.approx(own / 15 * 0.99 ** (own - 1))}
    named, whole = dict(model.named_parameters()), [samples(n, 7 + n) for n in SIZES]
    ((bias, sent),) = written.each.items()
    total: dict[str, torch.Tensor] = {}
    alone = torch.zeros(0)
    layer = model.get_submodule(bias.removesuffix(".bias"))
    for client, images in enumerate(whole):
        model.load_state_dict({bias: sent[client]}, strict=False)
        out: list[torch.Tensor] = []
        hook = layer.register_forward_hook(lambda _, inputs, output, out=out: out.append(output))
        loss = cross_entropy(model(images), torch.arange(len(images)) % 5)
        hook.remove()
        found = torch.autograd.grad(loss, list(named.values()))
        if client == chosen:
            place = (out[0] > 0).sum(1)
            alone = torch.bincount(place, minlength=101)[place] == 1
        else:
            assert not found[0].any()
            assert not found[1].any()
        for name, value in zip(named, found, strict=True):
            total[name] = total.get(name, 0) + value * len(images) / 15
    model.load_state_dict({bias: sent[chosen]}, strict=False)
    parameters = {"hidden": [100, 20], "normalise": normalise}
    observation = seen_of(
        model, {"module": "mlp", "parameters": parameters, "shape": GREY, "classes": 5},
        {name: value[None] for name, value in total.items()}, 15,
        each={name: value.numpy()[None] for name, value in written.each.items()},
    )  # fmt: skip
    read = imprint(observation, torch.Generator())
    images = read.images[0, 0][read.usable[0, 0]]
    near = torch.cdist(whole[chosen].flatten(1), images.flatten(1), p=torch.inf) < 0.1 / 255
    assert torch.equal(near.any(1), alone)
    assert alone.any()


@pytest.mark.parametrize(
    ("model", "of", "chosen", "told"),
    [(suppressed, held_of([12]), 0, "two clients or more"),
     (suppressed, held_of(), 3, "there is no client 3 of 3"),
     (suppressed, held_of(own=0), 0, "give the server auxiliary ones"),
     (lambda: suppressed(activation="sigmoid"), held_of(), 0, "such as ReLUs"),
     (lambda: victims.build("lenet_dlg", GREY, 5, {}), held_of(), 0, "begins with Conv2d")],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(model: object, of: Held, chosen: int, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        servers.build("suppression", {"chosen": chosen})(model(), of)
    assert str(refused.value).startswith("malicious: ")
