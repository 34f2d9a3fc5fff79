"""How often a client's detectors raise an alarm, on models of malicious servers and of honest ones."""

from leakbench.metrics.metric import Metric
from leakbench.metrics.updates import of_rounds

# The files of detectors/ that judge models.
DETECTORS = ("d_snr", "dynamics", "few_open", "isolation", "one_sided_rows", "rows_alike")

METRICS = tuple(
    Metric(f"alarm_{name}", of_rounds, "standard", higher_is_better=True, of="updates") for name in DETECTORS
)
