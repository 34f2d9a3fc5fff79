"""How well scores tell members of a batch from others (Carlini et al., arXiv:2112.03570, section III)."""

import numpy as np
from scipy.stats import rankdata

from leakbench.metrics.metric import Metric


def membership_auc(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the share of pairs of a member and another in which the member scores lower; a tie is half."""
    inside, outside = members.sum(), (~members).sum()
    if not inside or not outside:
        return float("nan")
    above = rankdata(-scores)[members].sum() - inside * (inside + 1) / 2
    return float(above / (inside * outside))


def _found(scores: np.ndarray, members: np.ndarray, rate: float) -> float:
    """Return the share of members whose scores are lower than those of all but a few other candidates."""
    outside = np.sort(scores[~members])
    if not members.any() or not len(outside):
        return float("nan")
    return float((scores[members] < outside[int(rate * len(outside))]).mean())


def tpr_at_fpr_0(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the share of members that are found while no other candidate is taken for a member."""
    return _found(scores, members, 0.0)


def tpr_at_fpr_0_001(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the share of members found while one in a thousand others, rounded down, is taken for one."""
    return _found(scores, members, 0.001)


def members_accepted(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the share of members that the attack takes for members by its own decision."""
    return float(accepted[members].mean()) if members.any() else float("nan")


def false_acceptances(scores: np.ndarray, members: np.ndarray, accepted: np.ndarray) -> float:
    """Return the number of other candidates that the attack takes for members by its own decision."""
    return float((accepted & ~members).sum())


METRICS = (
    Metric("membership_auc", membership_auc, "standard", higher_is_better=True, of="candidates"),
    Metric("tpr_at_fpr_0", tpr_at_fpr_0, "standard", higher_is_better=True, of="candidates"),
    Metric("tpr_at_fpr_0_001", tpr_at_fpr_0_001, "standard", higher_is_better=True, of="candidates"),
    Metric("members_accepted", members_accepted, "standard", higher_is_better=True, of="candidates"),
    Metric("false_acceptances", false_acceptances, "standard", higher_is_better=False, of="candidates"),
)
