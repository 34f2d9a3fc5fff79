"""The federation: clients, local training and rounds, what the server sees and what it must not know."""

from leakbench.federation.chance import generator
from leakbench.federation.evaluation import accuracy, held_out
from leakbench.federation.local import local_update
from leakbench.federation.play import Moved, Private, candidates, play, private_samples

__all__ = [
    "Moved", "Private", "accuracy", "candidates", "generator", "held_out", "local_update",
    "play", "private_samples",
]  # fmt: skip
