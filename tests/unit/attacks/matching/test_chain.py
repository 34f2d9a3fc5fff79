"""A chain's gradients and their derivative as a rate are those of the tape."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines import gradients as module
from leakbench.attacks.matching.engines.chain import chain, chain_gradients
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
from leakbench.attacks.matching.engines.tape import layer_gradients, layer_passes
from leakbench.networks import victims

LENETS = [
    ("lenet-grnn", (32, 32, 3)),
    ("lenet-dlg", (16, 16, 1)),
    ("lenet-dlg", (16, 16, 3)),
    ("lenet-fedkl", (32, 32, 2)),
    ("perceptron", (8, 8, 1)),
    ("fcnn", (8, 8, 1)),
]
CLASSES = 5
# Victim and channels → how it normalises.
OPTIONS: dict[tuple[str, int], dict[str, Any]] = {
    ("lenet-dlg", 3): {"norm": "batch"},
    ("lenet-fedkl", 2): {"statistics": "batch"},
}


class Own(nn.Conv2d):
    """A convolution that may do anything."""


def _odd() -> nn.Module:
    """A chain with what no victim has: ReLU and tanh, a layer without bias, dilation, pools that overlap, a
    part of its own."""
    return nn.Sequential(
        nn.Identity(),
        nn.Sequential(
            nn.Conv2d(2, 5, 3, (1, 2), (2, 1), (1, 2), bias=False), nn.Tanh(), nn.MaxPool2d(3, 2, 1)
        ),
        nn.Conv2d(5, 18, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(18 * 6 * 1, 7, bias=False),
        nn.Sigmoid(),
        nn.Linear(7, CLASSES),
    )


def _network(name: str, shape: tuple[int, int, int]) -> nn.Module:
    torch.manual_seed(0)
    model = (
        _odd() if name == "odd" else victims.build(name, shape, CLASSES, OPTIONS.get((name, shape[2]), {}))
    )
    for layer in model.modules():
        if (
            isinstance(layer, nn.BatchNorm2d)
            and layer.running_mean is not None
            and layer.running_var is not None
        ):
            layer.running_mean.normal_(), layer.running_var.uniform_(0.5, 2)
    return model.double().eval().requires_grad_(False)


def _by_tape(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    passes, losses = layer_passes(model, images, labels)
    found: dict[str, Tensor] = {}
    for step, delta in passes:
        found |= layer_gradients(step, delta, len(images))
    return found, losses


@pytest.mark.parametrize(("trials", "batch"), [(3, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize(("name", "shape"), [*LENETS, ("odd", (12, 10, 2))])
def test_gradients_and_derivatives_are_those_of_the_tape(
    name: str, shape: tuple[int, int, int], trials: int, batch: int
) -> None:
    model = _network(name, shape)
    rows, columns, channels = shape
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(trials, batch, channels, rows, columns, dtype=torch.double, generator=rng)
    logits = torch.randn(trials, batch, CLASSES, dtype=torch.double, generator=rng)
    images.requires_grad_(), logits.requires_grad_()
    steps = chain(model)
    assert steps
    ours = chain_gradients(steps, images, logits.softmax(2))
    assert ours
    theirs = _by_tape(model, images, logits.softmax(2))
    torch.testing.assert_close(ours, theirs)
    assert list(ours[0]) == [each for each, _ in model.named_parameters()]
    cotangents = {n: torch.randn(v.shape, dtype=v.dtype, generator=rng) for n, v in theirs[0].items()}
    slopes = [
        torch.autograd.grad(sum((found[n] * v).sum() for n, v in cotangents.items()), [images, logits])
        for found, _ in (ours, theirs)
    ]
    torch.testing.assert_close(slopes[0], slopes[1])


def test_classes_are_probabilities_of_one() -> None:
    model = _network("lenet-dlg", (16, 16, 1))
    images, labels = torch.rand(2, 3, 1, 16, 16, dtype=torch.double), torch.randint(0, CLASSES, (2, 3))
    known, likely = (
        gradients(model, images, each)[0]
        for each in (labels, nn.functional.one_hot(labels, CLASSES).double())
    )
    torch.testing.assert_close(known, likely)


def test_a_lenet_is_taken_as_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _network("lenet-grnn", (32, 32, 3))
    engines_fit(model, torch.Size([1, 3, 32, 32]))
    monkeypatch.setattr(module, "tape_gradients", None)
    found, _ = gradients(
        model, torch.rand(2, 1, 3, 32, 32, dtype=torch.double), torch.zeros(2, 1, dtype=torch.int64)
    )
    assert found["conv1.weight"].shape == (2, 6, 3, 5, 5)


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm2d(4, affine=False),
        nn.Dropout(0.5),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(2),
        nn.Linear(8, 8),
        Own(4, 4, 3),
    ],
)
def test_other_networks_are_no_chain(layer: nn.Module) -> None:
    assert chain(nn.Sequential(nn.Conv2d(1, 4, 3), layer)) is None
