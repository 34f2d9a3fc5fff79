"""The federation: clients, local training, rounds; what the server sees and what it must not know."""

from leakbench.federation.local import local_update
from leakbench.federation.play import Truth, play, private_samples

__all__ = ["Truth", "local_update", "play", "private_samples"]
