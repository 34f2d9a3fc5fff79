"""The words under names, and the threat model in one line."""

import pytest

from leakbench.drawing import words


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("mnist", "MNIST"),
        ("cifar10", "CIFAR-10"),
        ("cifar100", "CIFAR-100"),
        ("something-else", "something-else"),
    ],
)
def test_data_sets(name: str, printed: str) -> None:
    assert words.dataset(name) == printed


def test_victims() -> None:
    assert words.victim("cnn-relu-dropout") == "CNN, ReLU, dropout"


def test_a_threat_model_of_several_cells_hides_no_difference() -> None:
    cells = {
        "a": {"defence": "none", "labels": "known", "threat model": "curious"},
        "b": {"defence": "noise", "labels": "known", "threat model": "curious"},
    }
    assert words.threat(cells) == "curious; labels: known; defence: none or noise"
    assert words.threat(cells["a"]) == "curious; labels: known; defence: none"
    assert words.threat({}) == ""


def test_counts_and_lists() -> None:
    assert words.listed([1, 2, 3]) == "1, 2, 3"
    assert words.listed(list(range(10))) == "0, 1 … 9"
