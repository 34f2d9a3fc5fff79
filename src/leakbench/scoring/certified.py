"""The certified bound γ beside what was measured: a row that stands for any attacker."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from leakbench.certificate import area, of_rank, of_union
from leakbench.metrics.baselines import CERTIFIED, EXPECTED


def bounds(
    certified: Mapping[str, Any], names: Sequence[str], guesses: int, pool: int, others: int
) -> dict[str, float]:
    """Return metric → γ, for those of `names` that say how often an attacker is right about a sample.

    certified: what the defence certifies, and among how many samples a private one was drawn. guesses: how
    many reconstructions an attack has for each update; a private sample takes the one that suits it best, so
    each of them may be right by chance. pool: images among which a private one must be recognised. others:
    candidates that are no members. What an attack decides for itself (`members_accepted`) has no bound here,
    since the rate at which it is right by chance is its own choice.
    """
    found = {
        "exact": lambda: of_union(certified, guesses, certified["among"]),
        "identified": lambda: of_union(certified, guesses, pool),
        "tpr_at_fpr_0": lambda: of_rank(certified, others),
        "tpr_at_fpr_0_001": lambda: of_rank(certified, others, int(0.001 * others)),
        "membership_auc": lambda: area(certified),
    }
    return {name: found[name]() for name in names if name in found}


def certified_rows(rows: pd.DataFrame, gammas: Mapping[str, float]) -> pd.DataFrame:
    """Return the bounds as rows of the baseline `certified`: one for each condition that the attack's own
    `rows` have."""
    return _computed(rows, gammas, CERTIFIED)


def expected_rows(rows: pd.DataFrame, expected: Mapping[str, float], names: Sequence[str]) -> pd.DataFrame:
    """Return what a closed form expects of those of the metrics `names` that it speaks of, likewise."""
    return _computed(rows, {name: value for name, value in expected.items() if name in names}, EXPECTED)


def _computed(rows: pd.DataFrame, values: Mapping[str, float], baseline: str) -> pd.DataFrame:
    if not values:
        return rows.iloc[:0]
    own = rows[rows["baseline"] == ""]
    conditions = ["checkpoint", "pass", "client", "local_samples", "iterations"]
    kept = own.drop_duplicates(conditions)[[*conditions, "round", "sample"]]
    return kept.assign(image=-1, status="ok", usable=0, baseline=baseline, **values)
