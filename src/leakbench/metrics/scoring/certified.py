"""The certified bound γ beside what was measured: rows that hold for any attacker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from leakbench.defences.certification import area, of_rank, of_union


def bounds(
    certified: Mapping[str, Any], names: Sequence[str], guesses: int, pool: int, others: int
) -> dict[str, float]:
    """Return the certified bounds, metric → γ, of metrics that say how often an attacker is right about a
    sample.

    An attack chooses the rate at which its own decisions (`members_accepted`) are right by chance.
    """
    found = {
        "exact": lambda: of_union(certified, guesses, certified["among"]),
        "identified": lambda: of_union(certified, guesses, pool),
        "tpr_at_fpr_0": lambda: of_rank(certified, others),
        "tpr_at_fpr_0_001": lambda: of_rank(certified, others, int(0.001 * others)),
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
