"""Every published AGIC number and claim, beside what we measured.

The facts that `findings` expects (any key may be missing: what depends on it is then not-run, with that
reason):

    {
        # The attacks as the catalogue has them, no scale's caps applied: parameters of the function, and
        # `labels` and `generator` of the entry.
        "attacks": {"agic": {"distance": "cosine", "tv": 0.0001, "optimiser": "adam", "lr": 0.1, "beta": 50.0,
                             "inference": "row-minimum", "updates": "one-batch", "labels": "inferred",
                             "generator": {}, ...}, "dlg": ..., "idlg": ..., "invg": ..., "agic-joint": ...},
        "federations": {"agic-fedavg": {"lr": 0.0001}, ...},     # local learning rate
        "agic_run": {"iterations": 10000, "pre_iterations": 2000, "rounds": 100},   # what this scale ran
        "iterations": {"agic-figure-8": 10000, ...},        # fewest steps of an experiment's attacks
        "agic_seconds": {"invg": {"1": 60.0, "8": 300.0, ...}, "agic": ...},   # Figure 8, by local steps
        "convolutions": 21,                                      # of ResNet20-4 as built
        "pooling": "2x2,2",                                      # kernel and stride of update matching
    }
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leakbench.scorecard.agic_claims import CLAIMS
from leakbench.scorecard.agic_numbers import NUMBERS
from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.verdict import Finding


def findings(
    tables: Mapping[str, pd.DataFrame],
    facts: Mapping[str, Any],
    absent: Absent | None = None,
    recorded: Mapping[str, pd.DataFrame] | None = None,
) -> dict[str, Finding]:
    """A finding for every AGIC id of `published/`, also for those that could not be measured (they say why).

    tables: experiment name (`agic-table-4`, ...) -> tidy table as the `table` verb writes it. facts: see the
    module.
    absent: experiment name -> stem -> why its cells are absent. recorded: experiment name -> rows of
    longer runs, which are told beside ours. Raises UserError when a
    table lacks a column or has several rows where one is meant.
    """
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}, recorded or {}))
