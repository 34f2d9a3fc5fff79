"""How often a client's detectors raise an alarm, on models of malicious servers and of honest ones."""

from leakbench.metrics.metric import Metric
from leakbench.metrics.updates import of_rounds

# One metric for each file of detectors/ that judges models, named after the file.
METRICS = (
    Metric("alarm_d_snr", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_dynamics", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_few_open", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_isolation", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_one_sided_rows", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_rows_alike", of_rounds, "standard", higher_is_better=True, of="updates"),
)
