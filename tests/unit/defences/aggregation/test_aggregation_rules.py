"""The rules by hand: which client weighs more, how much, and that published and computed weights disagree."""

import math

import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.defences import aggregation
from leakbench.defences.aggregation import Report, build, cross_validates

# The second client is worse in every way.
REPORT = Report(
    samples=[30, 10],
    training_loss=np.array([0.2, 0.4]),
    training_accuracy=np.array([0.9, 0.6]),
    validation_loss=np.array([[0.1, 0.3], [0.5, 0.7]]),
    validation_accuracy=np.array([[0.9, 0.7], [0.5, 0.3]]),
)


def weights(module: str, report: Report = REPORT, **parameters: object) -> list[float]:
    return build(module, parameters)(report).tolist()


def test_fedavg_weighs_by_images() -> None:
    assert weights("fedavg") == [0.75, 0.25]
    assert not cross_validates("fedavg")


def test_the_equations_as_printed() -> None:
    first, second = (math.exp(loss) / (math.exp(0.2) + math.exp(0.4)) for loss in (0.2, 0.4))
    powers = [math.exp(first * 0.4), math.exp(second * 1.2)]
    assert weights("fedboosting-equations") == pytest.approx([power / sum(powers) for power in powers])
    plain = [math.exp(0.4), math.exp(1.2)]
    assert weights("fedboosting-equations", training_term=False) == pytest.approx(
        [power / sum(plain) for power in plain]
    )


def test_the_code_in_its_two_modes() -> None:
    loss = [1 / 0.2 / 0.2, 1 / 0.6 / 0.4]
    assert weights("fedboosting-code") == pytest.approx([each / sum(loss) for each in loss])
    right = [0.8 * 0.9, 0.4 * 0.6]
    assert weights("fedboosting-code", mode="accuracy") == pytest.approx(
        [each / sum(right) for each in right]
    )
    assert weights("fedboosting-code", training_term=False) == pytest.approx([0.75, 0.25])


def test_equations_and_code_favour_opposite_clients() -> None:
    assert weights("fedboosting-equations")[0] < 0.5 < weights("fedboosting-code")[0]


@pytest.mark.parametrize("module", ["fedavg", "fedboosting-equations", "fedboosting-code"])
def test_weights_add_up_to_one_for_any_number_of_clients(module: str) -> None:
    rng = np.random.default_rng(0)
    for clients in (1, 2, 7):
        report = Report(
            rng.integers(1, 50, clients).tolist(),
            rng.random(clients) * 30,
            rng.random(clients),
            rng.random((clients, clients)) * 900,
            rng.random((clients, clients)),
        )
        found = build(module, {})(report)
        assert found.shape == (clients,)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()


def test_a_client_that_diverged_weighs_nothing_in_the_code_and_stops_the_equations() -> None:
    lost = REPORT._replace(training_loss=np.array([0.2, np.nan]))
    assert weights("fedboosting-code", lost) == [1.0, 0.0]
    with pytest.raises(UserError, match="no finite number"):
        build("fedboosting-equations", {})(lost)
    nothing = REPORT._replace(validation_loss=np.full((2, 2), np.nan))
    with pytest.raises(UserError, match="no client's loss is a finite number"):
        build("fedboosting-code", {})(nothing)


def test_accuracies_of_zero_weigh_alike_and_a_loss_of_zero_is_no_division_by_it() -> None:
    none_right = REPORT._replace(validation_accuracy=np.zeros((2, 2)))
    assert weights("fedboosting-code", none_right, mode="accuracy") == [0.5, 0.5]
    perfect = REPORT._replace(training_loss=np.array([0.0, 0.4]))
    assert weights("fedboosting-code", perfect) == pytest.approx([1.0, 0.0], abs=1e-9)


def test_what_a_rule_needs_is_told() -> None:
    assert cross_validates("fedboosting-code")
    assert cross_validates("fedboosting-equations")
    with pytest.raises(UserError, match="set the training's hold_out") as told:
        aggregation.build("fedboosting-code", {})(REPORT._replace(validation_loss=None))
    assert "\n" not in str(told.value)
