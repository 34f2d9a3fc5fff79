"""What an attack claims to have read out of the updates."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor


@dataclass
class Reconstruction:
    """Candidates of an attack, in no particular order: the scorer matches them with the truth.

    images: float32 [rounds, clients, n, channels, rows, columns]; all zero where `usable` is false.
    usable: bool [rounds, clients, n], whether the attack got anything at all for this candidate.
    target: what `images` are: images in [0, 1], or the features that the first dense layer reads.
    iterations: optimisation steps spent; 0 for an analytic attack.
    """

    images: Tensor
    usable: Tensor
    target: Literal["images", "features"] = "images"
    iterations: int = 0
