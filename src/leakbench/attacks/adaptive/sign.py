"""Against signs: compare with the dummies' signs, softened so that they have a slope."""

import torch

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism

# The magnitude, in mean magnitudes, at which a sign is half decided. The mean magnitude itself is sent with
# the signs.
SOFT = 0.5


def sign() -> Adaptation:
    """Replace each coordinate by a softened sign times the tensor's mean magnitude.

    The client does the same with a hard sign.
    """

    def mechanism(observed: Tensors) -> Mechanism:
        def softened(found: Tensors, dummies: Tensors) -> Tensors:
            out = {}
            for name, value in found.items():
                mean = over(value.abs().flatten(1).mean(1).clamp_min(1e-30), value)
                out[name] = torch.tanh(value / (SOFT * mean)) * mean
            return out

        return softened

    return Adaptation(mechanism=mechanism)
