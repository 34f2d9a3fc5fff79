"""A client that goes over one private set several times: who is in which batch, and from which model."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from federations import LABELS, federation
from pydantic import ValidationError
from torch import Tensor, nn

from leakbench.defences import Defence
from leakbench.federation import play, private_samples

settings = partial(federation, clients=[3], rounds=8, passes=2, server="fedavg")


def drawn(**changes: Any) -> np.ndarray:
    return private_samples(settings(**changes), LABELS, ("made", "federation", 0)).images[0]


def test_shuffled_passes_hold_the_same_samples_in_another_order() -> None:
    first, second = drawn().reshape(2, 12)
    assert len(set(first.tolist())) == 12
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


def test_passes_of_a_fixed_set_have_the_same_batches_in_the_same_order() -> None:
    first, second, third = drawn(local_set="fixed", passes=3, rounds=12).reshape(3, 4, 3)
    assert len(set(first.ravel().tolist())) == 12
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)


def test_batches_of_a_fixed_set_may_be_free_of_repeated_labels() -> None:
    images = drawn(local_set="fixed", distinct_labels=True)
    assert len(set(images[:4].ravel().tolist())) == 12
    assert all(len(set(LABELS[row])) == 3 for row in images.tolist())


def test_shuffled_passes_cannot_promise_labels() -> None:
    with pytest.raises(ValidationError, match="distinct_labels does not hold for shuffled passes"):
        settings(distinct_labels=True)


@pytest.mark.parametrize(("update", "second"), [("model", 1 + 4 * 0.25), ("gradient", 1 - 0.2 * 4 * 0.25)])
def test_the_model_moves_after_a_pass_by_all_its_updates(
    monkeypatch: pytest.MonkeyPatch, update: str, second: float
) -> None:
    def quarter(model: nn.Module, sent: dict[str, Tensor], images: Tensor, *_: Any) -> dict[str, Tensor]:
        return {"weight": torch.full((len(images), 1), 0.25)}

    monkeypatch.setitem(play.__globals__, "local_update", quarter)
    federation = settings(update=update)
    truth = private_samples(federation, LABELS, ("made", "federation", 0))
    images = torch.zeros(60, 2, 2, 1, dtype=torch.uint8)
    rounds: list[range] = []

    def sink(part: slice, client: int, update: dict[str, Tensor]) -> None:
        rounds.append(range(*part.indices(8)))

    start = {"weight": torch.tensor([1.0])}
    sent = play(nn.Linear(1, 1), [start], images, truth, federation, Defence(), 0, sink)
    assert [model["weight"].item() for model in sent] == pytest.approx([1.0, second])
    assert [turn for part in rounds for turn in part] == list(range(8))
