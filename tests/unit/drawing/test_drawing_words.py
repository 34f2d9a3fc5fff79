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


def test_defences_name_their_strength_where_it_is_known() -> None:
    assert words.defence("gaussian-1e-2", {"scale": 0.01}) == "Gaussian noise 0.01"
    assert words.defence("prune-0.01", {"share": 0.01}) == "prune to 1%"
    assert words.defence("prune") == "prune"
    assert words.defence("none") == "no defence"
    assert words.defence("key-lock-key", {"shares": ["key"]}) == "key-lock, key shared"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("gaussians-code-paillier", "code, Paillier 2048"),
        ("gaussians-poisoned-fedavg", "FedAvg"),
        ("sgd-federated-dirichlet", "federated dirichlet"),
        ("text-800", "one set in one place, batches of 800"),
        ("text-fedboosting-3e256b-he-fused", "FedBoosting, 3 epochs, batches of 256, encrypted, fused"),
    ],
)
def test_trainings(name: str, printed: str) -> None:
    assert words.training(name) == printed


def test_values_of_any_column() -> None:
    assert words.called("local_samples", "4") == "4 images"
    assert words.called("client", "1") == "client 1"
    assert words.called("pass", "0") == "pass 1"
    assert words.called("noise", "1e-1") == "1e-1"
    assert words.called("defence", "") == ""


def test_absent_data_sets_are_named_once_and_other_reasons_stay() -> None:
    cells = {
        "cifar100/v/f/none/dlg/0": "cifar100 is not to be had: tried a mirror (put it somewhere)",
        "cifar100/v/f/none/grnn/0": "cifar100 is not to be had: tried a mirror (put it somewhere)",
        "mnist/v/f/none/grnn/0": "needs paper scale: too long",
    }
    assert words.missing(cells) == "the data sets CIFAR-100 are not here; needs paper scale: too long"
    assert words.missing({}) == ""


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
    assert words.span([200, 20.0, float("nan")]) == "20 to 200"
    assert words.span([]) == "0"
