"""Against signs: compare what the dummies' signs would be, softened so that they have a slope."""

import torch

from leakbench.adaptive import Adaptation, Mechanism
from leakbench.tensors import Tensors

# In mean magnitudes: how large a coordinate is whose sign is half decided. The mean magnitude itself comes
# along.
SOFT = 0.5


def sign() -> Adaptation:
    """Replace each coordinate by a softened sign times the tensor's mean magnitude, as the client does with a
    hard one."""

    def mechanism(observed: Tensors) -> Mechanism:
        def softened(found: Tensors, dummies: Tensors) -> Tensors:
            out = {}
            for name, value in found.items():
                mean = value.abs().flatten(1).mean(1).clamp_min(1e-30).view(-1, *[1] * (value.dim() - 1))
                out[name] = torch.tanh(value / (SOFT * mean)) * mean
            return out

        return softened

    return Adaptation(mechanism=mechanism)
