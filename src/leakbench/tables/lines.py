"""The lines of a tidy table, and the single trials that each of them summarises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from leakbench.metrics.baselines import SNAPSHOT
from leakbench.metrics.interval import summary
from leakbench.seeds import stream

# The columns of a line that say nothing about its condition.
STATISTICS = ["mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate"]
BESIDE = [*STATISTICS, "rounds", "images", "unit", "seeds", "scale"]
# The columns of a trial that follow its line's condition, metric and convention.
TRIAL = ["line", "cluster", "trial", "value", "failed"]


@dataclass(frozen=True)
class Trials:
    """What N trials are called, each an array [N].

    cluster: trials of one cluster share one fate (str). trial: the same for one private image under every
    attack and defence (str). failed: bool. update: the cluster's number, over which a line's interval is
    drawn; None where every trial has a fate of its own.
    """

    cluster: np.ndarray
    trial: np.ndarray
    failed: np.ndarray
    update: np.ndarray | None = None


class Lines:
    """Collects the lines of one table, each with its trials."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._trials: list[tuple[np.ndarray, ...]] = []

    def add(
        self,
        line: Mapping[str, Any],
        values: np.ndarray,
        trials: Trials,
        beside: Mapping[str, Any],
        rng: np.random.Generator | None = None,
    ) -> None:
        """Add one line: `line` is its condition, `metric` and `convention`; `beside` is what follows its
        statistics.

        values: one score for each of the trials, float [N], NaN where a trial has none.
        """
        values = np.asarray(values, np.float64)
        rng = rng or bootstrap(line["metric"])
        self.lines.append({**line, **summary(values, trials.failed, rng, trials.update), **beside})
        kept = ~np.isnan(values) & (line["baseline"] in ("", SNAPSHOT))
        self._trials.append(
            tuple(each[kept] for each in (trials.cluster, trials.trial, values, trials.failed))
        )

    def trials(self) -> pd.DataFrame:
        """Return each line's condition, metric and convention, once for each trial that has a score, and then
        TRIAL.

        `line` is the line's place in the table, from 0.

        Lines of null baselines have no trials here. Words are categories, so that a file holds each of them
        once.
        """
        lines = pd.DataFrame(self.lines)
        lines = lines[[name for name in lines if name not in BESIDE]]
        sizes = [len(values) for _, _, values, _ in self._trials]
        place = np.repeat(np.arange(len(lines)), sizes)
        each = lines.iloc[place].reset_index(drop=True)
        arrays = [np.concatenate(parts) for parts in zip(*self._trials, strict=True)]
        out = each.assign(**dict(zip(TRIAL, [place, *arrays], strict=True)))
        words = [name for name, kind in out.dtypes.items() if pd.api.types.is_string_dtype(kind)]
        return out.astype(dict.fromkeys([*words, "cluster", "trial"], "category"))


def bootstrap(metric: str) -> np.random.Generator:
    """Return the generator of random numbers that draws the intervals of a metric."""
    return np.random.default_rng(stream("bootstrap", metric))
