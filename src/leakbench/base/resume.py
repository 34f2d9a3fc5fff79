"""What an interrupted run needs to reach the same result: tensors in named groups, and facts."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from leakbench.base.artefacts import Facts, read_tensors, write_tensors
from leakbench.base.tensors import Tensors


def save(path: Path, groups: Mapping[str, Mapping[str, Tensor]], facts: Facts) -> None:
    """Write the tensors of each group as <group>/<name>, with the facts."""
    named = ((group, name, value) for group, values in groups.items() for name, value in values.items())
    write_tensors(path, {f"{group}/{name}": v.detach().cpu().numpy() for group, name, v in named}, facts)


def resume(path: Path) -> tuple[dict[str, Tensors], Facts]:
    """Return the groups that are not empty, and the facts, from a file that `save` wrote."""
    tensors, facts = read_tensors(path)
    groups: dict[str, Tensors] = {}
    for key, array in tensors.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = torch.from_numpy(array)
    return groups, facts


def packed(optimiser: torch.optim.Optimizer) -> Tensors:
    """Return the optimiser's tensors as <parameter's place>/<name>."""
    state = optimiser.state_dict()["state"].items()
    named = ((f"{index}/{name}", value) for index, values in state for name, value in values.items())
    return {name: value for name, value in named if isinstance(value, Tensor)}


def unpack(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    parameters = list(model.parameters())
    state: dict[int, Tensors] = {}
    for key, value in tensors.items():
        index, _, name = key.partition("/")
        # A fused step walks through memory, so a parameter and its momentum need one layout.
        if value.dim():
            value = torch.empty_like(parameters[int(index)]).copy_(value)
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
