"""iDLG's rule: with one image, only the true class has a negative gradient."""

from torch import Tensor

from leakbench.errors import Unfit
from leakbench.labels import LastLayer


def idlg(layer: LastLayer) -> Tensor:
    """Return the class whose weight gradient points against the others (iDLG, Eqn 6): [trials, 1].

    The rows of the gradient are multiples of one input, by p_c for the wrong classes and p_c - 1 for the true
    one, so its inner product with the sum of all rows, the input times zero but for rounding, is no use; with
    every other row it is negative. The bias's gradient is p_c, or p_c - 1, itself, so where there is one its
    sign decides: it also tells two rows of one size apart (two classes, or an image that the network is sure
    to be another). Raises Unfit for a batch of more than one image.
    """
    if layer.batch != 1:
        raise Unfit(f"labels: idlg reads one label, the batch has {layer.batch} images (use counted)")
    if layer.bias is not None:
        return layer.bias.argmin(1, keepdim=True)
    inner = layer.weight @ layer.weight.mT
    own = inner.diagonal(dim1=1, dim2=2)
    return (inner.sum(2) - own).argmin(1, keepdim=True)
