"""Joint problems: which unknown stands where, and Eqn 5 against autograd, one problem at a time."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from trial_networks import CLASSES, everything, gradient, group, network, ones, priors, terms

from leakbench.attacks.matching.joint import JointObjective, Part, Problems, one_by_one, whole_batches
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.trials import Group

SHAPE, BATCH, UPDATES = (8, 8, 2), 3, 4


def epoch(seed: int) -> Group:
    """Return one epoch's updates of a model of its own."""
    torch.manual_seed(seed)
    images = torch.rand(UPDATES, BATCH, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (UPDATES, BATCH))
    return group(network("lenet_dlg", {}, SHAPE, seed), images, labels)


def parts(epochs: list[Group], problems: Problems, later: float = 0.1) -> list[Part]:
    return [
        Part(
            Objective(of, terms("cosine", ones, 0.0)),
            problems.rows[:, number],
            problems.places(BATCH, number),
            later if number else 1.0,
        )
        for number, of in enumerate(epochs)
    ]


def unknown(problems: Problems) -> Tensor:
    rng = torch.Generator().manual_seed(9)
    size = len(problems.rows), problems.unknowns(BATCH), SHAPE[2], *SHAPE[:2]
    return torch.randn(*size, generator=rng, dtype=torch.float64)


def flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in tensors.values()])


SAMPLES = {range(0, 3): torch.tensor([[0, 5, 11], [4, 4, 0], [8, 1, 7]])}


def test_the_common_image_is_one_unknown_and_all_others_are_their_own() -> None:
    (problems,) = one_by_one(SAMPLES, BATCH)
    assert problems.unknowns(BATCH) == 1 + 3 * 2
    assert problems.rows.tolist() == [[0, 1, 3], [1, 1, 0], [2, 0, 2]]
    assert problems.places(BATCH, 0).tolist() == [[0, 1, 2], [1, 0, 2], [1, 2, 0]]
    assert problems.places(BATCH, 1).tolist() == [[3, 4, 0], [3, 0, 4], [3, 0, 4]]
    assert problems.places(BATCH, 2).tolist() == [[5, 6, 0], [0, 5, 6], [5, 0, 6]]


def test_of_batches_of_one_the_common_image_is_all() -> None:
    (problems,) = one_by_one({range(1, 3): torch.tensor([[2, 0], [1, 3]])}, 1)
    assert problems.unknowns(1) == 1
    assert not any(problems.places(1, number).any() for number in (0, 1))


def test_whole_batches_have_no_unknowns_beside_the_common() -> None:
    (problems,) = whole_batches(UPDATES, 2, BATCH)
    assert problems.unknowns(BATCH) == BATCH
    assert problems.rows.tolist() == [[i, i] for i in range(UPDATES)]
    assert problems.places(BATCH, 1).tolist() == [list(range(BATCH))] * UPDATES


@pytest.mark.parametrize("way", ["one by one", "whole batches"])
def test_losses_and_slopes_are_autograds_of_equation_5(way: str) -> None:
    epochs = [epoch(seed) for seed in range(3)]
    (problems,) = one_by_one(SAMPLES, BATCH) if way == "one by one" else whole_batches(UPDATES, 3, BATCH)
    start = unknown(problems)
    rows = torch.arange(len(start))
    losses, slopes = JointObjective(parts(epochs, problems), priors(0.01)).evaluate(rows)({"images": start})
    for one in rows.tolist():
        images = start[one].clone().requires_grad_()
        expected = 0.01 * (
            (images[:, :, 1:] - images[:, :, :-1]).abs().mean()
            + (images[..., 1:] - images[..., :-1]).abs().mean()
        )
        for number, of in enumerate(epochs):
            row = int(problems.rows[one, number])
            batch = torch.stack([images[i] for i in problems.places(BATCH, number)[one].tolist()])
            assert of.labels is not None
            dummy = gradient(of.model, of.to_pixels(batch), of.labels[row], create_graph=True)
            of.model.requires_grad_(False)
            observed = flat({name: everything(of)[name][row] for name in dummy})
            expected = expected + (0.1 if number else 1.0) * (
                1 - cosine_similarity(flat(dummy), observed, dim=0)
            )
        (slope,) = torch.autograd.grad(expected, images)
        assert losses[one].item() == pytest.approx(expected.item(), rel=1e-6)
        torch.testing.assert_close(slopes["images"][one], slope, rtol=1e-6, atol=1e-12)


def test_a_chunk_of_problems_has_the_same_losses() -> None:
    epochs = [epoch(seed) for seed in range(3)]
    (problems,) = one_by_one(SAMPLES, BATCH)
    objective, start = JointObjective(parts(epochs, problems), priors(0.01)), unknown(problems)
    losses, slopes = objective.evaluate(torch.arange(3))({"images": start})
    some = torch.tensor([2, 0])
    again, moves = objective.evaluate(some)({"images": start[some]})
    torch.testing.assert_close(again, losses[some], rtol=1e-10, atol=0)
    torch.testing.assert_close(moves["images"], slopes["images"][some], rtol=1e-10, atol=1e-14)
    assert objective.chunk(Adam(0.1, 1, False, False)) >= 1


def test_a_later_epoch_of_weight_zero_says_nothing() -> None:
    epochs = [epoch(seed) for seed in range(2)]
    (problems,) = one_by_one({range(0, 2): torch.tensor([[0, 5], [4, 4]])}, BATCH)
    start, rows = unknown(problems), torch.arange(2)
    losses, slopes = JointObjective(parts(epochs, problems, 0.0), priors(0.0)).evaluate(rows)(
        {"images": start}
    )
    own = start.gather(1, problems.places(BATCH, 0)[:, :, None, None, None].expand(-1, -1, *start.shape[2:]))
    alone, _ = Objective(epochs[0], terms("cosine", ones, 0.0)).evaluate(problems.rows[:, 0])({"images": own})
    torch.testing.assert_close(losses, alone, rtol=1e-12, atol=0)
    assert not slopes["images"][:, 3:].any()
    assert slopes["images"][:, :3].flatten(2).any(2).all()
