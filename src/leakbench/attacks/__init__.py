"""Attacks: observation and chance in, reconstruction out; one file each, found by its name.

Nothing here may import data sets, the federation or the metrics: an attack cannot see the truth.
"""

from typing import Any

import torch

from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.parts import part


def run(
    module: str, observation: Observation, rng: torch.Generator, parameters: dict[str, Any]
) -> Reconstruction:
    """Run the attack whose file is `module` on `observation`; all its chance comes from `rng`."""
    found: Reconstruction = part("attacks", module)(observation, rng, **parameters)
    return found
