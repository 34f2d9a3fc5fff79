"""Against quantisation: any gradient that would have been rounded to the observed one fits equally well."""

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism, by_parameter


def step_of(observed: Tensor) -> Tensor:
    """Return each trial's step between levels: the least gap between its values beyond rounding, or 0."""
    values = observed.flatten(1).sort(1).values
    gaps = values.diff(dim=1)
    span = (values[:, -1:] - values[:, :1]).clamp_min(1e-30)
    least = torch.where(gaps > 1e-6 * span, gaps, torch.inf).amin(1) if gaps.shape[1] else gaps.sum(1)
    return over(torch.nan_to_num(least, posinf=0.0), observed)


def quantise() -> Adaptation:
    """Accept every dummy gradient in the cell of the observed one, and count only what is beyond its edge."""

    def mechanism(observed: Tensors) -> Mechanism:
        half = {name: step_of(value) / 2 for name, value in observed.items()}

        def rounded(name: str, value: Tensor) -> Tensor:
            apart = value - observed[name]
            return observed[name] + apart - apart.clamp(-half[name], half[name])

        return by_parameter(rounded)

    return Adaptation(mechanism=mechanism)
