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


@pytest.mark.parametrize(
    ("optimiser", "options", "fits"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0, "maximize": True}, True),
        ("sgd", {"momentum": 0.5, "dampening": 0.5}, True),
        ("adam", {"eps": 0, "weight_decay": 0.1, "amsgrad": True, "decoupled_weight_decay": True}, True),
        ("adadelta", {"rho": 1, "eps": 0, "weight_decay": 0.1}, True),
        ("sgd", {"momentum": -0.1}, False),
        ("sgd", {"weight_decay": -0.1}, False),
        ("sgd", {"nesterov": True}, False),
        ("sgd", {"nesterov": True, "momentum": 0.5, "dampening": 0.5}, False),
        ("sgd", {"rho": 0.5}, False),
        ("adam", {"eps": -1.0}, False),
        ("adam", {"weight_decay": -1.0}, False),
        ("adam", {"momentum": 0.5}, False),
        ("adadelta", {"rho": 1.5}, False),
        ("adadelta", {"eps": -1.0}, False),
        ("adadelta", {"weight_decay": -1.0}, False),
    ],
)
def test_an_option_fits_where_torch_takes_it(optimiser: str, options: dict[str, Any], fits: bool) -> None:
    parameters = [nn.Parameter(torch.zeros(1))]
    if fits:
        Training(**TRAINING | {"optimiser": optimiser, "options": options})
        OPTIMISERS[optimiser](parameters, lr=0.1, **options)
        return
    with pytest.raises(ValueError, match=r"Value error, [a-z_]+: .*\) \["):
        Training(**TRAINING | {"optimiser": optimiser, "options": options})
    with pytest.raises((ValueError, TypeError)):
        OPTIMISERS[optimiser](parameters, lr=0.1, **options)
