"""Against PRECODE: optimise what the client drew together with the images."""

import torch
from torch import Tensor

from leakbench.networks.victims.precode import Bottleneck
from leakbench.observations.adaptation import Adaptation, Nuisance
from leakbench.observations.observation import Observation


def precode() -> Adaptation:
    """Make the numbers that the bottleneck drew for each image unknowns of the attack.

    They begin at zero, where the means are decoded. An attack that does not adapt takes them to be zero
    throughout.
    """

    def nuisance(observation: Observation, client: int, rounds: Tensor, rng: torch.Generator) -> Nuisance:
        batch = observation.clients[client]
        return Nuisance(
            start={
                f"{name}.keep": torch.zeros(len(rounds), batch, layer.width)
                for name, layer in observation.model(0).named_modules()
                if isinstance(layer, Bottleneck)
            }
        )

    return Adaptation(nuisance=nuisance)
