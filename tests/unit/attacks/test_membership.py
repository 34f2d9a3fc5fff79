"""Span membership: members of a batch are found behind any activation, and near-misses are refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from observations import observe
from observing import seen_of, sent_by
from torch import Tensor

from leakbench.attacks import run
from leakbench.attacks.exact.membership import certified, outside, spans
from leakbench.attacks.exact.span import span
from leakbench.base.errors import Unfit
from leakbench.metrics.membership import membership_auc, tpr_at_fpr_0
from leakbench.networks import victims
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

SHAPE, K, OTHERS = (8, 8, 3), 12, 100
LOCAL = {"lr": 0.05, "batch_size": 4, "epochs": 3}
DECAY = {"weight_decay": 0.01}


def attacked(observation: Observation) -> Reconstruction:
    return run({"module": "membership", "parameters": {}}, observation, torch.Generator())


def held(
    activation: str = "tanh", clients: int = 1, local: dict[str, Any] | None = None, module: str = "mlp",
    **parameters: Any,
) -> tuple[Observation, np.ndarray]:  # fmt: skip
    """Return an observation of a sum of clients with K images each, and which candidates are members."""
    torch.manual_seed(0)
    parameters = {"hidden": [64, 20], "activation": activation} if module == "mlp" else parameters
    model = victims.build(module, SHAPE, 10, parameters)
    stored = torch.randint(0, 256, (clients * K + OTHERS, *SHAPE), dtype=torch.uint8)
    images = (stored.permute(0, 3, 1, 2) / 255)[: clients * K].unflatten(0, (clients, K))
    kind = "model" if local else "gradient"
    updates = sent_by(model, images, torch.randint(0, 10, (clients, K)), kind, local or {})
    total = {name: value.sum(0, keepdim=True) for name, value in updates.items()}
    order = torch.randperm(len(stored))
    network = {"module": module, "parameters": parameters, "shape": SHAPE}
    more = {"candidates": stored[order].numpy()} | ({"local": local} if local else {})
    return seen_of(model, network, total, clients * K, kind=kind, **more), (order < clients * K).numpy()


@pytest.mark.parametrize(
    ("activation", "clients", "local"),
    [("relu", 1, None), ("tanh", 1, LOCAL), ("sigmoid", 3, LOCAL), ("relu", 3, LOCAL | DECAY)],
)
def test_members_are_found(activation: str, clients: int, local: dict[str, Any] | None) -> None:
    observation, members = held(activation, clients, local)
    found = attacked(observation)
    score, accepted = (value[0, 0].numpy() for value in (found.span_distance, found.usable))
    assert tpr_at_fpr_0(score, members, accepted) == 1.0
    assert not accepted[~members].any()
    assert accepted[members].mean() > 0.9
    assert found.images.numel() == 0


ADAMW = {"lr": 0.001, "batch_size": None, "epochs": 1, "optimiser": "adamw", **DECAY}


@pytest.mark.parametrize(
    "local", [None, LOCAL, LOCAL | DECAY, LOCAL | DECAY | {"batch_size": None, "epochs": 1}]
)
@pytest.mark.parametrize("down", [True, False])
def test_an_adapter_gives_away_its_members(local: dict[str, Any] | None, down: bool) -> None:
    """In the first step from B, later from A, and with A frozen from B."""
    observation, members = held(local=local, module="adapted", width=64, rank=32, down=down)
    accepted = attacked(observation).usable[0, 0].numpy()
    assert accepted[members].mean() > 0.9
    assert not accepted[~members].any()


@pytest.mark.parametrize("down", [True, False])
def test_one_step_of_adamw_on_an_adapter_ranks_its_members(down: bool) -> None:
    """Decay moves A, whose gradient is zero."""
    observation, members = held(local=ADAMW, module="adapted", width=64, rank=32, down=down)
    found = attacked(observation)
    assert tpr_at_fpr_0(found.span_distance[0, 0].numpy(), members, found.usable[0, 0].numpy()) > 0.9


def test_an_adapter_of_a_rank_below_the_batch_leaves_no_span() -> None:
    observation, _ = held(module="adapted", width=64, rank=8)
    with pytest.raises(Unfit, match=r"dense1\.up has 64 × 8"):
        attacked(observation)
    observation.updates.clear()
    with pytest.raises(Unfit, match="frozen"):
        attacked(observation)


def test_a_decay_that_nobody_declared_hides_members() -> None:
    observation, members = held(local=LOCAL | DECAY)
    found = attacked(replace(observation, local=LOCAL))
    assert found.usable[0, 0].numpy()[members].mean() < 0.5
    assert not found.usable[0, 0].numpy()[~members].any()


def test_noise_tells_nothing() -> None:
    observation, members = held()
    found = attacked(observation.randomised(1, torch.Generator().manual_seed(1)))
    assert not found.usable.any()
    assert 0.3 < membership_auc(found.span_distance[0, 0].numpy(), members, members) < 0.7


def exact(k: int = 6, inputs: int = 192) -> tuple[Tensor, Tensor]:
    """Return samples [k, inputs] and a gradient of theirs in double precision."""
    rng = torch.Generator().manual_seed(2)
    samples = torch.rand(k, inputs, generator=rng, dtype=torch.float64)
    return samples, torch.randn(30, k, generator=rng, dtype=torch.float64) @ samples


@pytest.mark.parametrize("miss", ["another", "noise", "one pixel", "neighbour"])
def test_near_misses_are_refused(miss: str) -> None:
    samples, slope = exact()
    seen = span(slope, len(samples), clear=1.0)
    assert outside(seen, samples)[1].all()
    rng = torch.Generator().manual_seed(3)
    near = samples.clone()
    match miss:
        case "another":
            near = torch.rand(samples.shape, generator=rng, dtype=torch.float64)
        case "noise":
            near += 1e-6 * torch.randn(samples.shape, generator=rng, dtype=torch.float64)
        case "one pixel":
            near[:, 0] += 1 / 255
        case "neighbour":
            near = near.roll(1, dims=1)
    assert not outside(seen, near)[1].any()


def test_a_sample_that_is_there_twice_is_found_and_its_mixtures_are_too() -> None:
    samples, _ = exact()
    twice = torch.cat([samples, samples[:1]])
    slope = torch.randn(30, 7, generator=torch.Generator().manual_seed(4), dtype=torch.float64) @ twice
    seen = span(slope, 7, clear=1.0)
    assert outside(seen, twice)[1].all()
    # The span is all that one update tells of its samples.
    mixed = samples.mean(0, keepdim=True)
    assert outside(seen, mixed)[1].all()
    other = torch.rand(5, 192, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    assert not outside(seen, other)[1].any()


def test_an_update_of_zeros_and_an_image_of_zeros_tell_nothing() -> None:
    samples, slope = exact()
    assert span(torch.zeros_like(slope), 6, clear=1.0) is None
    assert (outside(None, samples)[0] == 1).all()
    assert not outside(None, samples)[1].any()
    black = torch.zeros(1, 192, dtype=torch.float64)
    seen = span(slope, 6, clear=1.0)
    assert not outside(seen, black)[1].any()


def test_features_of_a_convolutional_network_are_told_apart() -> None:
    observation, members = held(module="cnn")
    found = attacked(observation)
    score = found.span_distance[0, 0].numpy()
    assert found.usable[0, 0].numpy()[members].all()
    assert score[members].max() < 1e-3 * score[~members].min()


@pytest.mark.parametrize(
    ("how", "changes", "says"),
    [({}, {"candidates": None}, "needs candidates"),
     ({}, {"kind": "model", "local": LOCAL | {"optimiser": "adam", "epochs": 2}}, "of Adam alone"),
     ({}, {"clients": [64]}, "needs fewer samples than the first"),
     ({"module": "cnn", "local": LOCAL}, {}, "features that stand still"),
     ({"module": "cnn"}, {"mode": "train"}, "statistics of its batch")],
)  # fmt: skip
def test_what_cannot_be_told_is_refused(how: dict[str, Any], changes: dict[str, Any], says: str) -> None:
    observation, _ = held(**how)
    with pytest.raises(Unfit, match=says):
        attacked(replace(observation, **changes))


def test_a_reconstruction_is_certified_from_the_update_alone() -> None:
    observation, images = observe("mlp", SHAPE, 5, 2, hidden=[40])
    lead = (2, 1, 10)
    guesses = torch.cat([images, torch.rand_like(images)], 1)[:, None]
    usable = torch.ones(lead, dtype=torch.bool)
    usable[:, :, -1] = False
    found = certified(observation, Reconstruction(guesses, usable))
    assert found.span_distance.shape == lead
    assert (found.span_distance[:, :, :5] < 1e-5).all()
    assert (found.span_distance[:, :, 5:9] > 0.1).all()
    assert found.span_distance[:, :, 9].isnan().all()


def test_a_network_that_begins_with_convolutions_gives_no_certificate() -> None:
    observation, images = observe("lenet-dlg", SHAPE, 2, 1)
    found = certified(observation, Reconstruction(images[:, None], torch.ones(1, 1, 2, dtype=torch.bool)))
    assert found.span_distance is None


def test_all_updates_have_a_span_in_their_order() -> None:
    observation, _ = observe("mlp", SHAPE, 5, 3, hidden=[40])
    assert [(seen.round, seen.client) for seen in spans(observation, "test")] == [(0, 0), (1, 0), (2, 0)]


def alike_images(seed: int, noise: float) -> tuple[Observation, np.ndarray]:
    """Return an update with noise, of images that have much in common, as a share of its deviation."""
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = {"module": "mlp", "parameters": {"hidden": [150, 20]}, "shape": SHAPE}
    model = victims.build("mlp", SHAPE, 10, network["parameters"])
    common = torch.rand(6, 3, 8, 8, generator=rng)
    mixed = torch.einsum("nk,kchw->nchw", torch.rand(K + OTHERS, 6, generator=rng), common) / 3
    images = (mixed + 0.05 * torch.randn(mixed.shape, generator=rng)).clamp(0, 1)
    stored = (images * 255).round().to(torch.uint8)
    updates = sent_by(model, stored[None, :K] / 255, torch.arange(K)[None] % 10, "gradient", {})
    updates = {
        name: value + noise * value.std() * torch.randn(value.shape, generator=rng)
        for name, value in updates.items()
    }
    seen = seen_of(model, network, updates, K, candidates=stored.permute(0, 2, 3, 1).numpy())
    return seen, np.arange(K + OTHERS) < K


def test_an_attacker_who_knows_of_noise_finds_more_members() -> None:
    whitened = {"module": "membership", "parameters": {"whitened": True}}
    plain, adapted, found, wrong = [], [], [], []
    for seed in range(6):
        observation, members = alike_images(seed, 1.0)
        for scores, attack in ((plain, {**whitened, "parameters": {}}), (adapted, whitened)):
            seen = run(attack, observation, torch.Generator())
            score, taken = seen.span_distance[0, 0].numpy(), seen.usable[0, 0].numpy()
            assert ((score >= 0) & (score <= 1)).all()
            scores.append(membership_auc(score, members, taken))
        found.append(taken[members].mean())
        wrong.append(taken[~members].sum())
    assert np.mean(adapted) > np.mean(plain) + 0.1
    assert np.mean(adapted) > 0.8
    assert np.mean(found) > 0.1
    assert np.mean(wrong) < 3
    # Without noise it finds every member too.
    observation, members = alike_images(0, 0.0)
    seen = run(whitened, observation, torch.Generator())
    assert membership_auc(seen.span_distance[0, 0].numpy(), members, members) > 0.99


def test_an_update_of_zeros_tells_the_adapted_attacker_nothing() -> None:
    observation, _ = alike_images(0, 0.0)
    zeros = {name: np.zeros_like(value) for name, value in observation.updates.items()}
    attack = {"module": "membership", "parameters": {"whitened": True}}
    seen = run(attack, replace(observation, updates=zeros), torch.Generator())
    assert not seen.usable.any()
    assert seen.span_distance.unique().tolist() == [1.0]
