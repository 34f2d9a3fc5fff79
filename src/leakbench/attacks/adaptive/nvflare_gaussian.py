"""Against NVFlare's normal noise: the mean of all rounds, as against any normal noise."""

from leakbench.attacks.adaptive.gaussian import gaussian
from leakbench.observations.adaptation import Adaptation


def nvflare_gaussian() -> Adaptation:
    return gaussian()
