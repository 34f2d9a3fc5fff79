"""What an expression or a check sees: one work's rows, and the evidence of one scale."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from leakbench.errors import UserError
from leakbench.papers.printed import Row
from leakbench.papers.work import Work
from leakbench.scorecard import quantity
from leakbench.scorecard.evidence import DEFAULTS, Published
from leakbench.scorecard.evidence import Evidence as Scale
from leakbench.scorecard.expression import TOLERANT, Evaluation, parse
from leakbench.scorecard.quantity import Measured, NotMeasured, as_measured, exactly

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (
        quantity.mean, quantity.least, quantity.greatest, quantity.greatest_at, quantity.share_above,
        quantity.count_above, quantity.rank_correlation, quantity.within,
    )},
    "abs": lambda q: quantity.magnitude(as_measured(q)),
    "over": lambda a, b: quantity.ratio(as_measured(a), as_measured(b)),
}  # fmt: skip
OWN = {"at", "own", "row", "measured", "printed", "fact", TOLERANT}


@dataclass
class Evidence:
    """The evidence of one scale as one statement reads it.

    scale: the tables and facts. work: the paper. of: gives the measured value of another id of any paper.
    prints: id -> printed row. condition: what at() reads when nothing else is said. row: the printed row, for
    row(). stand_ins: data sets that may stand in for others.
    """

    scale: Scale
    work: Work
    of: Callable[[str], Measured | str]
    prints: Mapping[str, Row]
    where: str
    condition: Mapping[str, Any] = field(default_factory=dict)
    row: Row | None = None
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def at(self, **where: Any) -> Measured:
        """Return our mean in the one row that the statement's shared columns and `where` name."""
        asked = {**self.condition, **where}
        for key in ("experiment", "metric"):
            if not isinstance(asked.get(key), str):
                raise UserError(f"{self.where}: {key}: is missing (give it in `read` or in at())")
        experiment, metric = asked.pop("experiment"), asked.pop("metric")
        asked, note = self._standing_in(experiment, metric, {k: v for k, v in asked.items() if v is not None})
        paper = self.work.paper
        found = self.scale.read(
            experiment, metric, Published(paper.lengths, paper.rounds, paper.unstated), **asked
        )
        return replace(found, notes=(*found.notes, note)) if note else found

    def _standing_in(self, experiment: str, metric: str, where: dict[str, Any]) -> tuple[dict[str, Any], str]:
        own = str(where.get("dataset", ""))
        other = self.stand_ins.get(own)
        if other is None or experiment not in self.scale.lines:
            return where, ""
        lines = self.scale.lines[experiment]
        kind = {"metric": metric} | {key: where[key] for key in DEFAULTS if key in where}
        if len(lines.select({**kind, "dataset": own})) or not len(lines.select({**kind, "dataset": other})):
            return where, ""
        return {**where, "dataset": other}, f"{other} stands in for {own}"

    def rows(self, experiment: str, **where: Any) -> pd.DataFrame:
        """Return the rows of our table that a condition names (defaults as in at())."""
        lines = self.scale.table(experiment)
        return lines.frame.iloc[lines.select(where)]

    def fact(self, path: str) -> Any:
        """Return a fact by its path (see papers/README.md). Raises NotMeasured where it is not known."""
        return self.scale.fact(path)

    def exhibit(self, experiment: str) -> Any:
        """Return the tensors and facts of an experiment's exhibit."""
        return self.scale.exhibit(experiment)

    def why(self, experiment: str, /, **where: Any) -> str:
        """Return why cells of a condition are absent; empty where nothing is known."""
        return self.scale.why(experiment, where)

    def measured(self, key: str) -> Measured:
        """Return the measured value of another row or claim. Raises NotMeasured where it has none."""
        found = self.of(key)
        if isinstance(found, str):
            raise NotMeasured(f"{key} is measured as a text")
        return found

    def printed(self, key: str) -> Measured:
        """Return a printed number with what its rounding leaves open."""
        if key not in self.prints:
            raise UserError(f"{self.where}: printed: no row {key!r} (mend the id)")
        number = self.prints[key].number
        if math.isnan(number.value):
            raise NotMeasured(f"{key} prints no number")
        half = number.rounding
        return Measured(number.value, number.value - half, number.value + half)

    def _row(self, **words: Any) -> Measured:
        assert self.row is not None
        wanted = {**self.row.words, **{key: str(word) for key, word in words.items()}}
        found = [r.id for r in self.work.tables[self.row.table] if r.words == wanted and not r.spread]
        if len(found) != 1:
            raise UserError(f"{self.where}: row({words}) names {len(found)} printed rows (name more words)")
        return self.measured(found[0])

    def _number(self, path: str) -> Measured:
        value = self.fact(path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UserError(f"{self.where}: fact {path} is {value!r} and no number (read it by `fact:`)")
        return exactly(value)

    def evaluate(self, text: str, let: Mapping[str, Any]) -> Any:
        """Return the value of an expression with the names of `let`. Raises UserError naming file and key."""
        tree = parse(text, self.where, {*FUNCTIONS, *OWN}, set(let))
        functions = FUNCTIONS | {
            "at": self.at, "own": self.at, "row": self._row, "measured": self.measured,
            "printed": self.printed, "fact": self._number,
        }  # fmt: skip
        try:
            return Evaluation(functions, let).value(tree)
        except (NotMeasured, UserError):
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError) as problem:
            raise UserError(
                f"{self.where}: {type(problem).__name__}: {problem} (mend the expression)"
            ) from problem

    def quantity(self, value: Any) -> Measured:
        """Return what an expression or a check gave as a quantity. Raises UserError where it is none."""
        try:
            return as_measured(value)
        except TypeError as problem:
            raise UserError(f"{self.where}: {problem} (give a number)") from problem

    def holds(self, text: str, let: Mapping[str, Any]) -> str:
        """Return "" where a guard `expression relation number : reason` holds, else reason and value."""
        condition, _, reason = text.partition(" : ")
        for sign in (">=", "<=", ">", "<"):
            left, found, right = condition.partition(sign)
            if found:
                break
        else:
            raise UserError(
                f"{self.where}: needs: {text!r} compares nothing (write `expression >= number : reason`)"
            )
        value = self.quantity(self.evaluate(left, let)).value
        try:
            bound = float(right)
        except ValueError:
            raise UserError(f"{self.where}: needs: {right.strip()!r} is no number (mend the guard)") from None
        fine = {">=": value >= bound, "<=": value <= bound, ">": value > bound, "<": value < bound}[sign]
        return "" if fine else f"{reason.strip() or condition.strip()} (measured {value:.4g})"
