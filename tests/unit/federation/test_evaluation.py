"""The model's accuracy over a federation's rounds."""

from typing import Any

import numpy as np
import pytest
import torch
from federations import LABELS, federation
from torch import Tensor, nn

from leakbench.defences import Defence
from leakbench.federation import accuracy, evaluation, held_out, play, private_samples
from leakbench.networks import victims

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
