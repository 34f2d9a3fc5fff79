"""The scorecard: every printed number and claim beside the longest evidence there is, with a verdict."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from leakbench.errors import UserError
from leakbench.papers import join
from leakbench.papers.printed import Row
from leakbench.papers.work import Claim, Work
from leakbench.scorecard.checking import Evidence
from leakbench.scorecard.evidence import PLACE, as_text
from leakbench.scorecard.evidence import Evidence as Scale
from leakbench.scorecard.quantity import Measured, NotMeasured, deviation, scaled
from leakbench.verdicts.tolerances import tolerance_of
from leakbench.verdicts.verdict import (
    EXACT,
    Ordering,
    Sample,
    Statement,
    Verdict,
    decide,
    decide_outcome,
    decide_text,
)

COLUMNS = [
    "id", "source", "work", "item", "class", "condition", "metric", "convention", "published", "measured",
    "ci_low", "ci_high", "n", "verdict", "reason", "scale", "device", "commit", "here", "here_n", "agrees",
]  # fmt: skip
RELATIONS: dict[str, Any] = {"": "=", ">": ">", "<": "<="}
# An update is recognised where its mean SSIM and its share of identified images reach these.
RECOGNISABLE, IDENTIFIED = 0.5, 0.5
UNDECIDED = ("inconclusive", "not-run")


@dataclass(frozen=True)
class Found:
    """What one scale says of a statement: the quantity or text, and its verdict."""

    scale: Scale
    value: Measured | str | None
    verdict: Verdict


@dataclass
class Card:
    """Judges every statement of the works on the evidence of several scales.

    scales: the longest first. run: the run's own. missing: data set -> why it is absent.
    costs: experiment -> stem of a cell -> core-seconds at the published size.
    """

    works: Sequence[Work]
    scales: Sequence[Scale]
    run: Scale
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {
            row.id: (work, row) for work in self.works for rows in work.tables.values() for row in rows
        }
        self._claims = {claim.id: (work, claim) for work in self.works for claim in work.claims.claims}
        self._prints = {key: row for key, (_, row) in self._rows.items()}
        self._readings: dict[str, join.Reading] = {}
        self._known: dict[tuple[str, int], Measured | str | NotMeasured] = {}
        self._open: set[tuple[str, int]] = set()

    def frame(self, about: str = "") -> pd.DataFrame:
        """Return one row for every printed number and claim, with the columns COLUMNS, works in order.

        about: an experiment; only what reads it then has a row.
        """
        rows = []
        for work in self.works:
            for printed in (row for rows in work.tables.values() for row in rows):
                if not about or self.reading(printed.id).where.get("experiment") == about:
                    rows.append(self._line(work, printed, self.reading(printed.id).label))
            for claim in work.claims.claims:
                if about and about not in (claim.read.get("experiment"), *str(claim.quantity).split("'")):
                    continue
                doubt = claim.item.startswith(("doubt-", "expectation"))
                rows.append(self._line(work, claim, claim.class_ or ("doubt" if doubt else "result")))
        frame = pd.DataFrame(rows, columns=COLUMNS)
        numbers = dict.fromkeys(("ci_low", "ci_high", "here"), "float64")
        return frame.astype(numbers | dict.fromkeys(("n", "here_n"), "Int64"))

    def reading(self, key: str) -> join.Reading:
        """Return how a printed row is measured."""
        if key not in self._readings:
            self._readings[key] = join.read(*self._rows[key])
        return self._readings[key]

    def value(self, key: str, scale: Scale) -> Measured | str:
        """Return what one scale measured of a statement. Raises NotMeasured where it did not."""
        place = (key, id(scale))
        if place not in self._known:
            if place in self._open:
                raise UserError(f"{key}: is measured by way of itself (mend the expressions)")
            self._open.add(place)
            try:
                self._known[place] = self._measure(key, scale)
            except NotMeasured as missing:
                self._known[place] = missing
            finally:
                self._open.discard(place)
        found = self._known[place]
        if isinstance(found, NotMeasured):
            raise found
        return found

    def _evidence(self, work: Work, scale: Scale, where: str, **more: Any) -> Evidence:
        return Evidence(scale, work, lambda key: self._named(key, scale, where), self._prints, where, **more)

    def _named(self, key: str, scale: Scale, where: str) -> Measured | str:
        if key not in self._rows and key not in self._claims:
            raise UserError(f"{where}: measured: no row or claim {key!r} (mend the id)")
        return self.value(key, scale)

    def _view(self, key: str, scale: Scale) -> tuple[Evidence, Mapping[str, Any]]:
        """Return the evidence as one statement reads it, and the names that its expressions may use."""
        if key in self._claims:
            work, claim = self._claims[key]
            where = f"{work.folder / 'claims.yaml'}: {key}"
            return self._evidence(
                work, scale, where, condition=claim.read, stand_ins=work.paper.stand_ins
            ), work.claims.let
        work, row = self._rows[key]
        where = f"{work.folder / 'measured.yaml'}: {row.table}: {key}"
        return self._evidence(work, scale, where, condition=self.reading(key).where, row=row), work.let

    def _measure(self, key: str, scale: Scale) -> Measured | str:
        view, let = self._view(key, scale)
        if key in self._claims:
            work, claim = self._claims[key]
            if claim.absent:
                raise NotMeasured(claim.absent)
            if claim.check:
                return view.quantity(work.check(claim.check, view.where)(view, {}))
            return view.quantity(view.evaluate(claim.quantity or "", let))
        work, row = self._rows[key]
        reading = self.reading(key)
        match reading.way:
            case "absent":
                raise NotMeasured(reading.text)
            case "fact":
                value = view.fact(reading.text)
                return "/".join(map(as_text, value)) if isinstance(value, list) else as_text(value)
            case "check":
                found = work.check(reading.text, view.where)(view, join.words_of(row))
                return found if isinstance(found, str) else view.quantity(found)
            case "quantity":
                found = view.evaluate(reading.text, let)
                return found if isinstance(found, str) else scaled(view.quantity(found), reading.unit)
            case "outcome":
                ssim, identified = _outcome(view)
                right = ssim.value >= RECOGNISABLE and identified.value >= IDENTIFIED
                return "success" if right else "failure"
        mean = _mean(view, reading)
        if reading.way == "mean":
            return mean
        independent = int(mean.independent)
        return deviation(mean.extra["std"] * reading.unit, independent, mean)

    def _line(self, work: Work, statement: Row | Claim, label: str) -> dict[str, Any]:
        alone = label in ("setting", "arithmetic")
        tried = [self._judge(work, statement, scale) for scale in ([self.run] if alone else self.scales)]
        own = next(found for found in tried if found.scale is self.run)
        found = next((f for f in tried if f.verdict.word not in UNDECIDED), None)
        found = found or next((f for f in tried if f.value is not None), own)
        if isinstance(found.value, Measured) and not found.value.leaves:
            found = own if own.value is not None else found
        value, reason = found.value, found.verdict.reason
        line = self._words(work, statement) | {"class": label, "verdict": found.verdict.word}
        if value is None:
            return line | {"reason": self._absence(work, statement, reason)}
        device, commit, age = found.scale.origin(value.leaves if isinstance(value, Measured) else ())
        line |= {"scale": found.scale.scale, "device": device, "commit": commit}
        line["reason"] = f"{reason} ({age})" if age else reason
        if not isinstance(value, Measured):
            return line | {"measured": value}
        line |= {"measured": value.value, "ci_low": value.low, "ci_high": value.high, "n": value.n}
        if found.scale is not self.run and isinstance(own.value, Measured):
            line |= {"here": own.value.value, "here_n": own.value.n, "agrees": _agree(own.value, value)}
        return line

    def _words(self, work: Work, statement: Row | Claim) -> dict[str, Any]:
        line: dict[str, Any] = dict.fromkeys(COLUMNS)
        line |= {"id": statement.id, "source": work.paper.source, "work": work.name, "item": statement.item}
        if isinstance(statement, Claim):
            decided = statement.quantity or statement.check or "nothing measures it"
            read = ", ".join(f"{key}={as_text(value)}" for key, value in statement.read.items())
            test = f"{decided} {statement.relation} {statement.threshold:g}"
            return line | {
                "condition": test + (f" [{read}]" if read else ""), "metric": "claim", "convention": "",
                "published": statement.claim,
            }  # fmt: skip
        convention = ""
        if self.reading(statement.id).label == "result":
            convention = "published" if join.published_convention(work, statement) else "standard"
        return line | {
            "condition": statement.condition, "metric": statement.metric, "convention": convention,
            "published": statement.published,
        }  # fmt: skip

    def _judge(self, work: Work, statement: Row | Claim, scale: Scale) -> Found:
        try:
            value = self.value(statement.id, scale)
        except NotMeasured as missing:
            return Found(scale, None, Verdict("not-run", str(missing) or "nothing measures it"))
        notes = [statement.note] if isinstance(statement, Claim) else [self.reading(statement.id).note]
        needs = statement.needs if isinstance(statement, Claim) else self.reading(statement.id).needs
        verdict = None
        if needs:
            view, let = self._view(statement.id, scale)
            try:
                lacking = view.holds(needs, let)
            except NotMeasured as missing:
                lacking = str(missing)
            verdict = Verdict("inconclusive", lacking) if lacking else None
        if isinstance(statement, Row) and self.reading(statement.id).way == "outcome":
            view, _ = self._view(statement.id, scale)
            ssim, identified = _outcome(view)
            notes.append(
                f"SSIM {ssim.value:.2f}, {identified.value:.0%} identified "
                f"(success from {RECOGNISABLE:g} and {IDENTIFIED:.0%})"
            )
            notes += ssim.notes
            printed: Any = statement.published
            verdict = verdict or decide_outcome(_recognised(view), printed, ssim.length)
        elif isinstance(value, str):
            assert isinstance(statement, Row)
            verdict = verdict or decide_text(value, statement.published)
        else:
            notes += value.notes
            verdict = verdict or self._decide(work, statement, value, scale)
        words = "; ".join(dict.fromkeys(filter(None, notes)))
        return Found(
            scale, value, Verdict(verdict.word, f"{verdict.reason} ({words})" if words else verdict.reason)
        )

    def _decide(self, work: Work, statement: Row | Claim, value: Measured, scale: Scale) -> Verdict:
        if isinstance(statement, Claim):
            if value.unequal:
                reason = "the two sides ran for different shares of their published length"
                return Verdict("inconclusive", reason)
            _, bounds, monotone = _tolerance(value, statement.threshold, 1.0)
            asked = Statement(
                statement.relation, statement.threshold, 0.0, None, None, statement.tolerance, bounds,
                monotone, statement.success, 0,
            )  # fmt: skip
            return decide(asked, _sample(value, None))
        reading, number = self.reading(statement.id), statement.number
        if math.isnan(number.value):
            raise UserError(
                f"{statement.id}: prints {statement.published!r}, with which no number can be compared"
            )
        tolerance, bounds, monotone = _tolerance(value, number.value, reading.unit)
        sign: Literal[-1, 0, 1] = 0
        ordering = None
        if reading.against:
            other = self._prints[reading.against].number.value
            sign = 1 if number.value > other else -1 if number.value < other else 0
        with contextlib.suppress(NotMeasured):
            beside = self.value(str(reading.against), scale) if sign else None
            if isinstance(beside, Measured):
                apart = value - beside
                ordering = Ordering(
                    apart.value, apart.low, apart.high, _count(apart), not apart.unequal, apart.length
                )
        std = None if math.isnan(statement.std) else statement.std * reading.spread
        asked = Statement(
            RELATIONS[number.bound], number.value, 0.0 if number.bound else number.rounding, std,
            reading.repeats, tolerance if reading.tolerance is None else reading.tolerance, bounds,
            monotone, reading.success, sign,
        )  # fmt: skip
        return decide(asked, _sample(value, ordering))

    def _absence(self, work: Work, statement: Row | Claim, reason: str) -> str:
        """Return why nothing was measured: the reason, data that is absent too, and what it would cost."""
        where: Mapping[str, Any] = {}
        if isinstance(statement, Claim):
            where = statement.read
        elif self.reading(statement.id).way in ("mean", "deviation", "outcome"):
            where = self.reading(statement.id).where
        words = [reason]
        for name in (where.get("dataset"), where.get("tested")):
            why = self.missing.get(str(name)) or self.missing.get(str(name).rpartition("-")[0])
            if why and why not in reason:
                words.append(f"{name} is absent too: {why}")
        names = {str(where[key]) for key in PLACE if where.get(key)}
        cells = self.costs.get(str(where.get("experiment")), {})
        seconds = sum(cost for stem, cost in cells.items() if names <= set(stem.split("/")))
        if seconds:
            words.append(f"about {max(1, round(seconds / 60)):,} core-minutes at the published size")
        return "; ".join(words)


def _tolerance(value: Measured, printed: float, unit: float) -> tuple[float, tuple[float, float], bool]:
    """Return tolerance, bounds and whether the unit is monotone; what combines rows has no bounds."""
    tolerance, bounds, monotone = tolerance_of(value.metric or "other", printed, unit)
    return tolerance, bounds if value.raw else (-math.inf, math.inf), monotone


def _count(value: Measured) -> int:
    return EXACT if math.isinf(value.independent) else int(value.independent)


def _sample(value: Measured, ordering: Ordering | None) -> Sample:
    count, null = _count(value), value.beats_null
    return Sample(value.value, value.low, value.high, count, value.length, null, ordering)


def _mean(view: Evidence, reading: join.Reading) -> Measured:
    """Return our mean of a printed row in the printed unit, or what may stand for it, with notes."""
    try:
        found = view.at()
    except NotMeasured:
        if not reading.otherwise:
            raise
        found = view.at(**reading.otherwise)
        other = "; ".join(
            f"{each} in place of {reading.where.get(key)}" for key, each in reading.otherwise.items()
        )
        found = replace(found, notes=(*found.notes, other))
    if reading.beside:
        words = ", ".join(map(str, reading.beside.values()))
        with contextlib.suppress(NotMeasured):
            told = scaled(view.at(**reading.beside), reading.unit)
            found = replace(found, notes=(*found.notes, f"by {words} {told.value:.4g}, n = {told.n}"))
    return scaled(found, reading.unit)


def _outcome(view: Evidence) -> tuple[Measured, Measured]:
    """Return mean SSIM and the share of identified images in a statement's condition."""
    plain = {"convention": "standard"}
    return view.at(metric="ssim", **plain), view.at(metric="identified", **plain)


def _recognised(view: Evidence) -> list[bool]:
    """Return whether each update is recognised; only whether the mean is where trials are not kept."""
    ssim, identified = _outcome(view)
    if not (ssim.trials and identified.trials):
        return [ssim.value >= RECOGNISABLE and identified.value >= IDENTIFIED]
    means = []
    for measured in (ssim.trials, identified.trials):
        frame = pd.DataFrame({"value": measured.values, "cluster": measured.clusters})
        means.append(frame.groupby("cluster")["value"].mean())
    return ((means[0] >= RECOGNISABLE) & (means[1] >= IDENTIFIED)).tolist()


def _agree(own: Measured, other: Measured) -> str:
    """Return yes or no: whether the two intervals meet; empty where one has none."""
    if math.isnan(own.low) or math.isnan(other.low):
        return ""
    return "yes" if own.low <= other.high and other.low <= own.high else "no"
