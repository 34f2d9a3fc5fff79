"""The certified bound γ beside what was measured: rows that hold for any attacker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from leakbench.defences.certification import area, gamma


def bounds(
    certified: Mapping[str, Any], names: Sequence[str], guesses: int, pool: int, others: int
) -> dict[str, float]:
    """Return the certified bounds γ of metrics that say how often an attacker is right about a sample."""
    found = {
        # Several guesses at one of equally likely values.
        "exact": lambda: gamma(certified, guesses / max(certified["among"], 1)),
        "identified": lambda: gamma(certified, guesses / max(pool, 1)),
        # The rank of a member among others.
        "tpr_at_fpr_0": lambda: gamma(certified, 1 / (others + 1)),
        "tpr_at_fpr_0_001": lambda: gamma(certified, (int(0.001 * others) + 1) / (others + 1)),
        "membership_auc": lambda: area(certified),
        "epsilon_low": lambda: float(certified["epsilon"]),
    }
    return {name: found[name]() for name in names if name in found}


def computed(rows: pd.DataFrame, values: Mapping[str, float], baseline: str) -> pd.DataFrame:
    """Return values that nobody measured, metric → value, as rows, one for each condition of the attack."""
    if not values:
        return rows.iloc[:0]
    own = rows[rows["baseline"] == ""]
    conditions = ["checkpoint", "pass", "client", "local_samples", "iterations"]
    kept = own.drop_duplicates(conditions)[[*conditions, "round", "sample"]]
    return kept.assign(image=-1, status="ok", usable=0, baseline=baseline, **values)
