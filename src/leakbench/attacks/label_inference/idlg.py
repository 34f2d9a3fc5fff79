"""iDLG's rule: with one image, only the true class has a negative gradient."""

from torch import Tensor

from leakbench.attacks.label_inference import LastLayer
from leakbench.base.errors import Unfit


def idlg(layer: LastLayer) -> Tensor:
    """Return the class whose weight gradient points against the others (iDLG, Eqn 6): [trials, 1].

    Each row of the gradient is the input times p_c for a wrong class, and times p_c - 1 for the true class.
    The rows add up to zero but for rounding, so the inner product of a row with the sum of all rows says
    nothing. The inner product of the true row with every other row is negative. The bias's gradient is p_c or
    p_c - 1 itself, so where there is a bias, its sign decides. It also distinguishes two rows of equal size
    (with two classes, or for an image that the network confidently assigns to another class). Raises Unfit
    for a batch of more than one image.
    """
    if layer.batch != 1:
        raise Unfit(f"labels: idlg reads one label, the batch has {layer.batch} images (use counted)")
    if layer.bias is not None:
        return layer.bias.argmin(1, keepdim=True)
    inner = layer.weight @ layer.weight.mT
    own = inner.diagonal(dim1=1, dim2=2)
    return (inner.sum(2) - own).argmin(1, keepdim=True)
