"""Against NVFlare's sparse vector technique: only what was sent counts."""

from leakbench.attacks.adaptive.withhold import withhold
from leakbench.observations.adaptation import Adaptation


def nvflare_svt() -> Adaptation:
    """Leave out what was not sent, as against a client that withholds coordinates."""
    return withhold()
