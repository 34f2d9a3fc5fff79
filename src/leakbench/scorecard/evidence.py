"""What the findings of a paper may look at: result tables by experiment, and facts about what was built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from leakbench.errors import UserError
from leakbench.scorecard import measure
from leakbench.scorecard.measure import Measured, NotMeasured
from leakbench.scorecard.verdict import Finding

Absent = Mapping[str, Mapping[str, str]]
# Columns whose values stand in the stem of a cell or study.
PLACE = ("dataset", "victim", "federation", "training", "defence", "attack")


@dataclass(frozen=True)
class Evidence:
    """Tables by experiment name, facts by key, and why cells are absent: experiment → stem (as a table's exhibit names
    its absent cells) → reason.

    `recorded`: experiment → rows of earlier runs at other scales.
    """

    tables: Mapping[str, pd.DataFrame]
    facts: Mapping[str, Any]
    absent: Absent = field(default_factory=dict)
    recorded: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def earlier(self, experiment: str, **where: object) -> str:
        """What longer runs found in one condition, in words; empty where nothing is recorded of it."""
        if experiment not in self.recorded:
            return ""
        words = []
        for scale, rows in self.recorded[experiment].groupby("scale"):
            rows = rows.drop(columns=["scale", "device"])
            try:
                found = measure.pick(rows, f"recorded {experiment}", **where)
                steps = measure.select(rows, f"recorded {experiment}", **where)["iterations"].min()
            except NotMeasured:
                continue
            words.append(
                f"recorded at scale {scale}, after {steps:,.0f} iterations: {found.value:.4g} "
                f"({found.low:.4g} to {found.high:.4g}, n = {found.n})"
            )
        return "; ".join(words)

    def table(self, experiment: str) -> pd.DataFrame:
        """The table of an experiment; NotMeasured with the known reason when there is none."""
        if experiment not in self.tables:
            raise NotMeasured(self.why(experiment) or f"no results of experiment {experiment}")
        return self.tables[experiment]

    def pick(self, experiment: str, **where: object) -> Measured:
        """`measure.pick` on an experiment's table."""
        try:
            return measure.pick(self.table(experiment), f"table {experiment}", **where)
        except NotMeasured as missing:
            others = self.why(experiment) if experiment in self.tables else ""
            raise NotMeasured(
                self.why(experiment, **where) or (f"{missing} ({others})" if others else str(missing))
            ) from None

    def why(self, experiment: str, **where: object) -> str:
        """The reasons why cells of a condition are absent, of every cell without `where`; empty where none is known.

        `tested`, a data set, is what stands behind a stem and " on ".
        """
        names = {str(where[key]) for key in PLACE if where.get(key)}
        tested = str(where.get("tested", ""))
        told = []
        for stem, reason in self.absent.get(experiment, {}).items():
            study, _, on = stem.partition(" on ")
            if not where or (names <= set(study.split("/")) and on in ("", tested)):
                told.append(reason)
        return "; ".join(dict.fromkeys(told))

    def values(self, experiment: str, column: str, **where: object) -> list[Any]:
        """The sorted distinct values of a column among the selected rows of an experiment's table."""
        rows = measure.select(self.table(experiment), f"table {experiment}", **where)
        return sorted(rows[column].dropna().unique().tolist())

    def fact(self, *keys: str) -> Any:
        """A fact by its path of keys; NotMeasured when nobody handed it in."""
        value: Any = self.facts
        for depth, key in enumerate(keys, 1):
            if not isinstance(value, Mapping):
                raise UserError(f"facts: {'.'.join(keys[: depth - 1])}: is {value!r} (expected a mapping)")
            if key not in value or value[key] is None:
                raise NotMeasured(f"fact {'.'.join(keys[:depth])} is not known")
            value = value[key]
        return value


def collect(builds: Mapping[str, Callable[[Evidence], Finding]], evidence: Evidence) -> dict[str, Finding]:
    """The finding of every id, also of those that could not be measured (they say why)."""
    found: dict[str, Finding] = {}
    for key, build in builds.items():
        try:
            found[key] = build(evidence)
        except NotMeasured as missing:
            found[key] = Finding(None, absent=str(missing))
    return found
