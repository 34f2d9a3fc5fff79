"""How much of a record was recovered: single features, and the whole record."""

from collections.abc import Sequence

import numpy as np

from leakbench.datasets.columns import Column
from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric

# A number is right within this many standard deviations of its column. A quarter of the numbers of a normal
# column are that near to its mean (TabLeak, ICML 2023; `create_tolerance_map` of its code).
TOLERANCE = 0.319


def feature_accuracy(
    reconstructions: np.ndarray, truths: np.ndarray, columns: Sequence[Column], deviations: np.ndarray
) -> np.ndarray:
    """Return the share of features that are right, float64 [N], of records [N, 1, 1, width] in [0, 1].

    A category is right if the true place alone holds the largest number of its block, a number within
    TOLERANCE standard deviations.
    """
    slack = [TOLERANCE * float(deviations[column.place][0]) for column in columns]
    return np.asarray(_right(reconstructions, truths, columns, slack).mean(1))


def exact_record(reconstructions: np.ndarray, truths: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Return 1 where a whole record would be written the same, else 0, float64 [N].

    Every category is right, and every number is off by at most half a step of its column (exact-match rate of
    arXiv:2606.00986).
    """
    slack = [column.step / (2 * (column.high - column.low)) for column in columns]
    return np.asarray(_right(reconstructions, truths, columns, slack).all(1), np.float64)


def _right(
    reconstructions: np.ndarray, truths: np.ndarray, columns: Sequence[Column], slack: Sequence[float]
) -> np.ndarray:
    """Return which features are right, bool [N, columns]."""
    guessed, true = (each.reshape(len(each), -1) for each in pair(reconstructions, truths))
    out = np.empty((len(true), len(columns)), bool)
    for number, column in enumerate(columns):
        a, b = guessed[:, column.place], true[:, column.place]
        if column.values:
            own = a[np.arange(len(a)), b.argmax(1)]
            out[:, number] = (a >= own[:, None]).sum(1) == 1
        else:
            out[:, number] = np.abs(a - b)[:, 0] <= slack[number]
    return out


METRICS = (
    Metric("feature_accuracy", feature_accuracy, "standard", higher_is_better=True,
    needs=("columns", "deviations")),
    Metric("exact_record", exact_record, "standard", higher_is_better=True, needs=("columns",)),
)  # fmt: skip
