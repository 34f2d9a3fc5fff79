"""Scales in which every row of ours has the value that a test gives it: papers/ is judged without a run."""

import fnmatch
import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from worlds import CONFIG, KNOWN, as_printed, judged

from leakbench.catalogue.load import load_kind
from leakbench.papers.scorecard.evidence import PLACE, ScaleEvidence, Table
from leakbench.papers.scorecard.quantity import Measured, NotMeasured

EXPERIMENTS = {
    name: entry.model_dump(exclude_none=True) for name, entry in load_kind(CONFIG, "experiments").items()
}
Values = Callable[[Mapping[str, Any]], float | None]


class World(ScaleEvidence):
    """A scale with 20 trials of everything; `values` gives a mean, None or NaN where there is none."""

    def __init__(self, values: Values) -> None:
        super().__init__("paper", {}, known=KNOWN)
        self.values, self.asked = values, []

    def read(self, experiment: str, metric: str, published: Any, **where: object) -> Measured:
        asked = {"experiment": experiment, "metric": metric, **where}
        self.asked.append(asked)
        value = self.values(asked)
        if value is None or math.isnan(value):
            raise NotMeasured("needs paper scale")
        leaf = frozenset({(experiment, key(asked))})
        room = 1e-4 * abs(value)
        extra = {"std": 0.005, "failure_rate": 0.0}
        return Measured(value, value - room, value + room, 20, 20, leaves=leaf, metric=metric, extra=extra)


def key(asked: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a condition as something that a dict can hold."""
    return tuple(sorted((column, str(value)) for column, value in asked.items() if str(value) != ""))


def printed(name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return what our tables would hold if every printed number were ours, by condition."""
    return {key(where): value for _, _, where, value in as_printed(name, "mean")}


def lines(experiment: str, rows: list[dict[str, Any]]) -> Table:
    usual = {
        "baseline": "", "convention": "standard", "std": 0.0, "n": 1, "ci_low": float("nan"),
        "ci_high": float("nan"),
    }  # fmt: skip
    return Table(experiment, pd.DataFrame([usual | row for row in rows]))


def nowhere(asked: Mapping[str, Any]) -> str:
    """Return "" where an experiment has the cell or study that a condition names, else what it lacks."""
    entry = EXPERIMENTS[str(asked["experiment"])]
    metrics = entry.get("metrics")
    if metrics and asked["metric"] not in metrics:
        return f"metric {asked['metric']}"
    place = {column: str(asked[column]) for column in PLACE if column in asked}
    for cell in [*entry.get("cells", []), *entry.get("trainings", [])]:
        cell = {"defence": ["none"], **cell}
        if all(_has(cell.get(column, []), value) for column, value in place.items()):
            return ""
    return f"a cell {place}"


def _has(names: list[str], value: str) -> bool:
    return "all" in names or any(fnmatch.fnmatchcase(value, str(name)) for name in names)


def of_values(name: str, values: Any, change: Any = lambda asked: None) -> pd.DataFrame:
    """The verdicts on the statements of `name` in a world of `values`, save where `change` says another."""
    return judged(
        name, World(lambda asked: changed if (changed := change(asked)) is not None else values(asked))
    )
