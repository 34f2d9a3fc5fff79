"""One minus the cosine of gradients, over all parameters."""

from torch import Tensor

from leakbench.matching.terms import Distance
from leakbench.tensors import Tensors


def cosine() -> Distance:
    """Return the cosine distance (InvG, Eqn 4; with weights of layers AGIC, Eqn 6)."""

    def value(products: Tensors, theirs: Tensor) -> Tensor:
        return 1 - products["dot"] / (products["mine"].sqrt() * theirs.sqrt())

    return Distance(("dot", "mine"), value)
