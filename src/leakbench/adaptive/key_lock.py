"""Against a key-lock: scale and shift are further unknowns."""

from leakbench.adaptive import Adaptation


def key_lock() -> Adaptation:
    """Optimise with the image what the lock gives, a scale and a shift of each channel."""
    return Adaptation(lock="sought")
