"""A trained victim's file, and how it is read."""

from pathlib import Path

import torch
from torch import nn

from leakbench.base.artefacts import Facts, open_tensors
from leakbench.networks import victims


def load_victim(path: Path, epoch: int | None = None) -> tuple[nn.Module, Facts]:
    """Return a victim in evaluation mode with the weights of one epoch, and its facts."""
    tensors, facts = open_tensors(path)
    network = facts["network"]
    model = victims.build(
        network["module"], tuple(network["shape"]), network["classes"], network["parameters"]
    )
    prefix = f"epoch-{max(facts['checkpoints']) if epoch is None else epoch}/"
    state = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in state.items()})
    return model.eval(), facts
