"""FedBoosting as the thesis prints it: taken literally, it favours clients with HIGHER losses."""

import numpy as np

from leakbench.base.errors import UserError
from leakbench.defences.aggregation import Report, validated

CROSS_VALIDATES = True


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def fedboosting_equations(report: Report, *, training_term: bool = True) -> np.ndarray:
    """Return softmax(softmax(T) · Σ_j V^j), float64 [clients], adding up to 1.

    T are the training losses. V are the losses of each client's model on each client's validation images,
    summed over these. The equations are Eqns 4.1 to 4.3 of Ren's thesis.

    training_term: whether the factor softmax(T) is used. Without it (Figure 4.6) the weights are softmax(Σ_j
    V^j).

    Raises UserError for a loss that is not a finite number.
    """
    losses = validated(report.validation_loss).sum(1)
    trained = np.asarray(report.training_loss, float)
    if not (np.isfinite(losses).all() and np.isfinite(trained).all()):
        raise UserError(
            "a client's loss is no finite number, which a softmax cannot weigh (lower the training's lr)"
        )
    return softmax(softmax(trained) * losses if training_term else losses)
