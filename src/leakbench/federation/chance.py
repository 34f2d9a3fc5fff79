"""The clients' chance: streams of which no attack can guess the seed."""

import hashlib

import numpy as np
import torch

# Where torch's state of a generator on the processor has the words of MT19937, 64 bits each.
_WORDS, _FIRST = 624, 24


def generator(*names: str | int) -> torch.Generator:
    """Return a generator whose whole state the given names determine.

    `manual_seed` keeps the last 32 bits of a seed alone: whoever has some noise would find its seed by trying
    them all.
    """
    text = "\0".join(map(str, names)).encode()
    words = np.frombuffer(hashlib.shake_256(text).digest(4 * _WORDS), "<u4")
    rng = torch.Generator().manual_seed(0)
    state = rng.get_state()
    state.numpy()[_FIRST : _FIRST + 8 * _WORDS] = words.astype(np.uint64).view(np.uint8)
    return rng.set_state(state)
