"""Local steps and epochs as an attack takes them, against plain SGD and autograd."""

from typing import Any

import pytest
import torch
from observing import seen_of
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from trial_networks import CLASSES, network

from leakbench.attacks.matching.local_epochs import Taken, merged, taken_for
from leakbench.attacks.matching.simulation import simulated_update
from leakbench.attacks.matching.trials import Group, groups
from leakbench.federation import local_update
from leakbench.observations.observation import Observation

N, EPOCHS, SIZE, LR = 3, 2, 2, 0.1


def seen(model: nn.Module, updates: dict[str, Tensor], kind: str = "model", **options: Any) -> Observation:
    """Return the observation of one client's updates [rounds, *shape] of two epochs of three samples."""
    local = {"lr": LR, "batch_size": SIZE, "epochs": EPOCHS}
    network = {"module": "lenet_dlg", "shape": (16, 16, 1)}
    return seen_of(model, network, updates, N, kind=kind, local=local, **options)


def client(rounds: int = 2) -> tuple[nn.Module, Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Return a network, samples, the order of each epoch, and what a client that shuffles sends."""
    model = network("lenet_dlg", {}, (16, 16, 1))
    torch.manual_seed(5)
    images, labels = torch.rand(rounds, N, 1, 16, 16).double(), torch.randint(0, CLASSES, (rounds, N))
    orders = torch.tensor([[[2, 0, 1]] * rounds, [[1, 2, 0]] * rounds])
    weights = {name: p.detach() for name, p in model.named_parameters()}
    sent = local_update(model, weights, images, labels, {}, LR, SIZE, EPOCHS, "model", orders=orders)
    return model, images, labels, orders, sent


def trials(updates: str, **options: Any) -> Group:
    model, _, labels, _, sent = client()
    observation = seen(model, sent, labelling="oracle", labels=[labels.numpy()], **options)
    (found,) = groups(observation, updates, rng=torch.Generator().manual_seed(1))
    found.model.double()
    return found


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ("one-batch", Taken([])),
        ("simulated", Taken([slice(0, 2), slice(2, 3)] * 2)),
        ("shuffled", Taken([slice(0, 2), slice(2, 3)] * 2, shuffled=True)),
        ("reshuffled", Taken([slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6)], 2, shuffled=True)),
        ("epochs", Taken([slice(0, 3)] * 2, stride=2)),
    ],
)
def test_the_steps_are_those_of_the_client_as_it_is_taken_for(updates: Any, expected: Taken) -> None:
    assert taken_for(seen(*client()[::4]), N, updates) == expected


@pytest.mark.parametrize("updates", ["simulated", "shuffled", "reshuffled", "epochs"])
def test_of_a_gradient_nothing_is_simulated(updates: Any) -> None:
    assert taken_for(seen(*client()[::4], kind="gradient"), N, updates) == Taken([])


def test_the_epochs_own_images_cause_what_a_client_that_shuffles_sends() -> None:
    """The truth is among what the attack seeks: each epoch's images in the order in which they were taken."""
    _, images, labels, orders, sent = client()
    of = trials("reshuffled")
    order = torch.cat(list(orders), 1)
    x, y = (torch.stack([v[r, order[r]] for r in range(2)]) for v in (images, labels))
    assert (of.batch, of.samples, of.epochs) == (6, 3, 2)
    found = of.caused(x.requires_grad_(), y, torch.arange(2), {})
    for name, value in sent.items():
        assert value.abs().max() > 1e-6
        torch.testing.assert_close(found[name].detach(), value, rtol=1e-6, atol=1e-10)
    one_order = of.caused(
        images.repeat(1, 2, 1, 1, 1).requires_grad_(), labels.repeat(1, 2), torch.arange(2), {}
    )
    last = list(sent)[-2]
    assert not torch.allclose(one_order[last], sent[last], rtol=1e-3, atol=1e-9)


def test_the_derivative_is_autograds() -> None:
    labels = client()[2]
    of = trials("reshuffled")
    x = torch.rand(2, 6, 1, 16, 16, generator=torch.Generator().manual_seed(8)).double().requires_grad_()
    y = labels.repeat(1, 2)
    along = {name: torch.randn_like(p) for name, p in of.model.named_parameters()}
    found = of.caused(x, y, torch.arange(2), {})
    total = torch.stack([(value * along[name]).sum() for name, value in found.items()]).sum()
    (derivative,) = torch.autograd.grad(total, x)
    for trial in range(2):
        one = x[trial].detach().requires_grad_()
        start = {name: p.detach().requires_grad_() for name, p in of.model.named_parameters()}
        weights = dict(start)
        for begin, end in ((0, 2), (2, 3), (3, 5), (5, 6)):
            logits = functional_call(of.model, weights, (one[begin:end],))
            loss = cross_entropy(logits, y[trial, begin:end])
            slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: w - LR * g for (name, w), g in zip(weights.items(), slopes, strict=True)}
        total = torch.stack([((weights[n] - start[n]) * v).sum() for n, v in along.items()]).sum()
        (slope,) = torch.autograd.grad(total, one)
        # Every image of every epoch has a slope of its own.
        assert float(slope.flatten(1).norm(dim=1).min()) > 0
        assert float((derivative[trial] - slope).norm() / slope.norm()) < 1e-6


def test_a_step_an_epoch_is_as_long_as_the_epochs_steps() -> None:
    model, images, labels, _, _ = client()
    of = trials("epochs")
    found = of.caused(images.clone().requires_grad_(), labels, torch.arange(2), {})
    weights = {name: p.detach() for name, p in model.named_parameters()}
    expected = local_update(model.double(), weights, images, labels, {}, 2 * LR, None, EPOCHS, "model")
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
    for updates in ("simulated", "shuffled"):
        assert torch.equal(trials(updates).labels, labels)
    assert torch.equal(trials("reshuffled").labels, labels.repeat(1, 2))


def test_images_are_paired_with_the_first_epochs_and_averaged() -> None:
    first = torch.rand(2, 4, 3, 5, 5, generator=torch.Generator().manual_seed(2))
    later = first[:, [2, 0, 3, 1]] + 0.02
    torch.testing.assert_close(merged(torch.cat([first, later], 1), 2), first + 0.01)
    three = torch.cat([first, later, first[:, [1, 2, 3, 0]] + 0.04], 1)
    torch.testing.assert_close(merged(three, 3), first + 0.02)


def test_the_pairing_has_the_largest_sum_of_psnr() -> None:
    """Images of one pixel: 0 and 4 in the first epoch, 3 and 9 or 2 and 7 in the second."""
    # Products of distances: {0 with 3, 4 with 9} 15, {0 with 9, 4 with 3} 9 with the larger sum of squares.
    near = torch.tensor([0.0, 4.0, 3.0, 9.0]).view(1, 4, 1, 1, 1)
    assert merged(near, 2).flatten().tolist() == [4.5, 3.5]
    # {0 with 2, 4 with 7} 6, {0 with 7, 4 with 2} 14.
    far = torch.tensor([0.0, 4.0, 2.0, 7.0]).view(1, 4, 1, 1, 1)
    assert merged(far, 2).flatten().tolist() == [1.0, 5.5]


def test_equal_images_and_one_epoch_are_left_as_they_are() -> None:
    images = torch.rand(1, 4, 1, 3, 3)
    assert merged(images, 1) is images
    same = torch.ones(1, 4, 1, 3, 3)
    assert torch.equal(merged(same, 2), same[:, :2])


STEPS = [slice(0, 2), slice(2, 4), slice(4, 5)]


def drawn() -> tuple[nn.Module, Tensor, Tensor]:
    model = network("resnet20_4", {"width": 2})
    torch.manual_seed(5)
    return model, torch.rand(2, 5, 3, 16, 16, dtype=torch.float64), torch.randint(0, CLASSES, (2, 5))


def test_the_update_is_that_of_plain_sgd() -> None:
    model, images, labels = drawn()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    found = simulated_update(
        model.requires_grad_(False), images.clone().requires_grad_(), labels, STEPS * 2, 0.05
    )
    for trial in range(2):
        model.load_state_dict(start)
        model.requires_grad_(True)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(2):
            for part in STEPS:
                optimiser.zero_grad()
                cross_entropy(model(images[trial, part]), labels[trial, part]).backward()
                optimiser.step()
        for name, parameter in model.named_parameters():
            expected = parameter.detach() - start[name]
            assert expected.abs().max() > 1e-6
            torch.testing.assert_close(found[name][trial], expected, rtol=1e-6, atol=1e-10)


def test_the_model_is_not_moved() -> None:
    model, images, labels = drawn()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    simulated_update(model.requires_grad_(False), images.requires_grad_(), labels, STEPS, 0.05)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
