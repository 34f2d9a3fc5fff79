"""Every published Fidel number and claim, beside what we measured.

The facts that `findings` expects (any key may be missing: what depends on it is then not-run, with that
reason):

    {
        "architectures": {
            "FCNN":              {"layers": [LAYER, ...], "hyper": {...}},   # Table I
            "CNN":               {"layers": [LAYER, ...], "hyper": {...}},   # Table II
            "generator-mnist":   {"layers": [LAYER, ...], "hyper": {...}},   # Table III
            "generator-cifar10": {"layers": [LAYER, ...], "hyper": {...}},   # Table IV
        },
        "correlation_threshold": 0.98,
        "auxiliary_samples": 6000,         # samples that train a generator, its validation part included
        "private_pool": 4000,              # test samples left for the clients
        "auxiliary_private_overlap": 0,    # samples in both
        "generator_minutes": {"mnist": 1.5, "cifar10": 6.0},   # wall minutes of training each generator
    }

LAYER is a dict with the keys layer, size, stride, padding, activation; a key may be missing or empty when
it does not apply. The words are those of `published/fidel_tables-1-4.csv`: layer is input, dense, conv2d,
conv2d transpose, maxpool, flatten, reshape, batchnorm, or "up-sampling nearest"; size is "128" (dense
units), "3,3 x 32" (kernel x filters), "2,2" (pool or up-sampling factor), "13,13,32" or "28,28" (input,
reshape); stride is "2,2"; padding is same or valid; activation is relu, sigmoid, tanh, linear, softmax or
none. The first layer is the input. Dropout layers are left out. `hyper` has learning_rate, loss, optimizer,
and batch_size (victims) or rho (generators); loss is "categorical crossentropy" or "mean squared error".
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.fidel_claims import CLAIMS
from leakbench.scorecard.fidel_numbers import NUMBERS
from leakbench.scorecard.verdict import Finding


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Absent | None = None
) -> dict[str, Finding]:
    """A finding for every Fidel id of `published/`, also for those that could not be measured (they say
    why).

    tables: experiment name (`fidel-figure-13`, ...) -> tidy table as the `table` verb writes it. facts: see
    the module.
    absent: experiment name -> stem -> why its cells are absent. Raises UserError when a
    table lacks a column or has several rows where one is meant.
    """
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}))
