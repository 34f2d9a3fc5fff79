"""Against Flower's local differential privacy: the bound is shared with clipping, the noise is averaged."""

from leakbench.attacks.adaptive.clip import clip
from leakbench.attacks.adaptive.gaussian import gaussian
from leakbench.observations.adaptation import Adaptation


def flower_local_dp() -> Adaptation:
    """Shorten dummy gradients to the observed norm, and take the mean of rounds of one local set."""
    return Adaptation(pooled=gaussian().pooled, mechanism=clip().mechanism)
