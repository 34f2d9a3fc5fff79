"""One class to an image, reading against sums over all paths, and statistics of a batch."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from leakbench.networks.batch_statistics import normalised
from leakbench.networks.tasks import classification, recognition, task_of


def test_the_loss_of_a_guess_is_the_logarithm_of_the_number_of_classes() -> None:
    assert classification.loss(torch.zeros(3, 8), torch.tensor([0, 5, 7])).item() == pytest.approx(
        math.log(8)
    )


def test_the_likeliest_class_is_the_answer() -> None:
    outputs = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert classification.correct(outputs, torch.tensor([1, 1])).tolist() == [True, False]


def test_a_regime_without_the_key_classifies() -> None:
    assert task_of({}) is classification
    assert task_of({"task": "recognition"}) is not classification


BLANK = 2


def collapsed(path: tuple[int, ...]) -> list[int]:
    return [code for code, _ in itertools.groupby(path) if code != BLANK]


def by_all_paths(outputs: Tensor, word: list[int]) -> float:
    """Minus the log of the summed probabilities of every path that reads as the word."""
    chances = outputs.softmax(1)
    total = sum(
        math.prod(float(chances[step, code]) for step, code in enumerate(path))
        for path in itertools.product(range(outputs.shape[1]), repeat=len(outputs))
        if collapsed(path) == word
    )
    return -math.log(total)


def labels(*words: list[int], length: int = 4) -> Tensor:
    return torch.tensor([word + [-1] * (length - len(word)) for word in words])


def test_the_loss_sums_over_all_paths() -> None:
    outputs = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(0))
    words = [[0], [1, 0], [1, 1]]
    wanted = sum(by_all_paths(each, word) for each, word in zip(outputs, words, strict=True)) / 3
    assert recognition.loss(outputs, labels(*words)).item() == pytest.approx(wanted, rel=1e-5)


def test_a_word_that_does_not_fit_teaches_nothing() -> None:
    outputs = torch.randn(2, 2, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    # Between equal neighbours a blank must stand: two steps are too few.
    found = recognition.loss(outputs, labels([1, 1], [0]))
    assert found.item() == pytest.approx(by_all_paths(outputs.detach()[1], [0]) / 2, rel=1e-5)
    found.backward()
    assert outputs.grad is not None
    assert not outputs.grad[0].any()
    assert outputs.grad[1].any()


def read_as(path: tuple[int, ...]) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(path), 3).float()


def test_repetitions_and_blanks_are_dropped() -> None:
    paths = list(itertools.product(range(3), repeat=5))
    words = recognition.read(torch.stack([read_as(path) for path in paths]))
    assert words.shape == (3**5, 5)
    for path, word in zip(paths, words.tolist(), strict=True):
        assert word == collapsed(path) + [-1] * (5 - len(collapsed(path))), path


def test_only_the_whole_word_is_right() -> None:
    outputs = torch.stack([read_as((0, 0, 2, 0, 1))] * 5)
    truth = labels([0, 0, 1], [0, 1], [0, 0], [0, 0, 1, 1], [], length=7)
    assert recognition.correct(outputs, truth).tolist() == [True, False, False, False, False]
    # Labels may be shorter than there are steps.
    assert recognition.correct(outputs[:1], labels([0, 0, 1], length=3)).tolist() == [True]
    assert recognition.correct(outputs[:1], labels([0, 0], length=2)).tolist() == [False]


@pytest.mark.parametrize("running", [True, False])
def test_a_channel_is_standardised_as_pytorchs_batch_norm_does(running: bool) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3, affine=False, track_running_stats=running)
    if running:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2 * 4, 3, 5, 5)
    # Each of two trials has the statistics of its own batch.
    expected = torch.cat([norm.eval()(each) for each in x.split(4)])
    torch.testing.assert_close(normalised(norm, x, 2), expected)
