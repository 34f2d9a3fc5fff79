"""LOKI: each client's model lands its gradient in a block of its own."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench.base.errors import UserError
from leakbench.federation import servers
from leakbench.federation.servers import Held
from leakbench.federation.servers.loki import first_alone, taps
from leakbench.federation.servers.robbing_the_fed import alone
from leakbench.networks import victims

SHAPE, PLACE, CLIENTS = (6, 6, 3), (3, 6, 6), [4, 2, 4]


def held(clients: list[int] = CLIENTS, samples: int = 3000) -> Held:
    own = torch.rand(samples, *PLACE, generator=torch.Generator().manual_seed(1)) if samples else None
    return Held(PLACE, sum(clients), torch.Generator().manual_seed(0), own, clients)


def network(clients: int = 3, bins: int = 20, bounded: bool = False) -> nn.Module:
    torch.manual_seed(0)
    parameters = {"bins": bins, "clients": clients, "bounded": bounded}
    return victims.build("imprinted", SHAPE, 5, parameters).eval()


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
    model = network()
    written = servers.build("loki", {})(model, held())
    assert set(written.each) == {"convolution.weight"}
    samples = torch.rand(4, *PLACE, generator=torch.Generator().manual_seed(2))
    for client, kernels in enumerate(written.each["convolution.weight"]):
        model.load_state_dict({"convolution.weight": kernels}, strict=False)
        loss = cross_entropy(model(samples), torch.arange(4))
        (slope,) = torch.autograd.grad(loss, [model.dense1.weight])
        blocks = slope.unflatten(1, (3, 108)).abs().amax((0, 2))
        assert blocks.nonzero()[:, 0].tolist() == [client]


def test_neurons_sort_each_clients_samples_by_their_mean() -> None:
    model, own = network(), held()
    written = servers.build("loki", {})(model, own)
    # The largest client has four samples, of which one is alone in twenty bins so often.
    assert written.expected == {"exact": pytest.approx((1 - 1 / 20) ** 3)}
    place = (read(model, written.each["convolution.weight"][1], own.samples) > 0).sum(1)
    assert (place[own.samples.flatten(1).mean(1).argsort()].diff() >= 0).all()
    assert torch.bincount(place, minlength=21)[1:].double().std() < 10


def test_closing_bins_pass_a_gradient_on_between_two_cuts_alone() -> None:
    model, own = network(bounded=True), held()
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
    (
        lambda: network(2),
        held(),
        {},
        "needs 3 kernels for each of 3 clients, and the first convolution has 6",
    ),
    (lambda: network(0), held(), {}, "the network does not begin so"),
    (lambda: victims.build("lenet_dlg", SHAPE, 5, {}), held(), {}, "the network does not begin so"),
    (network, held([12]), {}, "two clients or more"),
    (network, held(samples=0), {}, "give the server auxiliary ones"),
    (network, held(), {"closing": True}, "need neurons that are cut off at 0 and 1"),
]


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
