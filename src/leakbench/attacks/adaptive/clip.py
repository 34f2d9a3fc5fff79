"""Against clipping: the dummies' update is shortened too."""

from collections.abc import Iterable

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism


def _length(values: Iterable[Tensor]) -> Tensor:
    """Return the norm over all tensors: [trials, *shape] each → [trials]."""
    return torch.stack([value.flatten(1).square().sum(1) for value in values]).sum(0).clamp_min(1e-30).sqrt()


def clip() -> Adaptation:
    """Shorten dummy gradients to the observed norm, which is the bound wherever the bound was reached."""

    def mechanism(observed: Tensors) -> Mechanism:
        bound = _length(observed.values())

        def clipped(found: Tensors, dummies: Tensors) -> Tensors:
            factor = (bound / _length(found.values())).clamp_max(1)
            return {name: value * over(factor, value) for name, value in found.items()}

        return clipped

    return Adaptation(mechanism=mechanism)
