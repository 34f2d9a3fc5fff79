"""Whether classifiers that identify people still name the person on a reconstruction (Ren's thesis, 3.3.4).

A judge is a victim trained on the train split of the cell's own data set. Metrics take its answers to the
reconstructions, float [N, classes], under its name.
"""

from collections.abc import Callable

import numpy as np

from leakbench.metrics.images import displayed, undisplayable
from leakbench.metrics.metric import Metric


def top(count: int) -> Callable[..., np.ndarray]:
    """Return the metric that says whether the true label is among the `count` highest answers (Table 3.15).

    Its answers are those of one judge. Classes that tie with the true one come before it.
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


METRICS = (
    Metric("top1_resnet18", top(1), "standard", higher_is_better=True,
    needs=("labels", "judge_resnet18_faces")),
    Metric("top3_resnet18", top(3), "standard", higher_is_better=True,
    needs=("labels", "judge_resnet18_faces")),
    Metric("top5_resnet18", top(5), "standard", higher_is_better=True,
    needs=("labels", "judge_resnet18_faces")),
    Metric("top1_densenet121", top(1), "standard", higher_is_better=True,
    needs=("labels", "judge_densenet121_faces")),
    Metric("top3_densenet121", top(3), "standard", higher_is_better=True,
    needs=("labels", "judge_densenet121_faces")),
    Metric("top5_densenet121", top(5), "standard", higher_is_better=True,
    needs=("labels", "judge_densenet121_faces")),
)  # fmt: skip
