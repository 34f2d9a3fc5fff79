"""The clients' randomness: streams whose seed no attack can guess."""

import hashlib

import numpy as np
import torch

# The number of MT19937's words in the state of torch's CPU generator, 64 bits each, and where they begin.
_WORDS, _FIRST = 624, 24


def generator(*names: str | int) -> torch.Generator:
    """Return a generator whose whole state names determine; a seed of 32 bits could be tried."""
    text = "\0".join(map(str, names)).encode()
    words = np.frombuffer(hashlib.shake_256(text).digest(4 * _WORDS), "<u4")
    rng = torch.Generator().manual_seed(0)
    state = rng.get_state()
    state.numpy()[_FIRST : _FIRST + 8 * _WORDS] = words.astype(np.uint64).view(np.uint8)
    return rng.set_state(state)
