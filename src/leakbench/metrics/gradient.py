"""How far the gradients of reconstructions are from those observed, as the attack tells it of each update."""

from leakbench.metrics.metric import Metric
from leakbench.metrics.prices import of_rounds

METRICS = (Metric("gradient_mse", of_rounds, "standard", higher_is_better=False, of="updates"),)
