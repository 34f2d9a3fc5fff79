"""Against DP-SGD: average all rounds, and shorten dummy gradients to fit the noised one."""

from torch import Tensor

from leakbench.base.tensors import Tensors, over
from leakbench.observations.adaptation import Adaptation, Mechanism


def _product(one: Tensors, other: Tensors) -> Tensor:
    """Return the inner product over all tensors of two gradients [trials, *shape]: [trials]."""
    return sum((one[name] * other[name]).flatten(1).sum(1) for name in one)  # type: ignore[return-value]


def dp_sgd() -> Adaptation:
    """Shorten dummy gradients by the factor between 0 and 1 that best explains the observed gradient.

    Noise lengthens a gradient, so its norm does not give the bound as it would without noise. Under normal
    noise the most likely factor is that of least squares. Rounds of one local set are averaged.
    """

    def mechanism(observed: Tensors) -> Mechanism:
        def shortened(found: Tensors, dummies: Tensors) -> Tensors:
            own = {name: observed[name] for name in found}
            fit = _product(own, found) / _product(found, found).clamp_min(1e-30)
            factor = fit.clamp(0, 1)
            return {name: value * over(factor, value) for name, value in found.items()}

        return shortened

    return Adaptation(pooled=lambda seen: seen.mean(0), mechanism=mechanism)
