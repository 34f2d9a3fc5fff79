"""Share only the signs of the update (as one-bit gradient compression does)."""

from functools import partial

from leakbench.base.tensors import over
from leakbench.defences import FLOAT, Defence, per_tensor, sparse


def sign() -> Defence:
    """Send the sign of every coordinate times the tensor's mean magnitude.

    A coordinate takes one bit, and a tensor one number in addition. A zero has no sign. A tensor with zeros,
    such as the weights behind pixels that are always black, takes at most a second bit for each coordinate,
    which marks the zeros.
    """
    return per_tensor(
        lambda value, rng: value.sign() * over(value.flatten(1).abs().mean(1), value),
        partial(sparse, bits=1, beside=FLOAT),
    )
