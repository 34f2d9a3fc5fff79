"""Against pruning: a pruned coordinate is smaller than every one that was sent."""

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism, by_parameter


def prune() -> Adaptation:
    """Match the coordinates that survived; of a pruned one, count only what exceeds the smallest sent one."""

    def mechanism(observed: Tensors) -> Mechanism:
        least = {}
        for name, value in observed.items():
            sizes = torch.where(value == 0, torch.inf, value.abs()).flatten(1).amin(1)
            least[name] = over(sizes, value)

        def pruned(name: str, value: Tensor) -> Tensor:
            return torch.where(observed[name] != 0, value, value - value.clamp(-least[name], least[name]))

        return by_parameter(pruned)

    return Adaptation(mechanism=mechanism)
