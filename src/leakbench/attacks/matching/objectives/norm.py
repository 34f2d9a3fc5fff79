"""The Euclidean norm of the difference of gradients."""

import torch
from torch import Tensor

from leakbench.attacks.matching.terms import Distance
from leakbench.base.tensors import Tensors


def norm() -> Distance:
    """Return the Euclidean distance, whose derivative at zero is taken to be zero.

    GRNN's code uses this distance and calls it Wasserstein distance.
    """

    def value(products: Tensors, theirs: Tensor) -> Tensor:
        return products["gap"].clamp_min(torch.finfo(theirs.dtype).tiny).sqrt()

    return Distance(("gap",), value)
