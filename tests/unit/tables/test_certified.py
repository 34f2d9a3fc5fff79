"""A measured rate above its certified bound ends the table."""

import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables import certified


def table(mean: float, low: float, high: float, bound: float) -> pd.DataFrame:
    line = {
        "dataset": "d", "victim": "v", "federation": "f", "defence": "dp-sgd", "attack": "alignment",
        "client": 0, "metric": "tpr_at_fpr_0", "unit": "update", "seeds": "0", "scale": "quick",
    }  # fmt: skip
    own = {"baseline": "", "mean": mean, "ci_low": low, "ci_high": high, "n": 200}
    other = {"baseline": CERTIFIED, "mean": bound, "n": 1}
    unbounded = {"metric": "members_accepted", "mean": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    return pd.DataFrame([line | own, line | other, line | own | unbounded])


def breaks(rows: pd.DataFrame) -> bool:
    """Return whether the check ends the table."""
    try:
        certified.check_bounds(rows)
    except UserError:
        return True
    return False


def holds() -> None:
    """Assert that only an interval above the bound of its own cell is an error."""
    above = table(0.6, 0.55, 0.65, 0.5)
    assert breaks(above)
    assert not breaks(table(0.6, 0.5, 0.65, 0.5))
    assert not breaks(table(0.6, float("nan"), float("nan"), 0.5))
    # A bound on another attack bounds nothing here, and most tables have none.
    assert not breaks(above.assign(attack=["one", "other", "one"]))
    assert not breaks(above[above["baseline"] == ""])


def test_an_interval_above_the_bound_is_an_error_that_names_the_cell() -> None:
    with pytest.raises(
        UserError, match=r"d/v/f/dp-sgd/alignment: tpr_at_fpr_0: measured 0\.6, interval 0\.55"
    ):
        certified.check_bounds(table(0.6, 0.55, 0.65, 0.5))


def test_an_interval_above_the_bound_is_an_error_and_one_that_reaches_it_is_none() -> None:
    holds()


def test_a_check_that_looks_at_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above."""
    monkeypatch.setattr(certified, "check_bounds", lambda rows: None)
    with pytest.raises(AssertionError):
        holds()
