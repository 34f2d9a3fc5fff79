"""Scores of candidates: chance, ties, and what a false alarm costs."""

import numpy as np
import pytest

from leakbench.metrics.membership import (
    false_acceptances,
    members_accepted,
    membership_auc,
    tpr_at_fpr_0,
    tpr_at_fpr_0_001,
)

MEMBERS = np.array([True, True, False, False, False, False])
NOBODY = np.zeros(6, bool)


@pytest.mark.parametrize(
    ("scores", "auc", "found"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 1.0, 1.0),
        ([0.1, 0.35, 0.3, 0.4, 0.5, 0.6], 7 / 8, 0.5),
        ([0.9, 0.8, 0.3, 0.4, 0.5, 0.6], 0.0, 0.0),
        # Who is as near as a member is a false alarm.
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 0.5, 0.0),
    ],
)
def test_members_should_be_nearer(scores: list[float], auc: float, found: float) -> None:
    given = np.array(scores), MEMBERS, NOBODY
    assert membership_auc(*given) == auc
    assert tpr_at_fpr_0(*given) == found


def test_one_in_a_thousand_may_be_a_false_alarm() -> None:
    members = np.arange(1003) < 3
    scores = np.where(members, 0.5, 1.0)
    scores[3] = 0.4
    assert tpr_at_fpr_0(scores, members, members) == 0.0
    assert tpr_at_fpr_0_001(scores, members, members) == 1.0
    scores[4] = 0.4
    assert tpr_at_fpr_0_001(scores, members, members) == 0.0
    # Of fewer than a thousand none may be one.
    assert tpr_at_fpr_0_001(scores[:900], members[:900], members[:900]) == 0.0


def test_an_attacks_own_decision_is_counted() -> None:
    accepted = np.array([True, False, True, False, False, True])
    assert members_accepted(np.zeros(6), MEMBERS, accepted) == 0.5
    assert false_acceptances(np.zeros(6), MEMBERS, accepted) == 2.0


def test_without_members_or_others_there_is_nothing_to_tell() -> None:
    scores, everybody = np.arange(6.0), np.ones(6, bool)
    for members in (NOBODY, everybody):
        assert np.isnan(membership_auc(scores, members, NOBODY))
        assert np.isnan(tpr_at_fpr_0(scores, members, NOBODY))
    assert np.isnan(members_accepted(scores, NOBODY, NOBODY))
