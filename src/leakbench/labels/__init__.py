"""Label inference: from the update of the last dense layer to the labels of its batch; one file each, found
by its name.

Each takes the weight update [trials, classes, inputs] and bias update [trials, classes] (none if the layer
has no bias) as mean gradients over a batch, the batch's size and the model's mean prediction on noise
[classes], and returns labels [trials, batch], ascending.
"""

from torch import Tensor

from leakbench.parts import part


def infer(method: str, weight: Tensor, bias: Tensor | None, batch: int, prior: Tensor) -> Tensor:
    """Return the labels [trials, batch] that the method whose file is `method` reads out of the last layer's
    update.

    Raises Unfit if the method cannot serve a batch of this size.
    """
    found: Tensor = part("labels", method)(weight, bias, batch, prior)
    return found.sort(1).values
