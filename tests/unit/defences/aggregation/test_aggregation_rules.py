"""The rules by hand: which client weighs more, how much, and that published and computed weights disagree."""

import math

import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.defences.aggregation import Report, build, cross_validates

# The second client is worse in every way.
REPORT = Report(
    samples=[30, 10], training_loss=np.array([0.2, 0.4]), training_accuracy=np.array([0.9, 0.6]),
    validation_loss=np.array([[0.1, 0.3], [0.5, 0.7]]),
    validation_accuracy=np.array([[0.9, 0.7], [0.5, 0.3]]),
)  # fmt: skip


def weights(module: str, report: Report = REPORT, **parameters: object) -> list[float]:
    return build(module, parameters)(report).tolist()


def normed(*values: float) -> object:
    return pytest.approx([value / sum(values) for value in values])


def test_the_weights_of_each_rule_by_hand() -> None:
    assert weights("fedavg") == [0.75, 0.25]
    first, second = (math.exp(loss) / (math.exp(0.2) + math.exp(0.4)) for loss in (0.2, 0.4))
    assert weights("fedboosting-equations") == normed(math.exp(first * 0.4), math.exp(second * 1.2))
    plain = weights("fedboosting-equations", training_term=False)
    assert plain == normed(math.exp(0.4), math.exp(1.2))
    assert weights("fedboosting-code") == normed(1 / 0.2 / 0.2, 1 / 0.6 / 0.4)
    assert weights("fedboosting-code", mode="accuracy") == normed(0.8 * 0.9, 0.4 * 0.6)
    assert weights("fedboosting-code", training_term=False) == normed(3, 1)
    rules = ("fedavg", "fedboosting-equations", "fedboosting-code")
    assert [cross_validates(name) for name in rules] == [False, True, True]


@pytest.mark.parametrize("module", ["fedavg", "fedboosting-equations", "fedboosting-code"])
def test_weights_add_up_to_one_for_any_number_of_clients(module: str) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7):
        losses, shares = rng.random((n, n)) * 900, rng.random((n, n))
        report = Report(rng.integers(1, 50, n).tolist(), rng.random(n) * 30, rng.random(n), losses, shares)
        found = build(module, {})(report)
        assert found.shape == (n,)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()


def test_a_client_that_diverged_weighs_nothing_in_the_code_and_stops_the_equations() -> None:
    lost = REPORT._replace(training_loss=np.array([0.2, np.nan]))
    assert weights("fedboosting-code", lost) == [1.0, 0.0]
    nothing = REPORT._replace(validation_loss=np.full((2, 2), np.nan))
    for module, report, says in (
        ("fedboosting-equations", lost, "no finite number"),
        ("fedboosting-code", nothing, "no client's loss is a finite number"),
        ("fedboosting-code", REPORT._replace(validation_loss=None), "set the training's hold_out"),
    ):
        with pytest.raises(UserError, match=says):
            build(module, {})(report)


def test_accuracies_of_zero_weigh_alike_and_a_loss_of_zero_is_no_division_by_it() -> None:
    none_right = REPORT._replace(validation_accuracy=np.zeros((2, 2)))
    assert weights("fedboosting-code", none_right, mode="accuracy") == [0.5, 0.5]
    perfect = REPORT._replace(training_loss=np.array([0.0, 0.4]))
    assert weights("fedboosting-code", perfect) == pytest.approx([1.0, 0.0], abs=1e-9)
