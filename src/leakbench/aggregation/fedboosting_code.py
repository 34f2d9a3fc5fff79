"""FedBoosting as its authors' code computes it: clients with LOWER losses weigh more, and there is no
softmax."""

from typing import Literal

import numpy as np

from leakbench.aggregation import Report, validated
from leakbench.errors import UserError

CROSS_VALIDATES = True
# A loss of 0 would take all the weight there is.
_LEAST = 1e-12


def fedboosting_code(
    report: Report, *, mode: Literal["loss", "accuracy"] = "loss", training_term: bool = True
) -> np.ndarray:
    """Return weights float64 [clients] in proportion to validation times training, adding up to 1.

    `loss`: 1 / mean validation loss over the clients × 1 / training loss. `accuracy`: mean validation
    accuracy × training accuracy. What the code divides each factor by before is alike for all clients and
    makes no difference. Without the `training_term` (Figure 4.6) the first factor stands alone. A client
    whose loss is no finite number weighs nothing; accuracies that are all 0, as words are in the first
    rounds, weigh alike. Raises UserError where no loss is finite.
    Source: https://github.com/Rand2AI/FedBoosting, the aggregation of its server.
    """
    if mode == "accuracy":
        found = validated(report.validation_accuracy).mean(1)
        trained = np.asarray(report.training_accuracy, float)
    else:
        found, trained = (
            1 / np.maximum(np.nan_to_num(value, nan=np.inf, posinf=np.inf), _LEAST)
            for value in (
                validated(report.validation_loss).mean(1),
                np.asarray(report.training_loss, float),
            )
        )
        if not found.any() or (training_term and not (found * trained).any()):
            raise UserError("no client's loss is a finite number (lower the training's lr)")
    weights = found * trained if training_term else found
    if not weights.any():
        weights = np.ones_like(weights)
    return weights / weights.sum()
