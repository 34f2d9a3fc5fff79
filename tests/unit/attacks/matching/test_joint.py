"""Joint problems, and how images of consecutive epochs are paired."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from trial_networks import CLASSES, everything, gradient, group, network, ones, priors, terms

from leakbench.attacks.matching.joint import EpochTerm, JointObjective, one_by_one, whole_batches
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.trials import Group
from leakbench.attacks.matching.update_matching import chains, greedy, partners, squared_errors

SHAPE, BATCH, UPDATES = (8, 8, 2), 3, 4
SAMPLES = {range(0, 3): torch.tensor([[0, 5, 11], [4, 4, 0], [8, 1, 7]])}


def epoch(seed: int) -> Group:
    torch.manual_seed(seed)
    images = torch.rand(UPDATES, BATCH, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (UPDATES, BATCH))
    return group(network("lenet_dlg", {}, SHAPE, seed), images, labels)


def flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in tensors.values()])


def test_the_common_image_is_one_unknown_and_all_others_are_their_own() -> None:
    (problems,) = one_by_one(SAMPLES, BATCH)
    assert problems.unknowns(BATCH) == 1 + 3 * 2
    assert problems.rows.tolist() == [[0, 1, 3], [1, 1, 0], [2, 0, 2]]
    assert problems.places(BATCH, 0).tolist() == [[0, 1, 2], [1, 0, 2], [1, 2, 0]]
    assert problems.places(BATCH, 1).tolist() == [[3, 4, 0], [3, 0, 4], [3, 0, 4]]
    assert problems.places(BATCH, 2).tolist() == [[5, 6, 0], [0, 5, 6], [5, 0, 6]]
    (problems,) = whole_batches(UPDATES, 2, BATCH)
    assert problems.unknowns(BATCH) == BATCH
    assert problems.rows.tolist() == [[i, i] for i in range(UPDATES)]
    assert problems.places(BATCH, 1).tolist() == [list(range(BATCH))] * UPDATES


@pytest.mark.parametrize("way", ["one by one", "whole batches"])
def test_losses_and_slopes_are_autograds_of_equation_5(way: str) -> None:
    epochs = [epoch(seed) for seed in range(3)]
    (problems,) = one_by_one(SAMPLES, BATCH) if way == "one by one" else whole_batches(UPDATES, 3, BATCH)
    size = problems.unknowns(BATCH), SHAPE[2], *SHAPE[:2]
    rng = torch.Generator().manual_seed(9)
    start = torch.randn(len(problems.rows), *size, generator=rng, dtype=torch.float64)
    parts = [
        EpochTerm(
            Objective(of, terms("cosine", ones, 0.0)), problems.rows[:, number],
            problems.places(BATCH, number), 0.1 if number else 1.0,
        )
        for number, of in enumerate(epochs)
    ]  # fmt: skip
    # In another order than all problems.
    rows = torch.arange(len(start)).flip(0)[:3]
    objective = JointObjective(parts, priors(0.01))
    losses, slopes = objective.evaluate(rows)({"images": start[rows]})
    assert objective.chunk(Adam(0.1, 1, False, False)) >= 1
    for place, one in enumerate(rows.tolist()):
        images = start[one].clone().requires_grad_()
        expected = 0.01 * (images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean())
        for number, of in enumerate(epochs):
            row = int(problems.rows[one, number])
            batch = torch.stack([images[i] for i in problems.places(BATCH, number)[one].tolist()])
            dummy = gradient(of.model, of.to_pixels(batch), of.labels[row], create_graph=True)
            of.model.requires_grad_(False)
            observed = flat({name: everything(of)[name][row] for name in dummy})
            apart = 1 - cosine_similarity(flat(dummy), observed, dim=0)
            expected = expected + (0.1 if number else 1.0) * apart
        (slope,) = torch.autograd.grad(expected, images)
        assert losses[place].item() == pytest.approx(expected.item(), rel=1e-6)
        torch.testing.assert_close(slopes["images"][place], slope, rtol=1e-6, atol=1e-12)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pooling", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 6), (1, 5, 5)])
def test_errors_are_mean_squares_of_every_pair(pooling: bool, shape: tuple[int, int, int]) -> None:
    a, b = drawn(3, *shape), drawn(5, *shape, seed=1)

    def seen(image: Tensor) -> np.ndarray:
        x = image.numpy().astype(np.float64)
        rows, columns = x.shape[1] // 2, x.shape[2] // 2
        small = x[:, : 2 * rows, : 2 * columns].reshape(len(x), rows, 2, columns, 2).mean((2, 4))
        return small if pooling else x

    found = squared_errors(a, b, pooling)
    for i, j in itertools.product(range(3), range(5)):
        expected = np.square(seen(a[i]) - seen(b[j])).mean()
        assert float(found[i, j]) == pytest.approx(expected, rel=1e-6)
    many = drawn(40, 3, 32, 32)
    assert squared_errors(many, many, pooling).diagonal().abs().max() == 0


def by_hand(errors: Tensor, allowed: Tensor) -> list[int]:
    """Return the greedy pairs by looking at all pairs again for every choice."""
    partner = [-1] * errors.shape[1]
    left = [(float(errors[i, j]), i, j) for i, j in allowed.nonzero().tolist()]
    while left:
        _, i, j = min(left)
        partner[j] = i
        left = [each for each in left if each[1] != i and each[2] != j]
    return partner


@pytest.mark.parametrize("size", [(1, 1), (4, 4), (3, 6), (6, 3)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_greedy_is_the_nearest_free_pair_each_time(size: tuple[int, int], share: float) -> None:
    for seed in range(20):
        errors = drawn(*size, seed=seed).double()
        # Every other time there are ties.
        errors = (errors * 3).floor() if seed % 2 else errors
        allowed = drawn(*size, seed=seed + 100) < share
        partner = greedy(errors, allowed).tolist()
        assert partner == by_hand(errors, allowed)
        assert share < 1 or sum(row >= 0 for row in partner) == min(size)


def test_images_are_filtered_by_their_updates_lists() -> None:
    images = torch.arange(4.0)[:, None, None, None].expand(4, 1, 2, 2)
    first = (images.unflatten(0, (2, 2)), torch.tensor([[0, 1], [2, 3]]))
    # Image 3, whose own label is 3, may go with any image of an update that lists 2 or 3.
    second = (images[[3, 0, 1, 2]].unflatten(0, (2, 2)), torch.tensor([[0, 2], [1, 1]]))
    assert partners([first, second], True, False)[1].tolist() == [[3, 0], [1, 2]]
    assert partners([first, second], True, True)[1].tolist() == [[3, 0], [1, -1]]
    assert partners([first, second], True, True)[0].tolist() == [[-1, -1]] * 2


def test_samples_follow_their_partners_through_the_epochs() -> None:
    found = chains(
        [torch.tensor([[-1], [-1], [-1]]), torch.tensor([[2], [-1], [0]]), torch.tensor([[1], [0], [-1]])]
    )
    assert {seen: samples.tolist() for seen, samples in found.items()} == {
        range(0, 1): [[1]], range(0, 2): [[0, 2]], range(0, 3): [[2, 0, 1]], range(1, 3): [[1, 0]],
        range(2, 3): [[2]],
    }  # fmt: skip
