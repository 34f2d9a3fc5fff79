"""The lines of a tidy table, the single trials that each of them summarises, and what belongs to both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.base.seeds import stream
from leakbench.metrics.baselines import OTHER_UPDATE, SNAPSHOT
from leakbench.metrics.interval import summary

# The columns of a line that say nothing about its condition.
STATISTICS = ["mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate"]
BESIDE = [*STATISTICS, "rounds", "images", "unit", "seeds", "scale"]
# The columns of a trial that follow its line's condition, metric and convention.
TRIAL = ["line", "cluster", "trial", "value", "failed"]


@dataclass(frozen=True)
class TrialNames:
    """The names of N trials, each an array [N]."""

    cluster: np.ndarray  # trials of one cluster share one fate (str)
    trial: np.ndarray  # the same for one private image under every attack and defence (str)
    failed: np.ndarray
    # The cluster's number, over which a line's interval is drawn; None where each trial has its own fate.
    update: np.ndarray | None = None


def of_seeds(rows: pd.DataFrame) -> TrialNames:
    """Return the names of trials that are each one run: their seeds, from a column `seed`."""
    seeds = rows["seed"].astype(str).to_numpy(object)
    return TrialNames(seeds, seeds, np.zeros(len(rows), bool))


class Lines:
    """Collects the lines of one table, each with its trials."""

    def __init__(self, scale: str) -> None:
        self.scale = scale
        self.lines: list[Facts] = []
        self._trials: list[tuple[np.ndarray, ...]] = []

    def add(
        self,
        condition: Mapping[Any, Any],
        metric: tuple[str, str],
        values: np.ndarray,
        trials: TrialNames,
        unit: str,
        seeds: Iterable[int],
        rng: np.random.Generator | None = None,
        **more: Any,
    ) -> None:
        values = np.asarray(values, np.float64)
        found = summary(values, trials.failed, rng or bootstrap(metric[0]), trials.update)
        named = dict(zip(("metric", "convention"), metric, strict=True))
        beside = {"unit": unit, "seeds": " ".join(map(str, sorted(set(seeds)))), "scale": self.scale}
        self.lines.append({**condition, **named, **found, **more, **beside})
        kept = ~np.isnan(values) & (condition["baseline"] in ("", SNAPSHOT, OTHER_UPDATE))
        self._trials.append(
            tuple(each[kept] for each in (trials.cluster, trials.trial, values, trials.failed))
        )

    def trials(self) -> pd.DataFrame:
        """Return the single trials behind the lines, with their line's condition, metric and convention."""
        # `line` is the line's place in the table, from 0. Of the null baselines, only what the attack made of
        # another update has trials here.
        lines = pd.DataFrame(self.lines)
        lines = lines[[name for name in lines if name not in BESIDE]]
        sizes = [len(values) for _, _, values, _ in self._trials]
        place = np.repeat(np.arange(len(lines)), sizes)
        each = lines.iloc[place].reset_index(drop=True)
        arrays = [np.concatenate(parts) for parts in zip(*self._trials, strict=True)]
        out = each.assign(**dict(zip(TRIAL, [place, *arrays], strict=True)))
        # A file holds each category once.
        words = [name for name, kind in out.dtypes.items() if pd.api.types.is_string_dtype(kind)]
        return out.astype(dict.fromkeys([*words, "cluster", "trial"], "category"))


def bootstrap(metric: str) -> np.random.Generator:
    return np.random.default_rng(stream("bootstrap", metric))


@dataclass(frozen=True)
class Tabled:
    """The results of an experiment."""

    table: pd.DataFrame
    trials: pd.DataFrame  # the single trials behind its lines
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


def no_lines(columns: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of `columns` that has no lines, and its trials."""
    condition = columns[: columns.index("convention") + 1]
    return pd.DataFrame(columns=columns), pd.DataFrame(columns=[*condition, *TRIAL])
