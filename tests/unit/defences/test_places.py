"""The six places where a defence may act, on a federation and in training."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakbench.defences import Batch, Defence, Update
from leakbench.federation import Private, play
from leakbench.federation import play as play_function
from leakbench.federation.training.federated import Trainee, train_locally

SHAPE, CLASSES, COUNT = (4, 4, 1), 3, 12
IMAGES = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (COUNT, *SHAPE), dtype=np.uint8))
LABELS = np.random.default_rng(0).integers(0, CLASSES, COUNT)
PLACES = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def mean(batch: Batch, rng: torch.Generator) -> Update:
    """Return what training without a defence goes by: the mean of the samples' gradients."""
    parts = list(batch.gradients())
    return {name: torch.cat([part[name] for part in parts]).mean(0) for name in parts[0]}


def played(defence: Defence, **changes: Any) -> dict[str, Tensor]:
    """Return parameter → [rounds, *shape] of one client with four images in each of three rounds."""
    federation = {
        "clients": [4], "rounds": 3, "local": {"lr": 0.2, "batch_size": 2, "epochs": 2}, "update": "model",
        "server": "frozen", "passes": 1,
    } | changes  # fmt: skip
    model = network()
    updates = {name: torch.full((3, *value.shape), torch.nan) for name, value in model.state_dict().items()}

    def sink(part: slice, client: int, update: Update) -> None:
        for name, value in update.items():
            updates[name][part] = value

    truth = Private([PLACES], [LABELS[PLACES]])
    play(model, [model.state_dict()], IMAGES, truth, federation, defence, 0, sink)
    return updates


def same(a: Update, b: Update, within: float = 1e-6) -> bool:
    return all(torch.allclose(value, b[name], atol=within) for name, value in a.items())


@pytest.mark.parametrize("update", ["model", "gradient"])
@pytest.mark.parametrize("server", ["frozen", "fedavg"])
def test_the_mean_of_the_samples_gradients_is_training_without_a_defence(update: str, server: str) -> None:
    found = played(Defence(examples=mean), update=update, server=server)
    assert same(found, played(Defence(), update=update, server=server))
    half = Defence(examples=lambda batch, rng: {n: 0.5 * v for n, v in mean(batch, rng).items()})
    assert not same(played(half, update=update, server=server), found, 1e-3)


def test_a_step_remembers_what_the_rounds_remember() -> None:
    def counted(batch: Batch, rng: torch.Generator) -> Update:
        batch.memory["steps"] = batch.memory.get("steps", torch.zeros(())) + 1
        return {name: torch.zeros_like(value) for name, value in batch.weights.items()}

    def told(update: Update, memory: Update, rng: torch.Generator) -> Update:
        return {name: torch.full_like(value, float(memory["steps"])) for name, value in update.items()}

    # Two epochs of two batches in each of three rounds.
    assert played(Defence(examples=counted, rounds=told))["1.bias"][:, 0].tolist() == [4, 8, 12]


def test_samples_gradients_come_in_pieces_and_have_the_right_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    batch = Batch(model, weights, IMAGES.float().permute(0, 3, 1, 2) / 255, torch.from_numpy(LABELS))
    (whole,) = batch.gradients()
    assert same(batch.mean(), mean(batch, torch.Generator()))
    monkeypatch.setattr("leakbench.defences.EXAMPLE_BYTES", 4 * 5 * sum(v.numel() for v in weights.values()))
    parts = list(batch.gradients())
    assert [len(part["1.bias"]) for part in parts] == [5, 5, 2]
    assert same({name: torch.cat([part[name] for part in parts]) for name in whole}, whole)


def test_inputs_take_the_place_of_a_rounds_images_and_labels() -> None:
    def other(images: Tensor, labels: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        assert images.shape == (4, 1, 4, 4)
        assert images.max() <= 1
        return 1 - images, labels.flip(0)

    found = played(Defence(inputs=other))
    assert not same(found, played(Defence()), 1e-3)
    twice = Defence(inputs=lambda images, labels, rng: other(*other(images, labels, rng), rng))
    assert same(played(twice), played(Defence()))


def test_a_client_remembers_from_round_to_round_and_no_longer() -> None:
    def counted(update: Update, memory: Update, rng: torch.Generator) -> Update:
        memory["rounds"] = memory.get("rounds", torch.zeros(())) + 1
        return {name: torch.full_like(value, float(memory["rounds"])) for name, value in update.items()}

    for _ in range(2):
        assert played(Defence(rounds=counted))["1.bias"][:, 0].tolist() == [1, 2, 3]
    # What `update` sends is what `rounds` is given.
    halved = Defence(
        update=lambda update, rng: {name: value / 2 for name, value in update.items()},
        rounds=lambda update, memory, rng: {name: value * 2 for name, value in update.items()},
    )
    assert same(played(halved), played(Defence()))


def noisy(batch: Batch, rng: torch.Generator) -> Update:
    return {name: v + torch.randn(v.shape, generator=rng) for name, v in mean(batch, rng).items()}


def test_chance_does_not_depend_on_how_many_rounds_go_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defence = Defence(
        examples=noisy, update=lambda u, rng: {n: v * torch.rand(1, generator=rng) for n, v in u.items()}
    )
    whole = played(defence)
    monkeypatch.setitem(play_function.__globals__, "WORKING_BYTES", 1)
    alone = played(defence)
    assert all(torch.equal(value, alone[name]) for name, value in whole.items())


def test_training_goes_by_what_the_places_return() -> None:
    def trained(defence: Defence) -> Update:
        model = network()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        client = Trainee(model, optimiser, frozenset(), IMAGES, torch.from_numpy(LABELS))
        prepare = lambda x, rng: x.permute(0, 3, 1, 2).float() / 255  # noqa: E731
        rng = torch.Generator().manual_seed(0)
        train_locally(client, {"local_epochs": 2, "batch_size": 4}, 0.5, prepare, rng, defence)
        return {name: value.detach() for name, value in model.named_parameters()}

    plain = trained(Defence())
    assert same(trained(Defence(examples=mean)), plain)
    none = Defence(examples=lambda batch, rng: {n: torch.zeros_like(v) for n, v in batch.weights.items()})
    assert same(trained(none), dict(network().named_parameters()))
    dark = Defence(inputs=lambda images, labels, rng: (torch.zeros_like(images), labels))
    assert not same(trained(dark), plain, 1e-3)
