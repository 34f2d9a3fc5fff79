"""What an interrupted training needs of its optimiser to go on to the same result."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def packed(optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Return the optimiser's tensors as <parameter's place>/<name>."""
    return {
        f"{index}/{name}": value.detach().cpu().numpy()
        for index, values in optimiser.state_dict()["state"].items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def unpack(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, np.ndarray]) -> None:
    """Give an optimiser of `model`'s parameters back what `packed` returned."""
    parameters = list(model.parameters())
    state: dict[int, dict[str, Any]] = {}
    for key, array in tensors.items():
        index, _, name = key.partition("/")
        value = torch.from_numpy(array)
        # A fused step walks through memory, so a parameter and its momentum need one layout.
        if value.dim():
            value = torch.empty_like(parameters[int(index)]).copy_(value)
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
