"""Dummy images themselves, and the logits of their labels where these are unknown too."""

from typing import Literal

from leakbench.attacks.matching.parameterisation import Dummies, Parameterisation, free


def dummies(*, start: Literal["normal", "uniform"] = "normal", boxed: bool = False) -> Parameterisation:
    """Return a parameterisation in which each pixel is an unknown.

    start: the noise that images begin as, in the space where the victim's images have mean 0 and deviation 1
    (normal: DLG).
    boxed: whether pixels are kept in their range after each step (InvG).
    """
    return lambda group, rng: Dummies(group.draw(start, rng), group.clip if boxed else free)
