"""How often a client's detectors sound: on models that a malicious server wrote, and on honest ones."""

from leakbench.metrics.metric import Metric
from leakbench.metrics.prices import of_rounds

# One for each file of detectors/, named after it.
METRICS = (
    Metric("alarm_d_snr", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_dynamics", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_few_open", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_isolation", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_one_sided_rows", of_rounds, "standard", higher_is_better=True, of="updates"),
    Metric("alarm_rows_alike", of_rounds, "standard", higher_is_better=True, of="updates"),
)
