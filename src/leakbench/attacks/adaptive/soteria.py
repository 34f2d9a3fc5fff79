"""Against Soteria: hidden features show as columns of zeros, and nothing else was changed."""

import torch

from leakbench.base.tensors import Tensors
from leakbench.observations.adaptation import Adaptation, Mechanism


def soteria() -> Adaptation:
    """Match everything except the columns of zeros in the last layer that has columns."""

    def mechanism(observed: Tensors) -> Mechanism:
        last = [name for name, value in observed.items() if value.dim() == 3][-1:]
        sent = {name: (observed[name] != 0).any(1, keepdim=True) for name in last}
        return lambda found, dummies: found | {n: torch.where(sent[n], found[n], 0) for n in last}

    return Adaptation(mechanism=mechanism)
