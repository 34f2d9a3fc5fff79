"""Against NVFlare's percentile filter: small coordinates are zero, and large ones are cut."""

import torch
from torch import Tensor

from leakbench.attacks.adaptive.prune import prune
from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism


def nvflare_percentile() -> Adaptation:
    """Treat zeros as pruned ones, and cut dummy coordinates at the largest size that was sent."""

    def mechanism(observed: Tensors) -> Mechanism:
        pruned = prune().mechanism
        assert pruned is not None
        zeroed = pruned(observed)
        most = torch.stack([value.flatten(1).abs().amax(1) for value in observed.values()]).amax(0)

        def filtered(found: Tensors, dummies: Tensors) -> Tensors:
            def cut(value: Tensor) -> Tensor:
                limit = over(most, value)
                return value.clamp(-limit, limit)

            return {name: cut(value) for name, value in zeroed(found, dummies).items()}

        return filtered

    return Adaptation(mechanism=mechanism)
