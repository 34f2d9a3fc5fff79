"""Reading the bins of an imprint block."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from observing import seen_of, sent_by
from torch import Tensor, nn

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
    module: str, parameters: dict[str, Any], batch: int, seed: int = 0
) -> tuple[Observation, Tensor]:
    """Return what a server sees of one gradient, and the samples [batch, …] behind it."""
    torch.manual_seed(seed)
    model = victims.build(module, SHAPE, 5, parameters).eval()
    own = torch.rand(20000, 1, 1, 1) * torch.rand(20000, *PLACE)
    held = Held(PLACE, batch, torch.Generator().manual_seed(1), own[batch:])
    servers.build("robbing_the_fed", {})(model, held)
    update = sent_by(model, own[None, :batch], torch.arange(batch)[None] % 5)
    network = {"module": module, "parameters": parameters, "shape": SHAPE, "classes": 5}
    return seen_of(model, network, update, batch), own[:batch]


def came_out(observation: Observation, samples: Tensor, **parameters: Any) -> Tensor:
    """Return which samples [n, …] are among the usable reconstructions, to a tenth of an 8-bit step."""
    found = imprint(observation, torch.Generator(), **parameters)
    images = found.images[0][found.usable[0]].flatten(1)
    return (torch.cdist(samples.flatten(1), images, p=torch.inf) < 0.1 / 255).any(1)


@pytest.mark.parametrize(
    ("module", "parameters"),
    [
        ("imprinted", {"bins": 100}),
        ("mlp", {"hidden": [100, 20]}),
        ("mlp", {"hidden": [100, 20], "normalise": "mnist"}),
    ],
)
def test_exactly_the_samples_that_are_alone_in_their_bins_are_read(
    module: str, parameters: dict[str, Any]
) -> None:
    for seed in range(3):
        observation, images = observed(module, parameters, 24, seed)
        model, kept = observation.model(), list[Tensor]()
        layer = next(m for m in model.modules() if isinstance(m, nn.Linear))
        layer.register_forward_hook(lambda _, inputs, output, kept=kept: kept.append(output))
        model(images)
        place = (kept[0] > 0).sum(1)
        alone = torch.bincount(place, minlength=101)[place] == 1
        assert 0 < alone.sum() < 24 or seed
        assert torch.equal(came_out(observation, images), alone)
        assert torch.equal(came_out(observation, images, denoised=True), alone)
        # No more than the batch has.
        assert imprint(observation, torch.Generator()).usable.shape == (1, 1, 24)


def test_the_reading_that_knows_of_noise_is_nearer_behind_noise() -> None:
    observation, images = observed("imprinted", {"bins": 100}, 8)
    rng, lengths = np.random.default_rng(0), []
    for value in observation.updates.values():
        value += 0.03 * value.std() * rng.standard_normal(value.shape, dtype=value.dtype)
    for denoised in (False, True):
        found = imprint(observation, torch.Generator(), denoised=denoised).images[0, 0].flatten(1)
        lengths.append(torch.cdist(images.flatten(1), found).amin(1).median())
    assert lengths[1] < lengths[0] / 2


@pytest.mark.parametrize(
    ("module", "parameters", "says"),
    [("mlp", {"hidden": [100, 20]}, "those of dense1 ask several"), ("lenet_dlg", {}, "reads samples")],
)
def test_weights_that_ask_several_queries_are_refused(
    module: str, parameters: dict[str, Any], says: str
) -> None:
    model = victims.build(module, SHAPE, 5, parameters)
    network = {"module": module, "parameters": parameters, "shape": SHAPE, "classes": 5}
    update = sent_by(model, torch.rand(1, 8, *PLACE), torch.zeros(1, 8, dtype=torch.int64))
    with pytest.raises(Unfit, match=says):
        imprint(seen_of(model, network, update, 8), torch.Generator())


COLOURED, CLIENTS, EACH = (6, 6, 3), 3, 6
BATCH, KERNEL = torch.arange(EACH) // 2, "convolution.weight"


def served(
    seed: int, together: bool, settings: dict[str, Any], **more: Any
) -> tuple[Observation, Tensor, list[Tensor]]:
    """Return a server's view of clients with models of their own, their samples and layers' outputs."""
    torch.manual_seed(seed)
    parameters = {"bins": 30, "clients": CLIENTS} | more
    model = victims.build("imprinted", COLOURED, 5, parameters).eval()
    rng = torch.Generator().manual_seed(4)
    # Images of 8 bits whose brightest value is anywhere from a half on.
    bright = 0.5 + 0.5 * torch.rand(4000, 1, 1, 1, generator=rng)
    own = (255 * bright * torch.rand(4000, 3, 6, 6, generator=rng)).round() / 255
    held = Held((3, 6, 6), CLIENTS * EACH, torch.Generator(), own[1000:], [EACH] * CLIENTS)
    each = servers.build("loki", settings)(model, held).each
    sent = {name: value.clone() for name, value in model.state_dict().items()}
    samples = own[CLIENTS * EACH * seed :][: CLIENTS * EACH].unflatten(0, (CLIENTS, EACH))
    # After nine local steps on pairs of samples, or a gradient.
    kind = "model" if settings else "gradient"
    local = {"lr": 0.1, "batch_size": 2 if settings else None, "epochs": 3 if settings else 1}
    labels, updates, outputs = torch.arange(EACH)[None] % 5, [], list[Tensor]()
    for client in range(CLIENTS):
        model.load_state_dict(sent | {KERNEL: each[KERNEL][client]})
        with model.dense1.register_forward_hook(lambda _, inputs, output: outputs.append(output.detach())):
            model(samples[client])
        updates.append(sent_by(model, samples[None, client], labels, kind, local))
    seen = {name: torch.cat([one[name] for one in updates]) for name in updates[0]}
    if together:
        seen = {name: value.mean(0, keepdim=True) for name, value in seen.items()}
    observation = Observation(
        network={"module": "imprinted", "parameters": parameters, "shape": list(COLOURED), "classes": 5},
        weights={name: value.numpy()[None] for name, value in sent.items()},
        updates={name: value.numpy()[None] for name, value in seen.items()},
        origin=torch.zeros(1, dtype=torch.int64).numpy(),
        clients=[CLIENTS * EACH] if together else [EACH] * CLIENTS,
        each={name: value.numpy()[None] for name, value in each.items()},
        kind=kind,
        local=local,
    )
    return observation, samples.flatten(0, 1), outputs


def alone(outputs: list[Tensor]) -> Tensor:
    """Return which samples are alone in their bins."""
    places = [(output > 0).sum(1) for output in outputs]
    return torch.cat([torch.bincount(place, minlength=31)[place] == 1 for place in places])


@pytest.mark.parametrize("together", [True, False])
def test_clients_with_models_of_their_own_are_kept_apart_in_a_sum(together: bool) -> None:
    for seed in range(3):
        observation, samples, outputs = served(seed, together, {})
        assert 0 < alone(outputs).sum() < CLIENTS * EACH or seed
        assert torch.equal(came_out(observation, samples), alone(outputs))


def test_as_published_a_sample_of_a_sum_is_as_bright_as_can_be() -> None:
    observation, samples, outputs = served(0, True, {})
    assert not came_out(observation, samples, scale="maximum").any()
    brightest = samples / samples.flatten(1).amax(1)[:, None, None, None]
    assert torch.equal(came_out(observation, brightest, scale="maximum"), alone(outputs))


def test_blocks_of_several_clients_are_refused_to_the_reading_that_knows_of_noise() -> None:
    with pytest.raises(Unfit, match="one block of neurons that share their bins"):
        imprint(served(0, True, {})[0], torch.Generator(), denoised=True)


def test_a_sum_of_normalised_samples_is_refused() -> None:
    observation, _, _ = served(0, True, {})
    shifted = nn.Sequential()
    shifted.normalise = Normalise(torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.5))
    shifted.network = observation.model()
    below = {
        field: {f"network.{name}": value for name, value in getattr(observation, field).items()}
        for field in ("weights", "updates", "each")
    }
    below["weights"] |= {n: v.numpy()[None] for n, v in shifted.state_dict().items() if "normalise" in n}
    with pytest.raises(Unfit, match="the network normalises them"):
        imprint(replace(observation, own=shifted, **below), torch.Generator())


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


@pytest.mark.parametrize("together", [True, False])
def test_after_local_steps_a_bin_holds_the_sample_that_closed_it(together: bool) -> None:
    """Of those whose mini-batch opened the bin first, alone."""
    settings = {"closing": True, "factor": 10_000.0, "step": 2}
    for seed in range(3):
        observation, samples, outputs = served(seed, together, settings, bounded=True)
        firsts = []
        for output in outputs:
            place = ((output > 0) & (output < 1)).int().argmax(1)
            rival = (place[:, None] == place) & ~torch.eye(EACH, dtype=torch.bool)
            firsts.append(~(rival & (BATCH[:, None] >= BATCH)).any(1))
        assert 0 < torch.cat(firsts).sum() < CLIENTS * EACH or seed
        assert torch.equal(came_out(observation, samples), torch.cat(firsts))
