"""Against DGP: unsent coordinates lie outside the range of the sent, and error feedback sends them later."""

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism, by_parameter


def dgp() -> Adaptation:
    """Match the coordinates that were sent, and keep the others out of the range of the sent ones.

    An unsent coordinate counts only by how far its magnitude lies inside the range from the smallest to the
    largest sent magnitude of its tensor. Over rounds of one local set, each coordinate is read off the sum of
    all rounds. A client adds what it dropped to its next update. So if nothing was dropped before the first
    round, the sum of a coordinate up to the round t that sent it last is exactly t times the gradient. The
    largest coordinates of a constant gradient grow with each round and stay the largest, so they are never
    sent.
    """

    def arrived(seen: Tensor) -> Tensor:
        number = over(torch.arange(1, len(seen) + 1, device=seen.device), seen)
        last = torch.where(seen != 0, number, 0).amax(0)
        return (seen.double().sum(0) / last.clamp_min(1)).to(seen.dtype)

    def mechanism(observed: Tensors) -> Mechanism:
        ends = {}
        for name, value in observed.items():
            sizes = value.abs().flatten(1)
            least = torch.where(sizes == 0, torch.inf, sizes).amin(1)
            ends[name] = over(least, value), over(sizes.amax(1), value)

        def dropped(name: str, value: Tensor) -> Tensor:
            least, most = ends[name]
            size = value.abs()
            inside = torch.minimum(size - least, most - size).clamp_min(0)
            return torch.where(observed[name] != 0, value, inside * value.sign())

        return by_parameter(dropped)

    return Adaptation(pooled=arrived, mechanism=mechanism)
