"""Against Outpost: use the rounds that were not perturbed, and in the others match only what is not zero."""

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors
from leakbench.observations.adaptation import Adaptation, Mechanism, by_parameter

# Rounds whose shares of zeros differ by at most this are alike. A protected tensor is mostly zeros, but a
# gradient behind ReLUs may have some too.
EVEN = 0.01


def outpost() -> Adaptation:
    """Average the rounds with the fewest zeros, which are those without perturbation, and leave out zeros."""

    def pooled(seen: Tensor) -> Tensor:
        zeros = (seen == 0).flatten(1).double().mean(1)
        return seen[zeros <= zeros.min() + EVEN].mean(0)

    def mechanism(observed: Tensors) -> Mechanism:
        sent = {name: value != 0 for name, value in observed.items()}
        return by_parameter(lambda name, value: torch.where(sent[name], value, 0))

    return Adaptation(pooled=pooled, mechanism=mechanism)
