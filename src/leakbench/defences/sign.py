"""Share signs alone (as one-bit gradient compression does)."""

from functools import partial

from leakbench.defences import FLOAT, Defence, beside, per_tensor, sparse


def sign() -> Defence:
    """Send the sign of every coordinate times the tensor's mean magnitude: one bit each and one number per
    tensor.

    A zero has no sign: where there are zeros, as behind pixels that are always black, a second bit tells
    them.
    """
    return per_tensor(
        lambda value, rng: value.sign() * beside(value.flatten(1).abs().mean(1), value),
        partial(sparse, bits=1, beside=FLOAT),
    )
