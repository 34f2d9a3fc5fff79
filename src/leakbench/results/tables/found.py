"""The results of an experiment: its table, its trials, and what its figure and the report need too."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.results.tables.lines import TRIAL


@dataclass(frozen=True)
class Found:
    table: pd.DataFrame
    trials: pd.DataFrame  # the single trials behind its lines
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


def no_lines(columns: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of `columns` that has no lines, and its trials."""
    condition = columns[: columns.index("convention") + 1]
    return pd.DataFrame(columns=columns), pd.DataFrame(columns=[*condition, *TRIAL])
