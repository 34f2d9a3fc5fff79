"""Local steps and epochs as an attack takes them, against plain SGD and autograd."""

from typing import Any

import pytest
import torch
from observing import seen_of, sent_by
from torch import Tensor, nn
from trial_networks import CLASSES, network

from leakbench.attacks.matching.local_epochs import Taken, merged, taken_for
from leakbench.attacks.matching.trials import Group, groups
from leakbench.observations.observation import Observation

N, EPOCHS, SIZE, LR = 3, 2, 2, 0.1


LOCAL = {"lr": LR, "batch_size": SIZE, "epochs": EPOCHS}


def seen(model: nn.Module, updates: dict[str, Tensor], kind: str = "model", **options: Any) -> Observation:
    """Return the observation of one client's updates [rounds, *shape] of two epochs of three samples."""
    network = {"module": "lenet_dlg", "shape": (16, 16, 1)}
    return seen_of(model, network, updates, N, kind=kind, local=LOCAL, **options)


def client(rounds: int = 2) -> tuple[nn.Module, Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Return a network, samples, the order of each epoch, and what a client that shuffles sends."""
    model = network("lenet_dlg", {}, (16, 16, 1))
    torch.manual_seed(5)
    images, labels = torch.rand(rounds, N, 1, 16, 16).double(), torch.randint(0, CLASSES, (rounds, N))
    orders = torch.tensor([[[2, 0, 1]] * rounds, [[1, 2, 0]] * rounds])
    return model, images, labels, orders, sent_by(model, images, labels, "model", LOCAL, orders=orders)


def trials(updates: str, **options: Any) -> Group:
    model, _, labels, _, sent = client()
    observation = seen(model, sent, labelling="oracle", labels=[labels.numpy()], **options)
    (found,) = groups(observation, updates, rng=torch.Generator().manual_seed(1))
    found.model.double()
    return found


@pytest.mark.parametrize(
    ("updates", "expected"),
    [("one-batch", Taken([])), ("simulated", Taken([slice(0, 2), slice(2, 3)] * 2)),
     ("shuffled", Taken([slice(0, 2), slice(2, 3)] * 2, shuffled=True)),
     ("reshuffled", Taken([slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6)], 2, shuffled=True)),
     ("epochs", Taken([slice(0, 3)] * 2, stride=2))],
)  # fmt: skip
def test_the_steps_are_those_of_the_client_as_it_is_taken_for(updates: Any, expected: Taken) -> None:
    assert taken_for(seen(*client()[::4]), N, updates) == expected
    assert taken_for(seen(*client()[::4], kind="gradient"), N, updates) == Taken([])


def test_the_epochs_own_images_cause_what_a_client_that_shuffles_sends() -> None:
    """The truth is among what the attack seeks: each epoch's images in the order in which they were taken."""
    _, images, labels, orders, sent = client()
    of = trials("reshuffled")
    order = torch.cat(list(orders), 1)
    x, y = (torch.stack([v[r, order[r]] for r in range(2)]) for v in (images, labels))
    assert (of.batch, of.samples, of.epochs) == (6, 3, 2)
    before = {name: value.clone() for name, value in of.model.state_dict().items()}
    found = of.caused(x.requires_grad_(), y, torch.arange(2), {})
    assert all(torch.equal(value, before[name]) for name, value in of.model.state_dict().items())
    for name, value in sent.items():
        assert value.abs().max() > 1e-6
        torch.testing.assert_close(found[name].detach(), value, rtol=1e-6, atol=1e-10)
    one_order = of.caused(
        images.repeat(1, 2, 1, 1, 1).requires_grad_(), labels.repeat(1, 2), torch.arange(2), {}
    )
    last = list(sent)[-2]
    assert not torch.allclose(one_order[last], sent[last], rtol=1e-3, atol=1e-9)


def test_a_step_an_epoch_is_as_long_as_the_epochs_steps() -> None:
    model, images, labels, _, _ = client()
    of = trials("epochs")
    found = of.caused(images.clone().requires_grad_(), labels, torch.arange(2), {})
    local = {"lr": 2 * LR, "epochs": EPOCHS}
    expected = sent_by(model.double(), images, labels, "model", local)
    for name, value in expected.items():
        torch.testing.assert_close(found[name].detach(), value, rtol=1e-6, atol=1e-10)


def test_inferred_labels_are_put_in_an_order_by_chance_that_every_epoch_repeats() -> None:
    model, _, _, _, sent = client(rounds=8)
    observation = seen(model, sent, labelling="counted")

    def labels(updates: Any, seed: int, restarts: int = 1) -> Tensor:
        (found,) = groups(observation, updates, restarts, torch.Generator().manual_seed(seed))
        return found.labels

    plain, mixed, again = labels("simulated", 1), labels("reshuffled", 1, 4), labels("reshuffled", 1, 4)
    assert mixed.shape == (32, 6)
    assert torch.equal(mixed, again)
    assert torch.equal(mixed[:, :3], mixed[:, 3:])
    assert torch.equal(mixed[:, :3].sort(1).values, plain.repeat_interleave(4, 0))
    orders = {tuple(row) for row in mixed[:, :3].tolist()}
    assert len(orders) > len({tuple(row) for row in plain.tolist()})
    assert labels("shuffled", 1).shape == (8, 3)


def test_labels_that_are_given_keep_their_order() -> None:
    labels = client()[2]
    assert torch.equal(trials("shuffled").labels, labels)
    assert torch.equal(trials("reshuffled").labels, labels.repeat(1, 2))


def test_images_are_paired_with_the_first_epochs_and_averaged() -> None:
    first = torch.rand(2, 4, 3, 5, 5, generator=torch.Generator().manual_seed(2))
    three = torch.cat([first, first[:, [2, 0, 3, 1]] + 0.02, first[:, [1, 2, 3, 0]] + 0.04], 1)
    torch.testing.assert_close(merged(three, 3), first + 0.02)
    assert merged(first, 1) is first
    same = torch.ones(1, 4, 1, 3, 3)
    assert torch.equal(merged(same, 2), same[:, :2])


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        # Distances' products: {0 with 3, 4 with 9} 15, {0 with 9, 4 with 3} 9 with the larger sum of squares.
        ([3.0, 9.0], [4.5, 3.5]),
        # {0 with 2, 4 with 7} 6, {0 with 7, 4 with 2} 14.
        ([2.0, 7.0], [1.0, 5.5]),
    ],
)
def test_the_pairing_has_the_largest_sum_of_psnr(later: list[float], expected: list[float]) -> None:
    """Images of one pixel: 0 and 4 in the first epoch."""
    assert merged(torch.tensor([0.0, 4.0, *later]).view(1, 4, 1, 1, 1), 2).flatten().tolist() == expected
