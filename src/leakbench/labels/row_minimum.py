"""GradInversion's rule: the classes whose row of the weight gradient falls lowest."""

from torch import Tensor

from leakbench.errors import Unfit


def row_minimum(weight: Tensor, bias: Tensor | None, batch: int, prior: Tensor) -> Tensor:
    """Return the `batch` classes with the lowest minimum over their row, none twice: [trials, batch].

    Needs inputs of the last layer that are not negative. Source: GradInversion, Eqn 8; AGIC uses it for
    FedAvg updates. Raises Unfit for a batch larger than the number of classes.
    """
    classes = weight.shape[1]
    if batch > classes:
        raise Unfit(
            f"labels: row-minimum gives no label twice, so {batch} images need as many classes, not "
            f"{classes} (use counted)"
        )
    return weight.amin(2).topk(batch, dim=1, largest=False).indices
