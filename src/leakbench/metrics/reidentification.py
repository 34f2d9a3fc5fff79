"""Whether classifiers that identify people still name the person on a reconstruction (Ren's thesis, 3.3.4).

A judge is a victim trained on the train split of the cell's own data set. Its answers to the reconstructions
are given under the judge's name, as float [N, classes], where a higher number is more likely. The metrics
here take these answers and run no network.
"""

from collections.abc import Callable

import numpy as np

from leakbench.metrics.images import displayed, undisplayable
from leakbench.metrics.metric import Metric


def top(count: int) -> Callable[..., np.ndarray]:
    """Return the metric that says whether the true label is among the `count` highest answers.

    Source: thesis, Table 3.15. The metric takes reconstructions and truths [N, C, H, W], `labels` (the true
    ones, int [N]) and the answers of one judge. It returns 1 or 0, float64 [N], NaN where there is no image.
    Classes that tie with the true one come before it. It raises ValueError for answers or labels of another
    length.
    """

    def among(
        reconstructions: np.ndarray, truths: np.ndarray, *, labels: np.ndarray, **judge: np.ndarray
    ) -> np.ndarray:
        (answers,) = judge.values()
        if not len(answers) == len(labels) == len(reconstructions):
            raise ValueError(
                f"{len(reconstructions)} reconstructions, {len(answers)} answers, {len(labels)} labels"
            )
        own = np.take_along_axis(answers, labels[:, None], axis=1)
        before = (answers >= own).sum(1) - 1
        nothing = undisplayable(displayed(reconstructions))
        return np.where(nothing, np.nan, (before < count).astype(np.float64))

    return among


METRICS = tuple(
    Metric(
        f"top{count}_{judge}", top(count), "standard", higher_is_better=True,
        needs=("labels", f"judge_{judge}_faces"),
    )
    for judge in ("resnet18", "densenet121") for count in (1, 3, 5)
)  # fmt: skip
