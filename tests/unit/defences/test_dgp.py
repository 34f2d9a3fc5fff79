"""DGP: what it drops of a tensor, and when the dropped part arrives."""

import pytest
import torch

from leakbench import defences
from leakbench.base.errors import UserError
from leakbench.defences import Update, protected, sent_bytes
from leakbench.defences.dgp import middle

RNG = torch.Generator()
TEN = torch.tensor([1.0, -2, 3, -4, 5, -6, 7, -8, 9, -10])


def test_the_middle_is_sent() -> None:
    assert middle(TEN, 0.2, 0.5).tolist() == [0, 0, 0, 0, 0, -6, 7, -8, 0, 0]
    assert torch.equal(middle(TEN, 0, 0), TEN)
    assert middle(TEN.view(2, 5), 0.1, 0).tolist() == [[1, -2, 3, -4, 5], [-6, 7, -8, 9, 0]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_something_is_left_of_a_small_tensor(count: int) -> None:
    assert int((middle(TEN[:count], 0.45, 0.54) != 0).sum()) >= 1


def test_what_was_dropped_is_added_to_the_next_round() -> None:
    defence = defences.build("dgp", {"largest": 0.25, "smallest": 0.5})
    update = {"a": torch.tensor([[8.0, 4.0, 2.0, 1.0], [0.0, 0.0, 7.0, 0.0]])}
    memory: Update = {}
    first = protected(defence, update, memory, RNG)["a"]
    # The second round stands at 8, 0, 9 and 1: of these 8 is neither the largest nor of the smaller half.
    assert first.tolist() == [[0, 4, 0, 0], [8, 0, 0, 0]]
    assert memory["a"].tolist() == [[0, 0, 9, 1]]
    # What was sent and what is kept add up to the updates.
    assert torch.equal(first.sum(0) + memory["a"][0], update["a"].sum(0))


def test_without_feedback_rounds_know_nothing_of_each_other() -> None:
    defence = defences.build("dgp", {"largest": 0.25, "smallest": 0.5, "feedback": False})
    memory: Update = {}
    sent = protected(defence, {"a": torch.tensor([[8.0, 4, 2, 1], [1, 2, 4, 8]])}, memory, RNG)
    assert sent["a"].tolist() == [[0, 4, 0, 0], [0, 0, 4, 0]]
    assert not memory


def test_clients_and_tensors_have_memories_of_their_own() -> None:
    defence = defences.build("dgp", {})
    update = {"a": torch.randn(1, 40), "b": torch.randn(1, 5, 8)}
    memories: list[Update] = [{}, {}]
    one = protected(defence, update, memories[0], RNG)
    assert {name: value.shape for name, value in memories[0].items()} == {
        name: value.shape for name, value in update.items()
    }
    other = protected(defence, update, memories[1], RNG)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_zeros_are_not_sent() -> None:
    defence = defences.build("dgp", {})
    sent = protected(defence, {"a": torch.randn(1, 1000)}, {}, RNG)
    # A fifth at 32 bits, and a bit for each place.
    assert sent_bytes(defence, sent).tolist() == [(200 * 32 + 1000) // 8]


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(UserError, match=r"largest \(0.5\) and smallest \(0.5\) drop every coordinate"):
        defences.build("dgp", {"largest": 0.5, "smallest": 0.5})
