"""Which samples clients hold, what a server holds beside them, and how models are evaluated."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from federations import LABELS, federation
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.base.errors import Unfit, UserError
from leakbench.defences import Defence
from leakbench.federation import (
    Private,
    accuracy,
    candidates,
    evaluation,
    held_out,
    local_update,
    play,
    private_samples,
)
from leakbench.networks import victims

settings = partial(federation, clients=[4], rounds=50, distinct_labels=True)

NAMES = ("made", "federation", 0)


def test_no_two_samples_of_an_update_share_a_label() -> None:
    truth = private_samples(settings(rounds=600), LABELS, NAMES)
    (images,), (labels,) = truth.images, truth.labels
    assert images.shape == labels.shape == (600, 4)
    # Every image has its turn.
    assert set(images.ravel().tolist()) == set(range(20, 50))
    assert np.array_equal(labels, LABELS[images])
    assert all(len(set(row)) == 4 for row in labels.tolist())
    # Rounds differ, labels are in no order, and without the key labels do repeat.
    assert len(set(map(tuple, images.tolist()))) > 500
    assert any(row != sorted(row) for row in labels.tolist())
    (free,) = private_samples(settings(distinct_labels=False), LABELS, NAMES).labels
    assert any(len(set(row)) < 4 for row in free.tolist())


@pytest.mark.parametrize("update", ["gradient", "model"])
@pytest.mark.parametrize("server", ["frozen", "fedavg"])
def test_batch_norms_statistics_are_those_sent_and_stay_as_they_are(update: str, server: str) -> None:
    federation = settings(update=update, server=server, rounds=2, clients=[3])
    torch.manual_seed(0)
    model = victims.build("resnet20-4", (16, 16, 3), 5, {"width": 8})
    for name, value in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 2)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    images = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8))
    truth = private_samples(federation, LABELS, NAMES)
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def sink(part: slice, client: int, found: dict[str, torch.Tensor]) -> None:
        for offset, turn in enumerate(range(*part.indices(2))):
            seen[turn] = {name: value[offset] for name, value in found.items()}

    sent = play(model, [start], images, truth, federation, Defence(), 0, sink)
    trained = dict(model.named_parameters())
    assert all(set(found) == set(trained) for found in seen.values())
    for weights in sent:
        assert set(weights) == set(start)
        assert all(torch.equal(weights[n], value) for n, value in start.items() if n not in trained)
    for turn, found in seen.items():
        model.load_state_dict(sent[turn] if server == "fedavg" else sent[0])
        x = images[torch.from_numpy(truth.images[0][turn])].permute(0, 3, 1, 2).contiguous().float() / 255
        loss = cross_entropy(model.eval()(x), torch.from_numpy(truth.labels[0][turn]))
        scale = 1.0 if update == "gradient" else -0.2
        for (name, _), slope in zip(
            model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            torch.testing.assert_close(found[name], scale * slope, rtol=1e-3, atol=1e-5)


settings_of_passes = partial(federation, clients=[3], rounds=8, passes=2, server="fedavg")


def drawn(**changes: Any) -> np.ndarray:
    return private_samples(settings_of_passes(**changes), LABELS, NAMES).images[0]


def test_passes_hold_the_same_samples() -> None:
    first, second = drawn().reshape(2, 12)
    assert len(set(first.tolist())) == 12
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()
    # Of a fixed set they have the same batches in the same order, and these may be free of repeated labels.
    batches = drawn(local_set="fixed", distinct_labels=True, passes=3, rounds=12).reshape(3, 4, 3)
    assert len(set(batches[0].ravel().tolist())) == 12
    assert (batches == batches[0]).all()
    assert all(len(set(LABELS[row])) == 3 for row in batches[0].tolist())


skewed = partial(federation, clients=[6], rounds=300)


def largest(**settings: float) -> float:
    truth = private_samples(skewed(**settings), LABELS, NAMES)
    (images,), (labels,) = truth.images, truth.labels
    assert 20 <= images.min() <= images.max() < 50
    assert np.array_equal(labels, LABELS[images])
    assert all(len(set(row)) == 6 for row in images.tolist())
    return float(np.mean([np.bincount(row).max() / 6 for row in labels]))


def test_a_small_concentration_skews_the_classes_and_a_large_one_does_not() -> None:
    even = largest()
    assert largest(alpha=0.1) > even + 0.3
    assert abs(largest(alpha=1000.0) - even) < 0.05


DRAWN = {"seed": 55726, "of": 16}
ONE = {"clients": [5], "rounds": 1, "drawn": DRAWN}


def test_the_update_has_the_first_of_the_images_that_the_seed_draws() -> None:
    whole = {"split": "train", "start": 0, "stop": 100}
    found = private_samples(federation(**ONE, private=whole), LABELS, NAMES)
    wanted = np.random.default_rng(55726).choice(60, size=16, replace=False)[:5]
    assert found.images[0].tolist() == [wanted.tolist()]
    assert found.labels[0].tolist() == [LABELS[wanted].tolist()]
    # No other federation has the key.
    assert "drawn" not in federation(clients=[5], rounds=1)


FEDERATION: dict[str, Any] = {"private": {"split": "test", "start": 10, "stop": 60}, "candidates": 30}
PRIVATE = Private([np.array([[10, 11], [12, 13]]), np.array([[11], [59]])], [])


def held(**changes: Any) -> np.ndarray:
    return candidates(FEDERATION | changes, PRIVATE, 100, ("set", "federation", 0, "salt"))


def test_private_images_are_among_them_once_and_others_are_of_the_private_range() -> None:
    found = held()
    assert len(found) == len(set(found)) == 30 + 5
    assert {10, 11, 12, 13, 59} <= set(found) <= set(range(10, 60))
    # The order is by chance, and repeats.
    np.testing.assert_array_equal(found, held())
    assert np.ptp(np.flatnonzero(np.isin(found, [10, 11, 12, 13, 59]))) > 5
    other = candidates(FEDERATION, PRIVATE, 100, ("set", "federation", 1, "salt"))
    assert not np.array_equal(found, other)
    assert len(candidates({"private": FEDERATION["private"]}, PRIVATE, 100, ("set",))) == 0


SKEWED = {"clients": [4], "rounds": 2, "alpha": 0.1}
OVER = "distinct_labels: the private images have 5 labels, an update needs 6"
FEW = "has 45 images beside the private ones, the federation needs 46"
PASSES = "distinct_labels does not hold for shuffled passes"
REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: private_samples(settings(clients=[6]), LABELS, NAMES), UserError, OVER),
    (lambda: settings_of_passes(distinct_labels=True), ValidationError, PASSES),
    (lambda: federation(**SKEWED, distinct_labels=True), ValidationError, "alpha"),
    (lambda: federation(**SKEWED, passes=2), ValidationError, "alpha"),
    *(
        (lambda change=change: federation(**ONE | change), ValidationError, "drawn")
        for change in ({"rounds": 2}, {"clients": [5, 5]}, {"clients": [17]}, {"alpha": 1.0})
    ),
    (lambda: held(candidates=46), Unfit, FEW),
    (lambda: candidates(FEDERATION, PRIVATE, 20, ("set",)), Unfit, "has 6 images"),
]


@pytest.mark.parametrize(("call", "kind", "says"), REFUSED)
def test_what_no_federation_can_hold_is_refused(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_a_round_is_normalised_by_its_own_batch() -> None:
    torch.manual_seed(0)
    model = victims.build("resnet20-4", (16, 16, 3), 10, {"width": 8, "statistics": "batch"}).double().eval()
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, 10, (3, 2))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    assert not dict(model.named_buffers())
    found = local_update(model, weights, images, labels, {}, {}, "gradient", {})
    for row in range(3):
        alone = torch.autograd.grad(cross_entropy(model(images[row]), labels[row]), list(model.parameters()))
        for (name, _), value in zip(model.named_parameters(), alone, strict=True):
            torch.testing.assert_close(found[name][row], value, rtol=1e-8, atol=1e-12)


SHAPE = (4, 4, 1)
IMAGES = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (60, *SHAPE), dtype=np.uint8))
TARGETS = torch.from_numpy(LABELS).long()


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return victims.build("fcnn", SHAPE, 5, {"width": 7})


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_accuracy_is_that_of_a_loop_over_images(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "BATCH", batch)
    model, other = network(), network(5)
    weights = other.state_dict()
    right = 0
    for image, label in zip(IMAGES.numpy(), LABELS, strict=True):
        logits = other(torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32) / 255))
        right += int(np.argmax(logits.detach().numpy()[0]) == label)
    assert 0 < right < 60
    assert accuracy(model, weights, IMAGES, TARGETS) == right / 60


def test_no_image_of_the_private_range_is_evaluated() -> None:
    for split, evaluate, expected in (
        ("test", 25, [*range(20), *range(50, 55)]), ("test", 10, list(range(10))),
        ("train", 25, list(range(25))), ("test", 99, [*range(20), *range(50, 60)]),
    ):  # fmt: skip
        private = {"split": split, "start": 20, "stop": 50}
        values = federation(private=private, clients=[2], rounds=1, server="fedavg", evaluate=evaluate)
        assert held_out(values, 60).tolist() == expected


def moves(**values: Any) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """Play; return the models sent out, those told of, and the updates in order."""
    model, told, updates = network(), [], []
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = federation(clients=[3], update="model", **values)
    truth = private_samples(made, LABELS, ("made", "f", 0))

    def sink(part: slice, client: int, update: dict[str, Tensor]) -> None:
        updates.append({name: value.sum(0) for name, value in update.items()})

    def moved(network: nn.Module, weights: dict[str, Tensor]) -> None:
        assert network is model
        told.append(weights)

    return play(model, [start], IMAGES, truth, made, Defence(), 0, sink, moved), told, updates


def test_every_move_is_told_the_last_too_and_a_frozen_server_moves_nothing() -> None:
    more: tuple[tuple[dict[str, Any], int], ...] = (({"rounds": 3}, 3), ({"rounds": 6, "passes": 2}, 2))
    for values, count in more:
        sent, told, updates = moves(server="fedavg", **values)
        assert len(sent) == len(told) == count
        for after, before in zip(told, sent[1:], strict=False):
            assert all(torch.equal(after[name], before[name]) for name in before)
        for name, value in sent[-1].items():
            torch.testing.assert_close(told[-1][name], value + updates[-1][name])
    assert moves(rounds=3)[1] == []
