"""Against signs: compare with the dummies' signs, softened so that they have a slope."""

import torch
from torch import Tensor

from leakbench.base.tensors import over
from leakbench.observations.adaptation import Adaptation, by_parameter

# The magnitude, in mean magnitudes (which are sent with the signs), at which a sign is half decided.
SOFT = 0.5


def sign() -> Adaptation:
    """Replace each coordinate by a softened sign times the tensor's mean magnitude.

    The client does the same with a hard sign.
    """

    def softened(name: str, value: Tensor) -> Tensor:
        mean = over(value.abs().flatten(1).mean(1).clamp_min(1e-30), value)
        return torch.tanh(value / (SOFT * mean)) * mean

    return Adaptation(mechanism=lambda observed: by_parameter(softened))
