"""What is made of an experiment's scores: a table, its trials, and what its figure and the report need beside
them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from leakbench.tables.lines import TRIAL


@dataclass(frozen=True)
class Found:
    """A table and the trials behind its lines; the exhibit's tensors and facts."""

    table: pd.DataFrame
    trials: pd.DataFrame
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def no_lines(columns: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of `columns` without lines, and its trials."""
    condition = columns[: columns.index("convention") + 1]
    return pd.DataFrame(columns=columns), pd.DataFrame(columns=[*condition, *TRIAL])
