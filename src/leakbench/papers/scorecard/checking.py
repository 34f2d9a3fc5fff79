"""What an expression or a check can read: one work's rows, and the evidence of one scale."""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from leakbench.base.errors import UserError
from leakbench.base.expression import TOLERANT, evaluated, parse
from leakbench.papers.join import words_of
from leakbench.papers.printed import Row, as_text, parse_printed
from leakbench.papers.scorecard import quantity
from leakbench.papers.scorecard.evidence import DEFAULTS, ScaleEvidence
from leakbench.papers.scorecard.quantity import Measured, NotMeasured, as_measured, exactly
from leakbench.papers.work import Work

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (
        quantity.mean, quantity.least, quantity.greatest, quantity.greatest_at, quantity.share_above,
        quantity.count_above, quantity.rank_correlation, quantity.within, quantity.won,
        quantity.deviation, quantity.median, quantity.first_near_end, len,
    )},
    "abs": lambda q: quantity.magnitude(as_measured(q)),
    "over": lambda a, b: quantity.ratio(as_measured(a), as_measured(b)),
    "round": lambda q: exactly(round(as_measured(q).value)),
}  # fmt: skip
# The errors that a mistake in an expression raises.
WRONG = (ArithmeticError, AttributeError, LookupError, MemoryError, NameError, RuntimeError, SyntaxError,
         TypeError, ValueError)  # fmt: skip
COMPARED = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
OWN = {"at", "own", "only", "row", "values", "word", "measured", "printed", "fact", TOLERANT}


class Values(list[Any]):
    """The values of a column; as a text they are joined by commas."""

    def __format__(self, spec: str) -> str:
        return ",".join(map(as_text, self))


@dataclass
class Evidence:
    """The evidence of one scale as one statement reads it."""

    scale: ScaleEvidence
    work: Work
    measured: Callable[[str], Measured]  # gives the measured value of another id of any paper
    prints: Mapping[str, Row]  # id -> printed row
    where: str  # file and key, for messages
    condition: Mapping[str, Any] = field(default_factory=dict)  # what at() reads when nothing else is said
    row: Row | None = None
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # data set -> the one that may stand in for it
    let: Mapping[str, Any] = field(default_factory=dict)  # the names that expressions may use

    def at(self, **where: Any) -> Measured:
        """Return our mean in one row of a table.

        where: columns that name the row, together with the statement's shared columns, which they override.
        """
        return self._read(self.stand_ins, where)

    def only(self, **where: Any) -> Measured:
        """Return what at() does, without a stand-in for the data set."""
        return self._read({}, where)

    def _read(self, stand_ins: Mapping[str, str], where: Mapping[str, Any]) -> Measured:
        asked = {**self.condition, **where}
        for key in ("experiment", "metric"):
            if not isinstance(asked.get(key), str):
                raise UserError(f"{self.where}: {key}: is missing (give it in `read` or in at())")
        experiment, metric = asked.pop("experiment"), asked.pop("metric")
        asked = {key: value for key, value in asked.items() if value is not None}
        note, own = "", str(asked.get("dataset", ""))
        if own in stand_ins and self._stands_in(experiment, metric, asked, own, stand_ins[own]):
            asked, note = {**asked, "dataset": stand_ins[own]}, f"{stand_ins[own]} stands in for {own}"
        with self._located():
            found = self.scale.read(experiment, metric, self.work.paper, **asked)
        return replace(found, notes=(*found.notes, note)) if note else found

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Put file and key before the error that columns do not fit our tables."""
        try:
            yield
        except UserError as problem:
            raise UserError(f"{self.where}: {problem}") from None

    def _stands_in(
        self, experiment: str, metric: str, where: Mapping[str, Any], own: str, other: str
    ) -> bool:
        """Return whether another data set has rows of a kind that a statement's own data set lacks."""
        lines = self.scale.lines.get(experiment)
        kind = {"metric": metric} | {key: where[key] for key in DEFAULTS if key in where}
        there = [lines and len(lines.select({**kind, "dataset": name})) for name in (own, other)]
        return not there[0] and bool(there[1])

    def rows(self, **where: Any) -> pd.DataFrame:
        """Return the rows of our table that a condition names, with the defaults of at()."""
        asked = {key: value for key, value in {**self.condition, **where}.items() if value is not None}
        experiment = str(asked.pop("experiment"))
        with self._located():
            lines = self.scale.table(experiment, asked)
            found = lines.frame.iloc[lines.select(asked)]
        if found.empty:
            named = ", ".join(f"{key}={value}" for key, value in asked.items())
            raise self.scale.missing(experiment, f"table {experiment} has no row for {named}", asked)
        return found

    def values(self, *columns: str, **where: Any) -> list[Any]:
        """Return the distinct values of a column of our rows, sorted.

        columns: one column, or several, which give lists of values.
        where: the columns that name the rows, as in `rows`.
        """
        rows = self.rows(**where)
        for name in columns:
            if name not in rows:
                raise UserError(f"{self.where}: values: no column {name!r} (mend its name)")
        found = rows[[*columns]].drop_duplicates().sort_values([*columns]).to_numpy().tolist()
        return Values(each[0] for each in found) if len(columns) == 1 else found

    def word(self, column: str) -> str:
        """Return the word that the row prints in a column."""
        words = words_of(self.row) if self.row else {}
        if column not in words:
            raise UserError(f"{self.where}: word: no printed column {column!r} (mend its name)")
        return words[column]

    def fact(self, path: str) -> Any:
        """Return a fact by its path (see papers/README.md). Raises NotMeasured where it is not known."""
        return self.scale.fact(path)

    def exhibit(self, experiment: str) -> Any:
        return self.scale.exhibit(experiment)

    def why(self, experiment: str, /, **where: Any) -> str:
        """Return why cells of a condition are absent; empty where nothing is known."""
        return self.scale.why(experiment, where)

    def printed(self, key: str, place: int | None = None) -> Measured:
        """Return a printed number with the interval that its rounding allows.

        key: the id of the printed row.
        place: of a printed list, `10/20`, the number at this place, from 0.

        Raises NotMeasured where the row prints no number.
        """
        if key not in self.prints:
            raise UserError(f"{self.where}: printed: no row {key!r} (mend the id)")
        number = self.prints[key].number
        if place is not None:
            number = parse_printed(self.prints[key].published.split("/")[place])
        if math.isnan(number.value):
            raise NotMeasured(f"{key} prints no number")
        half = number.rounding
        return Measured(number.value, number.value - half, number.value + half)

    def _row(self, **words: Any) -> Measured:
        if self.row is None:
            raise UserError(f"{self.where}: row(): a claim is no printed row (name one by measured('id'))")
        wanted = {**self.row.words, **{key: str(word) for key, word in words.items()}}
        found = [r.id for r in self.work.tables[self.row.table] if r.words == wanted and not r.spread]
        if len(found) != 1:
            raise UserError(f"{self.where}: row({words}) names {len(found)} printed rows (name more words)")
        return self.measured(found[0])

    def _fact(self, path: str) -> Any:
        value = self.fact(path)
        return exactly(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    def evaluate(self, text: str) -> Any:
        """Return the value of an expression. Raises UserError naming file and key."""
        functions = FUNCTIONS | {
            "at": self.at, "own": self.at, "only": self.only, "row": self._row, "values": self.values,
            "word": self.word, "measured": self.measured, "printed": self.printed, "fact": self._fact,
        }  # fmt: skip
        try:
            code = parse(text, self.where, frozenset({*FUNCTIONS, *OWN}), frozenset(self.let))
            return evaluated(code, functions, self.let)
        except WRONG as problem:
            raise UserError(f"{self.where}: {type(problem).__name__}: {problem} (mend it)") from problem

    def quantity(self, value: Any) -> Measured:
        """Return the result of an expression or a check as a quantity."""
        try:
            return as_measured(value)
        except TypeError as problem:
            raise UserError(f"{self.where}: {problem} (give a number)") from problem

    def holds(self, text: str) -> str:
        """Return "" where a guard holds, else its reason and the measured value."""
        condition, _, reason = text.partition(" : ")
        sign = next((each for each in COMPARED if each in condition), "")
        if not sign:
            raise UserError(
                f"{self.where}: needs: {text!r} compares nothing (write `expression >= number : reason`)"
            )
        left, _, right = condition.partition(sign)
        value = self.quantity(self.evaluate(left)).value
        try:
            fine = COMPARED[sign](value, float(right))
        except ValueError:
            raise UserError(f"{self.where}: needs: {right.strip()!r} is no number (mend the guard)") from None
        return "" if fine else f"{reason.strip() or condition.strip()} (measured {value:.4g})"
