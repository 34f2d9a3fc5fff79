"""Reading the bins of an imprint block."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from observing import seen_of
from torch.nn.functional import cross_entropy

from leakbench.attacks.exact.levels import brightest
from leakbench.attacks.imprint import imprint
from leakbench.base.errors import Unfit
from leakbench.federation import servers
from leakbench.federation.servers import Held
from leakbench.networks import victims
from leakbench.networks.layers import Normalise
from leakbench.observations.observation import Observation

SHAPE, PLACE = (6, 6, 1), (1, 6, 6)


def observed(
    module: str, parameters: dict[str, object], batch: int, server: str = "robbing_the_fed", seed: int = 0
) -> tuple[Observation, torch.Tensor]:
    """Return what a server sees of one gradient, and the samples [batch, …] behind it."""
    torch.manual_seed(seed)
    model = victims.build(module, SHAPE, 5, parameters).eval()
    own = torch.rand(20000, 1, 1, 1) * torch.rand(20000, *PLACE)
    images, labels = own[:batch], torch.arange(batch) % 5
    if server:
        servers.build(server, {})(model, Held(PLACE, batch, torch.Generator().manual_seed(1), own[batch:]))
    named = dict(model.named_parameters())
    gradient = torch.autograd.grad(cross_entropy(model(images), labels), list(named.values()))
    network = {"module": module, "parameters": parameters, "shape": SHAPE, "classes": 5}
    updates = {name: value[None] for name, value in zip(named, gradient, strict=True)}
    return seen_of(model, network, updates, batch), images


def read(observation: Observation, images: torch.Tensor) -> torch.Tensor:
    """Return which samples [batch] are among the usable reconstructions, to a tenth of an 8-bit step."""
    found = imprint(observation, torch.Generator())
    guesses = found.images[0, 0][found.usable[0, 0]]
    return (torch.cdist(images.flatten(1), guesses.flatten(1), p=torch.inf) < 0.1 / 255).any(1)


@pytest.mark.parametrize(
    ("module", "parameters"),
    [
        ("imprinted", {"bins": 100}),
        ("mlp", {"hidden": [100, 20]}),
        ("mlp", {"hidden": [100, 20], "normalise": "mnist"}),
    ],
)
def test_exactly_the_samples_that_are_alone_in_their_bins_are_read(
    module: str, parameters: dict[str, object]
) -> None:
    for seed in range(3):
        observation, images = observed(module, parameters, 24, seed=seed)
        model = observation.model()
        kept: list[torch.Tensor] = []
        layer = next(m for m in model.modules() if isinstance(m, torch.nn.Linear))
        layer.register_forward_hook(lambda _, inputs, output, kept=kept: kept.append(output))
        model(images)
        place = (kept[0] > 0).sum(1)
        alone = torch.bincount(place, minlength=101)[place] == 1
        assert 0 < alone.sum() < 24 or seed
        assert torch.equal(read(observation, images), alone)


def test_the_share_that_is_read_follows_the_closed_form() -> None:
    shares = [
        read(*observed("mlp", {"hidden": [64, 20]}, 32, seed=seed)).double().mean().item()
        for seed in range(30)
    ]
    assert np.mean(shares) == pytest.approx((1 - 1 / 64) ** 31, abs=0.05)


def test_no_more_samples_are_returned_than_the_batch_has() -> None:
    observation, _ = observed("mlp", {"hidden": [100, 20]}, 8)
    assert imprint(observation, torch.Generator()).usable.shape == (1, 1, 8)


def test_weights_that_ask_several_queries_are_refused() -> None:
    observation, _ = observed("mlp", {"hidden": [100, 20]}, 8, server="")
    with pytest.raises(Unfit, match="those of dense1 ask several"):
        imprint(observation, torch.Generator())
    convolutional, _ = observed("lenet_dlg", {}, 8, server="")
    with pytest.raises(Unfit, match="reads samples"):
        imprint(convolutional, torch.Generator())


COLOURED, CLIENTS, EACH = (6, 6, 3), 3, 6


def pictures(count: int) -> torch.Tensor:
    """Return images of 8 bits whose brightest value is anywhere from a half on."""
    rng = torch.Generator().manual_seed(4)
    bright = 0.5 + 0.5 * torch.rand(count, 1, 1, 1, generator=rng)
    return (255 * bright * torch.rand(count, 3, 6, 6, generator=rng)).round() / 255


def served(seed: int, settings: dict[str, Any], **more: Any) -> tuple[Any, ...]:
    """Return a victim's parameters, the victim as a server wrote it, what each client is sent besides, and
    the samples [clients, each, …]."""
    torch.manual_seed(seed)
    parameters = {"bins": 30, "clients": CLIENTS} | more
    model = victims.build("imprinted", COLOURED, 5, parameters).eval()
    own = pictures(4000)
    held = Held((3, 6, 6), CLIENTS * EACH, torch.Generator(), own[1000:], [EACH] * CLIENTS)
    each = servers.build("loki", settings)(model, held).each
    samples = own[CLIENTS * EACH * seed :][: CLIENTS * EACH].unflatten(0, (CLIENTS, EACH))
    return parameters, model, each, samples


def received(
    updates: list[dict[str, torch.Tensor]], together: bool, parameters: Any, sent: Any, each: Any, **more: Any
) -> Observation:
    """Return what a server sees of clients' updates: their mean, or one by one."""
    stacked = {name: torch.stack([one[name] for one in updates]) for name in updates[0]}
    seen = {name: value.mean(0, keepdim=True) if together else value for name, value in stacked.items()}
    return Observation(
        network={"module": "imprinted", "parameters": parameters, "shape": list(COLOURED), "classes": 5},
        weights={name: value.detach().numpy()[None] for name, value in sent.items()},
        updates={name: value.numpy()[None] for name, value in seen.items()},
        origin=np.zeros(1, np.int64),
        clients=[CLIENTS * EACH] if together else [EACH] * CLIENTS,
        each={name: value.numpy()[None] for name, value in each.items()},
        **{"kind": "gradient"} | more,
    )


def sums(together: bool, seed: int = 0) -> tuple[Observation, torch.Tensor, torch.Tensor]:
    """Return what a server sees of clients to which it sent models of their own, the samples [clients, each,
    …], and which of these are alone in their bins [clients, each]."""
    parameters, model, each, samples = served(seed, {})
    named, updates, places = dict(model.named_parameters()), [], []
    model.dense1.register_forward_hook(lambda _, inputs, output: places.append((output > 0).sum(1)))
    for client in range(CLIENTS):
        model.load_state_dict({"convolution.weight": each["convolution.weight"][client]}, strict=False)
        loss = cross_entropy(model(samples[client]), torch.arange(EACH) % 5)
        updates.append(dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)))
    alone = torch.stack([torch.bincount(place, minlength=31)[place] == 1 for place in places])
    return received(updates, together, parameters, model.state_dict(), each), samples, alone


def came_out(images: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    near = torch.cdist(samples.flatten(0, 1).flatten(1), images.flatten(1), p=torch.inf) < 0.1 / 255
    return near.any(1).view(samples.shape[:2])


@pytest.mark.parametrize("together", [True, False])
def test_clients_with_models_of_their_own_are_kept_apart_in_a_sum(together: bool) -> None:
    for seed in range(3):
        observation, samples, alone = sums(together, seed)
        found = imprint(observation, torch.Generator())
        images = found.images[0][found.usable[0]]
        assert 0 < alone.sum() < CLIENTS * EACH or seed
        assert torch.equal(came_out(images, samples), alone)


def test_as_published_a_sample_of_a_sum_is_as_bright_as_can_be() -> None:
    observation, samples, alone = sums(together=True)
    found = imprint(observation, torch.Generator(), scale="maximum")
    images = found.images[0][found.usable[0]]
    assert not came_out(images, samples).any()
    brightest = samples / samples.flatten(2).amax(2)[..., None, None, None]
    assert torch.equal(came_out(images, brightest), alone)


def test_a_sum_of_normalised_samples_is_refused() -> None:
    observation, _, _ = sums(together=True)
    model = observation.model()
    shifted = torch.nn.Sequential()
    shifted.normalise = Normalise(torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.5))
    shifted.network = model
    own = replace(
        observation,
        own=shifted,
        **{
            field: {f"network.{name}": value for name, value in getattr(observation, field).items()}
            for field in ("weights", "updates", "each")
        },
    )
    own.weights.update(
        {name: v.numpy()[None] for name, v in shifted.state_dict().items() if "normalise" in name}
    )
    with pytest.raises(Unfit, match="the network normalises them"):
        imprint(own, torch.Generator())


def test_the_brightest_level_is_the_smallest_that_makes_all_values_whole() -> None:
    rng = torch.Generator().manual_seed(0)
    wanted = torch.tensor([100, 255, 64, 33], dtype=torch.float64)
    levels = (wanted[:, None] * torch.rand(4, 200, generator=rng, dtype=torch.float64)).round()
    levels[:, 0] = wanted
    shares = levels / wanted[:, None] + 1e-5 * torch.randn(4, 200, generator=rng, dtype=torch.float64)
    # Black and white tell no level, and a mixture of samples has none.
    others = torch.stack([(shares[0] > 0.5).double(), shares[1] * 0.7 + shares[2] * 0.3])
    others /= others.amax(1, keepdim=True)
    assert brightest(torch.cat([shares, others])).tolist() == [100, 255, 64, 33, 0, 0]


def after_steps(together: bool, factor: float, seed: int) -> tuple[Observation, torch.Tensor, torch.Tensor]:
    """Return what a server sees of clients that took nine local steps on pairs of samples, the samples
    [clients, each, …], and which of these were alone in a bin that their mini-batch opened first [clients,
    each]."""
    settings = {"closing": True, "factor": factor, "step": 2}
    parameters, model, each, samples = served(seed, settings, bounded=True)
    sent = {name: value.clone() for name, value in model.state_dict().items()}
    updates, firsts = [], []
    for client in range(CLIENTS):
        begin = sent | {"convolution.weight": each["convolution.weight"][client]}
        model.load_state_dict(begin)
        out: list[torch.Tensor] = []
        hook = model.dense1.register_forward_hook(lambda _, inputs, output, out=out: out.append(output))
        model(samples[client])
        hook.remove()
        place = ((out[0] > 0) & (out[0] < 1)).int().argmax(1)
        rival = (place[:, None] == place) & ~torch.eye(EACH, dtype=torch.bool)
        batch = torch.arange(EACH) // 2
        firsts.append(~(rival & (batch <= batch[:, None])).any(1))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            for part in torch.arange(EACH).split(2):
                optimiser.zero_grad()
                cross_entropy(model(samples[client, part]), part % 5).backward()
                optimiser.step()
        updates.append({name: value - begin[name] for name, value in model.state_dict().items()})
    local = {"lr": 0.1, "batch_size": 2, "epochs": 3}
    observation = received(updates, together, parameters, sent, each, kind="model", local=local)
    return observation, samples, torch.stack(firsts)


@pytest.mark.parametrize("together", [True, False])
def test_after_local_steps_a_bin_holds_the_sample_that_closed_it(together: bool) -> None:
    for seed in range(3):
        observation, samples, firsts = after_steps(together, 10_000.0, seed)
        found = imprint(observation, torch.Generator())
        images = found.images[0][found.usable[0]]
        assert 0 < firsts.sum() < CLIENTS * EACH or seed
        assert torch.equal(came_out(images, samples), firsts)


def test_kernels_that_are_not_enlarged_leave_bins_open_that_later_steps_fill() -> None:
    shares = []
    for seed in range(3):
        observation, samples, firsts = after_steps(True, 1.0, seed)
        found = imprint(observation, torch.Generator())
        read = came_out(found.images[0][found.usable[0]], samples)
        shares.append((read.double().mean() - firsts.double().mean()).item())
    assert np.mean(shares) < -0.2
