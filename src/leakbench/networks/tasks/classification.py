"""The task of giving each image one class."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from leakbench.base.errors import UserError


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, classes] for labels int64 [n]."""
    _refuse(outputs)
    return cross_entropy(outputs, labels)


def correct(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the images whose own class is the likeliest, bool [n]."""
    _refuse(outputs)
    return outputs.argmax(1) == labels


def _refuse(outputs: Tensor) -> None:
    if outputs.dim() != 2:
        raise UserError(
            "config/trainings: task: classification takes logits of two dimensions, and the victim returns "
            f"{outputs.dim()} (choose the task recognition, or another victim)"
        )
