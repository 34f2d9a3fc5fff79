"""FedBoosting as its authors' code computes it: clients with LOWER losses weigh more, without a softmax."""

from typing import Literal

import numpy as np

from leakbench.base.errors import UserError
from leakbench.defences.aggregation import Report, validated

CROSS_VALIDATES = True
# The least loss that counts: a loss of 0 would take all the weight.
_LEAST = 1e-12


def fedboosting_code(
    report: Report, *, mode: Literal["loss", "accuracy"] = "loss", training_term: bool = True
) -> np.ndarray:
    """Return weights float64 [clients] in proportion to validation times training, adding up to 1.

    The rule is that of https://github.com/Rand2AI/FedBoosting, in the aggregation of its server. The code
    first divides each factor by a number that is the same for all clients, which makes no difference.

    mode: `loss` takes 1 / mean validation loss over the clients × 1 / training loss. A client whose loss is
    not a finite number then has weight 0. `accuracy` takes mean validation accuracy × training accuracy. If
    all accuracies are 0, as word accuracies are in the first rounds, all clients weigh the same.
    training_term: whether the training factor is used. Without it (Figure 4.6) the validation factor stands
    alone.

    Raises UserError where no loss is finite.
    """
    if mode == "accuracy":
        found = validated(report.validation_accuracy).mean(1)
        trained = np.asarray(report.training_accuracy, float)
    else:
        losses = validated(report.validation_loss).mean(1), np.asarray(report.training_loss, float)
        found, trained = (
            1 / np.maximum(np.nan_to_num(value, nan=np.inf, posinf=np.inf), _LEAST) for value in losses
        )
        if not found.any() or (training_term and not (found * trained).any()):
            raise UserError("no client's loss is a finite number (lower the training's lr)")
    weights = found * trained if training_term else found
    if not weights.any():
        weights = np.ones_like(weights)
    return weights / weights.sum()
