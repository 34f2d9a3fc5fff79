"""Every victim in float64, made small, and groups of trials on them."""

import ast
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.attacks.matching.distances import added
from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.objectives.total_variation import total_variation, variation
from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.terms import Distance, Term, Valued, Weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.parts import part
from leakbench.networks import victims
from leakbench.observations.observation import Observation

CLASSES = 10
SHAPE = torch.Size([2, 3, 32, 32])
Weigh = Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]]
ROOM = Path(victims.__file__).parent
# Whatever lies in the room is a victim, so a new one is tested without being listed here.
# Peeling's own network computes in double precision alone.
NETWORKS = sorted(path.stem for path in ROOM.glob("*.py") if path.stem not in ("__init__", "file", "peeling"))
SMALLER: dict[str, list[dict[str, Any]]] = {
    # They read words and sentences, and no attack here is about those.
    "crnn": [],
    "encoder": [],
    "published": [],
    "transformer": [],
    # No rule knows adapters, so plain autograd takes their gradients.
    "adapted": [],
    "cifar_resnet": [{}, {"activation": "sigmoid", "statistics": "batch"}],
    "cnn": [{"activation": "tanh"}, {"activation": "relu"}],
    "convnet": [{"width": 4, "normalise": "cifar10"}],
    "densenet": [{"growth": 4, "layers": (2, 2, 2, 2)}],
    "fcnn": [{"width": 16}],
    "fedavg_cnn": [{"width": 4, "hidden": 16, "normalise": "cifar10"}],
    "lenet_dlg": [{}, {"norm": "batch"}, {"norm": "batch", "statistics": "batch"}],
    "lenet_fedkl": [{}, {"statistics": "batch"}],
    "resnet": [
        {"depth": 18, "normalise": "imagenet"},
        {"depth": 50},
        {"depth": 18, "activation": "sigmoid", "stem": "small", "statistics": "batch", "bound": 0.5},
    ],
    "resnet20_4": [{"width": 4, "normalise": "cifar10"}, {"width": 4, "statistics": "batch"}],
    "vgg": [{"width": 4, "hidden": 16, "batch_norm": True, "dropout": 0.0}],
}
CASES = [(name, parameters) for name in NETWORKS for parameters in SMALLER.get(name, [{}])]
# ResNets have no smaller width: each costs as much as all others together.
VICTIMS = [
    pytest.param(
        name, own, id="-".join([name, *map(str, own.values())]),
        marks=[pytest.mark.nightly] * (name == "resnet"),
    )
    for name, own in CASES
]  # fmt: skip


def network(
    module: str, parameters: dict[str, Any], shape: tuple[int, int, int] = (32, 32, 3), seed: int = 0
) -> nn.Module:
    """Build a victim in float64, evaluated, whose batch norms have statistics and weights of their own."""
    torch.manual_seed(seed)
    model = victims.build(module, shape, CLASSES, parameters).double().eval()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            if layer.running_mean is not None and layer.running_var is not None:
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
            nn.init.normal_(layer.weight, 1, 0.3)
            nn.init.normal_(layer.bias)
    return model


@cache
def _compared(module: str, parameters: str) -> nn.Module:
    """Return something that stands for a network whose gradients were compared with autograd's."""
    model, stand_in = network(module, ast.literal_eval(parameters)), nn.Identity()
    engines_fit(model, SHAPE)
    engines_fit(stand_in, SHAPE, like=model)
    return stand_in


def meet(model: nn.Module, module: str, parameters: dict[str, Any]) -> nn.Module:
    """Return a victim whose gradients are known to be autograd's or not; all tests share the slow answer."""
    engines_fit(model, SHAPE, like=_compared(module, repr(parameters)))
    return model


def met(module: str, parameters: dict[str, Any]) -> nn.Module:
    return meet(network(module, parameters), module, parameters)


def gradient(model: nn.Module, images: Tensor, labels: Tensor, **options: Any) -> dict[str, Tensor]:
    """Return autograd's gradient of the mean loss over one batch."""
    model.requires_grad_(True)
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(cross_entropy(model(images), labels), list(parameters.values()), **options)
    return dict(zip(parameters, found, strict=True))


def group(
    model: nn.Module, images: Tensor, labels: Tensor, known: bool = True,
    observed: dict[str, Tensor] | None = None, steps: list[slice] | None = None, lr: float = 0.0,
) -> Group:  # fmt: skip
    """Return the trials whose updates are the gradients of `images` [trials, batch, …], or `observed`."""
    trials, batch = labels.shape
    if observed is None:
        each = [gradient(model, x, y) for x, y in zip(images, labels, strict=True)]
        observed = {name: torch.stack([one[name] for one in each]).detach() for name in each[0]}
    channels, rows, columns = images.shape[2:]
    observation = Observation(
        network={"module": "", "parameters": {}, "shape": [rows, columns, channels], "classes": CLASSES},
        weights={}, updates={name: value[:, None].numpy() for name, value in observed.items()},
        origin=np.zeros(trials, np.int64), clients=[batch], kind="gradient",
        local={"lr": lr, "batch_size": None, "epochs": 1},
    )  # fmt: skip
    return Group(
        observation=observation, model=model.requires_grad_(False), client=0, origin=0,
        rounds=torch.arange(trials), restarts=1, labels=labels if known else None, batch=batch,
        mean=torch.full((channels, 1, 1), 0.4, dtype=images.dtype),
        deviation=torch.full((channels, 1, 1), 0.3, dtype=images.dtype), steps=steps or [],
    )  # fmt: skip


def ones(model: nn.Module, observed: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.new_ones(len(value)) for name, value in observed.items()}


def everything(of: Group) -> dict[str, Tensor]:
    return of.observed(torch.arange(of.trials))


def distance_of(names: str) -> Distance:
    """Return the sum of the distances whose names are joined by `+`."""
    return added([part("objectives", name)() for name in names.split("+")])


def priors(tv: float) -> list[tuple[float, Valued]]:
    """Return total variation of this weight as an objective has it."""
    return [(tv, variation)] if tv else []


def terms(names: str, weigh: Weigh | None = None, tv: float = 0.0) -> list[Term]:
    """Return distances joined by `+`, weights of parameters by `weigh(model, observed)`, and variation."""
    found: list[Term] = [part("objectives", name)() for name in names.split("+")]
    if weigh is not None:
        found.append(Weights(lambda group: partial(weigh, group.model)))
    return [*found, total_variation(weight=tv)]


def trials_of_two(batch: int = 2, known: bool = True, lr: float = 0.0) -> Group:
    """Return two trials of small images on sigmoids; no difference follows a slope at a kink."""
    torch.manual_seed(3)
    model = network("lenet_dlg", {}, (8, 8, 2))
    images = torch.rand(2, batch, 2, 8, 8, dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (2, batch)), known, lr=lr)


def first_images(of: Group) -> Tensor:
    """Return the normal noise, in float64, that the images of a group's trials begin as."""
    return of.draw("normal", torch.Generator().manual_seed(4))["images"].double()


def follows(evaluate: Evaluate, unknowns: dict[str, Tensor], rtol: float) -> None:
    """Assert that the losses of trials change by a small step as their slopes say."""
    rng = torch.Generator().manual_seed(5)
    steps = {n: 1e-5 * torch.randn(v.shape, generator=rng, dtype=v.dtype) for n, v in unknowns.items()}
    slopes = evaluate(unknowns)[1]
    assert slopes.keys() == unknowns.keys()
    ahead, behind = (evaluate({n: v + sign * steps[n] for n, v in unknowns.items()})[0] for sign in (1, -1))
    expected = torch.stack([(slopes[n] * step).flatten(1).sum(1) for n, step in steps.items()]).sum(0)
    assert float(expected.abs().min()) > 0
    torch.testing.assert_close((ahead - behind) / 2, expected, rtol=rtol, atol=1e-12)
