"""What an optimiser takes is what torch's takes, at planning and in a spec."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from leakbench.catalogue.regime import TAKEN
from leakbench.catalogue.schema import Training
from leakbench.federation.training.fit import OPTIMISERS

TORCH = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adadelta": torch.optim.Adadelta}
# What a training gives by itself, what is no single number, and how torch computes a step.
LEFT_OUT = {"params", "lr", "betas", "foreach", "fused", "capturable", "differentiable"}
TRAINING: dict[str, Any] = {"optimiser": "sgd", "lr": 0.1, "batch_size": 10, "epochs": 30}


def test_every_optimiser_takes_what_it_does_in_torch() -> None:
    assert TAKEN.keys() == OPTIMISERS.keys() == TORCH.keys()
    for name, optimiser in TORCH.items():
        assert TAKEN[name].model_fields.keys() == inspect.signature(optimiser).parameters.keys() - LEFT_OUT


FITTING = [
    ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0, "maximize": True}),
    ("sgd", {"momentum": 0.5, "dampening": 0.5}), ("adadelta", {"rho": 1, "eps": 0, "weight_decay": 0.1}),
    ("adam", {"eps": 0, "weight_decay": 0.1, "amsgrad": True, "decoupled_weight_decay": True}),
]  # fmt: skip
REFUSED = [
    ("sgd", {"momentum": -0.1}), ("sgd", {"weight_decay": -0.1}), ("sgd", {"nesterov": True}),
    ("sgd", {"nesterov": True, "momentum": 0.5, "dampening": 0.5}), ("sgd", {"rho": 0.5}),
    ("adam", {"eps": -1.0}), ("adam", {"weight_decay": -1.0}), ("adam", {"momentum": 0.5}),
    ("adadelta", {"rho": 1.5}), ("adadelta", {"eps": -1.0}), ("adadelta", {"weight_decay": -1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("optimiser", "options"), FITTING)
def test_an_option_fits_that_torch_takes(optimiser: str, options: dict[str, Any]) -> None:
    Training(**TRAINING | {"optimiser": optimiser, "options": options})
    OPTIMISERS[optimiser]([nn.Parameter(torch.zeros(1))], lr=0.1, **options)


@pytest.mark.parametrize(("optimiser", "options"), REFUSED)
def test_an_option_is_refused_that_torch_refuses(optimiser: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Value error, [a-z_]+: .*\) \["):
        Training(**TRAINING | {"optimiser": optimiser, "options": options})
    with pytest.raises((ValueError, TypeError)):
        OPTIMISERS[optimiser]([nn.Parameter(torch.zeros(1))], lr=0.1, **options)
