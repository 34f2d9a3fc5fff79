"""An empirical lower bound of ε: what the ranks of members in many updates prove of a defence."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta

from leakbench.metrics.metric import Metric

# The confidence of the bound, which is shared among the rates of false positives that are tried.
LEVEL = 0.95
# The rates of false positives at which members are counted, beside the least that the candidates allow.
RATES = (0.01, 0.1)
# The δ of a defence that states none.
DELTA = 1e-5


def place_of_member(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the share of the ranks that are no worse than that of an update's first member, in (0, 1].

    Ranks are those of the member and of all others. Had its sample been left out, its rank could be any of
    them alike, so that the share is a p-value. A tie counts against the attack. Without either it is NaN.
    """
    outside = scores[~members]
    if not members.any() or not len(outside):
        return float("nan")
    return float(((outside <= scores[members.argmax()]).sum() + 1) / (len(outside) + 1))


def lower_bound(places: np.ndarray, others: int, certified: Mapping[str, Any] | None = None) -> float:
    """Return the ε that a defence has at least, with a confidence of 95 %.

    At a rate κ of false positives, which is known exactly, Clopper and Pearson's bound says how many members
    are found at least. (ε, δ)-privacy allows for e^ε κ + δ, and μ-Gaussian privacy, which `certified` may
    state, for Φ(Φ⁻¹(κ) + μ). Source: Nasr et al. (arXiv:2302.07956), section 4, with ranks among `others`.
    """
    # The room of metrics is imported without torch.
    from leakbench.defences.certification import epsilon_of

    places = places[np.isfinite(places)]
    if not len(places) or others < 1:
        return float("nan")
    delta = float(certified["delta"]) if certified else DELTA
    rates = sorted({math.floor(rate * (others + 1)) / (others + 1) for rate in RATES} | {1 / (others + 1)})
    best = 0.0
    for rate in (each for each in rates if each > 0):
        found = int((places <= rate * (1 + 1e-12)).sum())
        if not found:
            continue
        low = float(beta.ppf((1 - LEVEL) / len(rates), found, len(places) - found + 1))
        if low <= rate:
            continue
        if certified and certified["sample_rate"] == 1:
            best = max(best, epsilon_of(float(ndtri(low) - ndtri(rate)), delta))
            continue
        for share, chance in ((low, rate), (1 - rate, 1 - low)):
            best = max(best, math.log(max(share - delta, 1e-300) / chance))
    return best


METRICS = (Metric("epsilon_low", place_of_member, "standard", higher_is_better=True, of="candidates"),)
