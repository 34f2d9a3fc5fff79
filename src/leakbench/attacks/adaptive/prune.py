"""Against pruning: a pruned coordinate is smaller than every one that was sent."""

import torch

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism


def prune() -> Adaptation:
    """Match the coordinates that survived; of a pruned one, count only what exceeds the smallest sent one."""

    def mechanism(observed: Tensors) -> Mechanism:
        least = {}
        for name, value in observed.items():
            sizes = torch.where(value == 0, torch.inf, value.abs()).flatten(1).amin(1)
            least[name] = over(sizes, value)

        def pruned(found: Tensors, dummies: Tensors) -> Tensors:
            return {
                name: torch.where(observed[name] != 0, value, value - value.clamp(-least[name], least[name]))
                for name, value in found.items()
            }

        return pruned

    return Adaptation(mechanism=mechanism)
