"""A cheat: an attack that draws the client's noise again from the names of its stream, and takes it off."""

import hashlib
from dataclasses import replace

import numpy as np
import torch

from leakbench.attacks.fidel import fidel
from leakbench.base.seeds import stream
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def drawn_again(*names: str | int) -> torch.Generator:
    """Return the generator of `federation.chance`, which an attack may not import."""
    text = "\0".join(map(str, names)).encode()
    words = np.frombuffer(hashlib.shake_256(text).digest(4 * 624), "<u4")
    rng = torch.Generator().manual_seed(0)
    state = rng.get_state()
    state.numpy()[24 : 24 + 8 * 624] = words.astype(np.uint64).view(np.uint8)
    return rng.set_state(state)


def unnoise(
    observation: Observation, rng: torch.Generator, *, dataset: str, federation: str, scale: float,
    seed: int = 0, salt: str = "",
) -> Reconstruction:  # fmt: skip
    """Return what Fidel makes of the first client's updates without their noise.

    dataset, federation, seed: public names of the capture. scale: of the noise. salt: what no attack can
    read; empty if it is not known.
    """
    noise = drawn_again("defence", stream("capture", dataset, federation, seed, *filter(None, [salt])))
    updates = {name: np.array(value) for name, value in observation.updates.items()}
    order = [name for name, _ in observation.model().named_parameters()]
    for turn in range(observation.rounds):
        for name in order:
            value = updates[name][turn, 0]
            value -= scale * torch.randn(value.shape, generator=noise).numpy()
    return fidel(replace(observation, updates=updates), rng)
