"""The scorecard: every printed number and claim beside the longest evidence there is, with a verdict."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from leakbench.base.core_time import in_words
from leakbench.base.errors import UserError
from leakbench.metrics import METRICS
from leakbench.papers import join
from leakbench.papers.entries import Judged, entries
from leakbench.papers.printed import Columns, as_text
from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.evidence import PLACE, ScaleEvidence
from leakbench.papers.scorecard.quantity import LeftOut, Measured, NotMeasured, deviation, scaled
from leakbench.papers.verdicts.sample import EXACT, Ordering, Sample, Statement
from leakbench.papers.verdicts.tolerances import possible, tolerance_of
from leakbench.papers.verdicts.verdict import Verdict, decide, decide_outcome, decide_text
from leakbench.papers.work import Work

COLUMNS = [
    "id", "source", "work", "item", "class", "condition", "metric", "convention", "published", "measured",
    "ci_low", "ci_high", "n", "networks", "verdict", "kind", "reason", "scale",
    "device", "commit", "here", "here_n", "agrees", "seeds", "headline", "examined",
]  # fmt: skip
# An update is recognised where its mean SSIM and its share of identified images reach these.
RECOGNISABLE, IDENTIFIED = 0.5, 0.5


@dataclass(frozen=True)
class Success:
    """Whether an attack succeeds."""

    ssim: Measured
    identified: Measured
    # Whether each update is recognised; one value, for the mean, where trials are not kept.
    recognised: Sequence[bool]

    @property
    def leaves(self) -> frozenset[Any]:
        return self.ssim.leaves

    def __str__(self) -> str:
        return "success" if _recognised(self.ssim.value, self.identified.value) else "failure"


@dataclass(frozen=True)
class ScaleResult:
    """The result of one scale for a statement."""

    scale: ScaleEvidence
    value: Measured | Success | str | None  # the quantity, outcome or text, None where nothing was measured
    verdict: Verdict
    left_out: bool = False  # whether nothing was measured for a reason that the run or the record states


def to_csv(card: pd.DataFrame) -> str:
    """Return a scorecard as CSV text, with six significant digits of each number."""
    measured = card["measured"].map(lambda value: f"{value:.6g}" if isinstance(value, float) else value)
    return str(card.assign(measured=measured).to_csv(index=False, float_format="%.6g"))


@dataclass
class Card:
    """Judges every statement of the works on the evidence of several scales."""

    works: Sequence[Work]
    scales: Sequence[ScaleEvidence]  # the evidence of each scale, the longest first
    # What the run itself measured. Where it is none of `scales`, it decides nothing and is only shown.
    run: ScaleEvidence
    # Experiment -> stem of a cell -> core-seconds at the published size.
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # data set -> why it is absent

    def __post_init__(self) -> None:
        self._entries = {entry.id: entry for work in self.works for entry in entries(work)}
        self._prints = {key: entry.row for key, entry in self._entries.items() if entry.row}
        self._known: dict[tuple[str, int], Measured | Success | str | NotMeasured] = {}
        self._open: dict[tuple[str, int], None] = {}

    def frame(self, about: str = "") -> pd.DataFrame:
        """Return one row for every printed number and claim, with the columns COLUMNS, works in order."""
        asked = [entry for entry in self._entries.values() if not about or entry.reads(about)]
        frame = pd.DataFrame(map(self._line, asked), columns=COLUMNS)
        numbers = dict.fromkeys(("ci_low", "ci_high", "here"), "float64")
        return frame.astype(numbers | dict.fromkeys(("n", "networks", "here_n"), "Int64"))

    def value(self, key: str, scale: ScaleEvidence) -> Measured | Success | str:
        place = (key, id(scale))
        if place not in self._known:
            if place in self._open:
                chain = " → ".join([each for each, of in self._open if of == id(scale)] + [key])
                raise UserError(f"{key}: depends on itself through {chain} (mend the expressions)")
            self._open[place] = None
            try:
                self._known[place] = self._measure(self._entries[key], scale)
            except NotMeasured as missing:
                self._known[place] = missing
            finally:
                del self._open[place]
        found = self._known[place]
        if isinstance(found, NotMeasured):
            raise found
        return found

    def _view(self, entry: Judged, scale: ScaleEvidence) -> Evidence:
        def named(key: str) -> Measured:
            if key not in self._entries:
                raise UserError(f"{entry.where}: measured: no row or claim {key!r} (mend the id)")
            found = self.value(key, scale)
            if not isinstance(found, Measured):
                raise NotMeasured(f"{key} is measured as a text")
            return found

        # A number is never judged on a stand-in.
        stand_ins = {} if entry.row else entry.work.paper.stand_ins
        return Evidence(
            scale, entry.work, named, self._prints, entry.where, entry.reading.where, entry.row, stand_ins,
            entry.let,
        )  # fmt: skip

    def _measure(self, entry: Judged, scale: ScaleEvidence) -> Measured | Success | str:
        view, reading, unit = self._view(entry, scale), entry.reading, 1.0
        match reading.way:
            case "absent":
                raise NotMeasured(reading.text)
            case "fact":
                value = view.fact(reading.text)
                return "/".join(map(as_text, value)) if isinstance(value, list) else as_text(value)
            case "outcome":
                return _outcome(view)
            case "check":
                words = join.words_of(entry.row) if entry.row else {}
                found = _checked(entry, view, words)
            case "quantity":
                found, unit = view.evaluate(reading.text), reading.unit
            case "deviation":
                found = deviation(_mean(view, reading), reading.unit)
            case _:
                found = _mean(view, reading)
        if entry.row and isinstance(found, str):
            return found
        return scaled(view.quantity(found), unit)

    def _line(self, entry: Judged) -> Columns:
        alone = entry.reading.label in ("setting", "arithmetic")
        tried = [self._judge(entry, scale) for scale in ([self.run] if alone else self.scales)]
        own = next((found for found in tried if found.scale is self.run), None)
        own = own or self._judge(entry, self.run)
        # A shorter run does not decide what a longer run left open.
        found = next((f for f in tried if f.verdict.weighed), None)
        found = found or next((f for f in tried if f.value is not None), None)
        # The reason of the longest run says more than that a shorter run is short.
        found = found or next((f for f in tried if f.left_out), own)
        if isinstance(found.value, Measured) and not found.value.leaves:
            found = own if own.value is not None else found
        value, reason = found.value, found.verdict.reason
        line: Columns = {"id": entry.id, "source": entry.work.paper.source, "work": entry.work.name}
        line |= {**entry.words, "verdict": found.verdict.word, "headline": "", "examined": ""}
        line["kind"] = found.verdict.kind if line["class"] == "result" else ""
        if found.verdict.word == "differs":
            line["examined"] = str(entry.work.differs.get(entry.id, "Not examined yet."))
        if value is None:
            return line | {"reason": self._absence(entry, reason)}
        leaves = frozenset() if isinstance(value, str) else value.leaves
        scale, device, commit = found.scale.origin(leaves)
        line |= {"scale": scale, "device": device, "commit": commit, "reason": reason}
        seeds = {int(seed) for text in found.scale.column("seeds", leaves) for seed in text.split()}
        line["seeds"] = " ".join(map(str, sorted(seeds)))
        if isinstance(value, Success):
            counted = {"n": len(value.recognised), "networks": value.ssim.networks or pd.NA}
            return line | {"measured": str(value)} | counted
        if isinstance(value, str):
            return line | {"measured": value}
        line |= {"measured": value.value, "n": value.n, "networks": value.networks or pd.NA}
        metric, unit = value.metric if value.raw else "", entry.reading.unit
        line["ci_low"], line["ci_high"] = possible(metric, value.low, value.high, unit)
        if not math.isnan(value.low):
            line["headline"] = entry.words.get("headline", "").format(value=value.value)
        if isinstance(own.value, Measured):
            line |= {"here": own.value.value, "here_n": own.value.n}
            line["agrees"] = "" if found.scale is self.run else _agree(own.value, value)
        return line

    def _judge(self, entry: Judged, scale: ScaleEvidence) -> ScaleResult:
        try:
            value = self.value(entry.id, scale)
        except NotMeasured as missing:
            verdict = Verdict("not-run", str(missing) or "nothing measures it", weighed=False)
            return ScaleResult(scale, None, verdict, isinstance(missing, LeftOut))
        notes, verdict = [entry.reading.note, entry.reading.trivial], self._decide(entry, value, scale)
        if entry.reading.needs:
            try:
                lacking, known = self._view(entry, scale).holds(entry.reading.needs), True
            except NotMeasured as missing:
                lacking, known = str(missing), False
            if lacking:
                verdict = Verdict("inconclusive", lacking, weighed=verdict.weighed and known)
        if isinstance(value, Success):
            notes.append(
                f"SSIM {value.ssim.value:.2f}, {value.identified.value:.0%} identified "
                f"(success from {RECOGNISABLE:g} and {IDENTIFIED:.0%})"
            )
        measured = value.ssim if isinstance(value, Success) else value
        if isinstance(measured, Measured):
            notes += measured.notes
            notes += entry.work.paper.parts(scale.column("dataset", measured.leaves))
        words = "; ".join(dict.fromkeys(filter(None, notes)))
        return ScaleResult(scale, value, replace(verdict, reason=verdict.reason + (words and f" ({words})")))

    def _decide(self, entry: Judged, value: Measured | Success | str, scale: ScaleEvidence) -> Verdict:
        row, reading, number = entry.row, entry.reading, entry.against
        if isinstance(value, Success):
            of, printed = value.ssim, entry.words["published"]
            return decide_outcome(value.recognised, printed, of.length, of.schedule, of.open_end, of.networks)
        if isinstance(value, str):
            return decide_text(value, entry.words["published"])
        if row is None and value.unequal:
            reason = "the two sides ran for different shares of their published length"
            return Verdict("inconclusive", reason, weighed=False)
        if math.isnan(number.value):
            raise UserError(
                f"{entry.where}: prints {entry.words['published']!r}, with which no number can be compared "
                "(say with `tells`, `fact` or `absent` how it is measured)"
            )
        tolerance, bounds, monotone = tolerance_of(value.metric or "other", number.value, reading.unit)
        # A combination of rows has no bounds.
        bounds = bounds if value.raw else (-math.inf, math.inf)
        sign, ordering = self._ordering(entry, value, scale)
        std = None if row is None or math.isnan(row.std) else row.std * reading.spread
        asked = Statement(
            entry.relation, number.value, 0.0 if number.bound else number.rounding, std, reading.repeats,
            tolerance if reading.tolerance is None else reading.tolerance, bounds, monotone, reading.success,
            reading.hidden, *_side(value, reading), sign, self._rivals(entry), bool(reading.trivial),
        )  # fmt: skip
        sample = Sample(
            value.value, value.low, value.high, _count(value), value.length, value.beats_null, ordering,
            value.schedule, value.open_end, value.nulls,
            value.trials.means() if value.raw and value.trials else (), value.networks,
        )  # fmt: skip
        return decide(asked, sample)

    def _rivals(self, entry: Judged) -> tuple[float, ...]:
        found = (self._prints[key].number.value for key in entry.reading.rivals)
        return tuple(number for number in found if not math.isnan(number))

    def _ordering(
        self, entry: Judged, value: Measured, scale: ScaleEvidence
    ) -> tuple[Literal[-1, 0, 1], Ordering | None]:
        """Return the printed sign of a row minus the row it is ordered against, and our difference."""
        if not entry.reading.against:
            return 0, None
        number, other = entry.against.value, self._prints[entry.reading.against].number.value
        sign: Literal[-1, 0, 1] = 1 if number > other else -1 if number < other else 0
        with contextlib.suppress(NotMeasured):
            beside = self.value(entry.reading.against, scale) if sign else None
            if isinstance(beside, Measured):
                apart = value - beside
                return sign, Ordering(
                    apart.value, apart.low, apart.high, _count(apart), not apart.unequal, apart.length,
                    apart.schedule,
                )  # fmt: skip
        return sign, None

    def _absence(self, entry: Judged, reason: str) -> str:
        """Return why nothing was measured: the reason, data that is absent too, and what a run would cost."""
        read = entry.row is None or entry.reading.way in ("mean", "deviation", "outcome")
        where, words = entry.reading.where if read else {}, [reason]
        for name in (where.get("dataset"), where.get("tested")):
            why = self.missing.get(str(name)) or self.missing.get(str(name).rpartition("-")[0])
            if why and why not in reason:
                words.append(f"{name} is absent too: {why}")
        names = {str(where[key]) for key in PLACE if where.get(key)}
        cells = self.costs.get(str(where.get("experiment")), {})
        # A statement on many cells needs only some of its experiment, whose cost as a whole would mislead.
        seconds = sum(cost for stem, cost in cells.items() if names and names <= set(stem.split("/")))
        if seconds:
            words.append(f"by the cost model at most {in_words(seconds)} at the published size")
        return "; ".join(words)


def _checked(entry: Judged, view: Evidence, words: Mapping[str, str]) -> Any:
    """Return the result of a function of a work's checks.py."""
    name = entry.reading.text
    check = entry.work.check(name, entry.where)
    try:
        return check(view, words)
    except (UserError, NotMeasured):
        raise
    except (Exception, SystemExit) as problem:
        told = f"{name}: {type(problem).__name__}: {problem}"
        raise UserError(f"{entry.where}: check: {told} (mend {entry.work.folder / 'checks.py'})") from problem


def _side(value: Measured, reading: join.RowReading) -> tuple[Literal[-1, 0, 1], float | None]:
    """Return on which side a number says that more was read, and its stated threshold of success."""
    if reading.way in ("quantity", "check"):
        # A quantity of a row that is a success says how far the success reaches.
        return 1 if reading.success else 0, None
    if not value.raw or value.metric not in METRICS:
        return 0, None
    threshold = {"ssim": RECOGNISABLE, "identified": IDENTIFIED}.get(value.metric)
    side: Literal[-1, 1] = 1 if METRICS[value.metric].higher_is_better else -1
    return side, None if threshold is None else threshold * reading.unit


def _count(value: Measured) -> int:
    return EXACT if math.isinf(value.independent) else int(value.independent)


def _mean(view: Evidence, reading: join.RowReading) -> Measured:
    """Return our mean of a printed row in the printed unit, or what may stand for it, with notes."""
    try:
        found = view.at()
    except NotMeasured:
        if not reading.otherwise:
            raise
        found = view.at(**reading.otherwise)
        others = [f"{each} in place of {reading.where.get(key)}" for key, each in reading.otherwise.items()]
        found = replace(found, notes=(*found.notes, "; ".join(others)))
    if reading.beside:
        words = ", ".join(map(str, reading.beside.values()))
        with contextlib.suppress(NotMeasured):
            second = scaled(view.at(**reading.beside), reading.unit)
            found = replace(found, notes=(*found.notes, f"by {words} {second.value:.4g}, n = {second.n}"))
    return scaled(found, reading.unit)


def _recognised(ssim: Any, identified: Any) -> Any:
    return (ssim >= RECOGNISABLE) & (identified >= IDENTIFIED)


def _outcome(view: Evidence) -> Success:
    ssim, identified = (view.at(metric=metric, convention="standard") for metric in ("ssim", "identified"))
    if not (ssim.trials and identified.trials):
        return Success(ssim, identified, [_recognised(ssim.value, identified.value)])
    means = (
        pd.Series(trials.values).groupby(pd.Series(trials.clusters)).mean()
        for trials in (ssim.trials, identified.trials)
    )
    return Success(ssim, identified, _recognised(*means).tolist())


def _agree(own: Measured, other: Measured) -> str:
    """Return "yes" or "no", whether two intervals overlap; empty where one has none."""
    if math.isnan(own.low) or math.isnan(other.low):
        return ""
    return "yes" if own.low <= other.high and other.low <= own.high else "no"
