"""A run whose step size falls again after its end is no half of the published length, unless it settled."""

from typing import Any

import pytest

from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.papers.verdicts.schedule import Schedule, schedule_of

STEPS = {"adam": {"lr": 0.1, "decay": True}}
STEADY = {"adam": {"lr": 0.1, "decay": 0.9}}


@pytest.mark.parametrize("full", [1, 7, 100, 4000, 10000])
def test_the_falls_are_those_of_the_optimiser(full: int) -> None:
    drops = Adam(0.1, full, signed=True, decay=True).drops
    for ran in range(1, full + 1, max(1, full // 50)):
        found = schedule_of({"optimiser": STEPS, "decay_over": full}, ran)
        # Iterations count from 0, so the fall at iteration `ran` has not come.
        assert found == Schedule(ran, full, tuple(drop for drop in drops if drop >= ran))


@pytest.mark.parametrize(
    ("attack", "found"),
    [
        ({"optimiser": STEPS, "decay_over": 10000}, Schedule(5000, 10000, (6250, 8750))),
        ({"optimiser": STEPS, "decay_over": 5000}, Schedule(5000, 5000)),
        # Without `decay_over` the whole schedule lies within the run.
        ({"optimiser": STEPS, "decay_over": None}, Schedule(5000, 5000)),
        ({"optimiser": STEPS}, Schedule(5000, 5000)),
        # The published length of the attack is no length of its schedule.
        ({"optimiser": STEPS, "iterations": 10000}, Schedule(5000, 5000)),
        ({"optimiser": STEADY, "decay_over": 10000}, Schedule(5000, 10000, (5000,))),
        ({"optimiser": STEADY}, Schedule(5000, 5000)),
        ({"optimiser": {"adam": {"decay": False}}, "decay_over": 10000}, None),
        ({"optimiser": {"adam": {}}}, None),
        ({"optimiser": {}}, None),
        ({"optimiser": None}, None),
        ({}, None),
    ],
)
def test_the_schedule_is_read_from_what_the_catalogue_says(
    attack: dict[str, Any], found: Schedule | None
) -> None:
    assert schedule_of(attack, 5000) == found
