"""Conditions that fail a build."""

import pytest

from leakbench.audit.child import seconds_of
from leakbench.base.errors import UserError
from leakbench.jobs.audit import check, gigabytes, met

AUDIT = {
    "found": [
        {"attacker": "A", "levels": [1, 0, 0]},
        {"attacker": "B", "levels": [0, 2, 3]},
        {"attacker": "C", "levels": [0, 0, 0]},
    ]
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("exposed > 0 at A..D", True), ("exposed > 0", True), ("exposed > 0 at A", False),
        ("exposed > 2 at A..D", False), ("recognisable == 3 at A..B", True), ("labelled >= 1 at B", True),
        ("labelled >= 2 at B", False), ("exposed <= 0 at C..D", False), ("recognisable<1", False),
        # D's own attacks read nothing here, and D can run those of B.
        ("exposed > 0 at D", True), ("exposed == 2 at B..C", True),
        # No conditions.
        ("", None), ("exposed", None), (f"exposed > {'9' * 5000}", None), ("exposed > x", None),
        ("leaked > 0", None), ("leaks", None), ("exposed > 0 at Z", None), ("1 > 0", None),
        ("exposed > 0 at E..H", None),
    ],
)  # fmt: skip
def test_conditions_compare_the_best_level_of_each_record(condition: str, holds: bool | None) -> None:
    if holds is None:
        with pytest.raises(UserError, match="no condition"):
            check(condition)
    else:
        assert met(condition, AUDIT) is holds


def test_durations_and_sizes() -> None:
    assert [seconds_of(each) for each in ("90", "90s", "2m", "1.5h", 3)] == [90, 90, 120, 5400, 3]
    assert [gigabytes(each) for each in ("4g", "512m")] == [4, 0.5]
    for wrong in ("", "m", "-3s", "0", "2 minutes", "9" * 400):
        with pytest.raises(UserError, match="budget"):
            seconds_of(wrong)
