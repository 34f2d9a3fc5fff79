"""Rows of weights that all lean to one side, as trap weights do."""

from leakbench.base.errors import Unfit
from leakbench.federation.detectors import Received

# Standard deviations: at this distance, nearly all rows lie on one side of zero.
ALARM = 2.0
# The smallest deviation: rows whose leans agree to a few digits have none to divide by.
LEAST = 1e-6


def one_sided_rows(received: Received) -> float:
    """Return how many standard deviations the mean lean of the first dense layer's rows is from zero.

    The lean of a row is the sum of its weights, divided by their Euclidean length and by the root of their
    number, in [-1, 1]. Independent weights lean to either side. Raises Unfit where there is no such layer, or
    it has one row.
    """
    rows = received.layer.weight.detach().double()
    if len(rows) < 2:
        raise Unfit("the first dense layer has one neuron alone")
    lean = rows.sum(1) / (rows.norm(dim=1).clamp_min(1e-30) * rows.shape[1] ** 0.5)
    return float(lean.mean().abs() / lean.std().clamp_min(LEAST))
