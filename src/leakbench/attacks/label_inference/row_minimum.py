"""GradInversion's rule: the classes whose row of the weight gradient falls lowest."""

from torch import Tensor

from leakbench.attacks.label_inference import LastLayer
from leakbench.base.errors import Unfit


def row_minimum(layer: LastLayer) -> Tensor:
    """Return the `batch` classes with the lowest minimum over their row, none twice: [trials, batch].

    The rule needs inputs of the last layer that are not negative. It is GradInversion's (Eqn 8), and AGIC
    uses it for FedAvg updates. Raises Unfit for a batch larger than the number of classes.
    """
    if layer.batch > layer.classes:
        raise Unfit(
            f"labels: row-minimum gives no label twice, so {layer.batch} images need as many classes, not "
            f"{layer.classes} (use counted)"
        )
    return layer.weight.amin(2).topk(layer.batch, dim=1, largest=False).indices
