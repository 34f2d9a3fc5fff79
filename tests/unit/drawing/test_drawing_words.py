"""The words under names, and the threat model in one line."""

import pytest

from leakbench.drawing import words


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("mnist", "MNIST"),
        ("cifar10", "CIFAR-10"),
        ("cifar100", "CIFAR-100"),
        ("mnist-32", "MNIST at 32×32"),
        ("cifar100-64", "CIFAR-100 at 64×64"),
        ("fashion-mnist", "Fashion-MNIST"),
        ("words-plain", "plain words (stand-in)"),
        ("something-else", "something-else"),
    ],
)
def test_data_sets(name: str, printed: str) -> None:
    assert words.dataset(name) == printed


def test_victims() -> None:
    assert words.victim("cnn-relu-dropout") == "CNN, ReLU, dropout"
    assert words.victim("resnet18-sigmoid-converged") == "ResNet-18 with sigmoids, converged"
    assert words.victim("lenet-grnn") == "GRNN's LeNet"


def test_defences() -> None:
    assert words.defence("gaussian-1e-2") == "Gaussian noise of 1e-2"
    assert words.defence("laplacian") == "Laplacian noise of 1e-1"
    assert words.defence("prune") == "prune"
    assert words.defence("key-lock-key") == "key-lock, key shared"


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
