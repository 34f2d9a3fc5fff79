"""One minus the cosine of gradients, over all parameters."""

from torch import Tensor

from leakbench.attacks.matching.terms import Distance
from leakbench.base.tensors import Tensors


def cosine() -> Distance:
    """Return the cosine distance (InvG, Eqn 4; with weights of layers AGIC, Eqn 6)."""

    def value(products: Tensors, theirs: Tensor) -> Tensor:
        return 1 - products["dot"] / (products["mine"].sqrt() * theirs.sqrt())

    def slopes(products: Tensors, theirs: Tensor) -> Tensors:
        # In the order in which autograd computes them, for the same bits.
        mine, other = products["mine"].sqrt(), theirs.sqrt()
        both = mine * other
        return {"dot": -1 / both, "mine": products["dot"] / both / both * other / (2 * mine)}

    return Distance(("dot", "mine"), value, slopes=slopes)
