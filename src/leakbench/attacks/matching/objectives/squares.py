"""The sum of squared differences of gradients."""

import torch

from leakbench.attacks.matching.terms import Distance


def squares() -> Distance:
    """Return the squared Euclidean distance (DLG, Eqn 3)."""
    return Distance(
        ("gap",),
        lambda products, theirs: products["gap"],
        slopes=lambda products, theirs: {"gap": torch.ones_like(products["gap"])},
    )
