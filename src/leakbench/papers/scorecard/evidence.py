"""What one scale measured: result tables, their trials, why cells are absent, and facts about what ran.

A result table is the tidy frame of the `table` verb: one line for each condition and metric, with mean,
interval and n.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.errors import UserError
from leakbench.metrics import METRICS
from leakbench.metrics.baselines import CONSTANTS, NULLS, OTHER_UPDATE, SNAPSHOT
from leakbench.metrics.interval import FEWEST, LEVEL, of_networks, paired
from leakbench.papers.printed import as_text
from leakbench.papers.scorecard.quantity import (
    NAN,
    LeftOut,
    Measured,
    NotMeasured,
    Trials,
    exactly,
    from_trials,
)  # fmt: skip
from leakbench.papers.verdicts.schedule import PartialRun, schedule_of, settled
from leakbench.papers.verdicts.tolerances import tolerance_of
from leakbench.papers.verdicts.verdict import FEWEST as DECIDING
from leakbench.papers.verdicts.verdict import SHORTEST
from leakbench.papers.work import Paper, published_for

# Rows of null baselines, and rows in a published convention, are only read where they are asked for by name.
DEFAULTS = {"baseline": "", "convention": "standard"}
# Columns whose values are parts of the stem of a cell or study.
PLACE = ("dataset", "victim", "federation", "training", "defence", "attack")
# The columns that name a cell: rows with these and a metric are the same trials in every table.
CELL = {"dataset", "victim", "federation", "attack"}
# The columns that name a condition of a training study, in the same way.
STUDY = {"dataset", "victim", "training", "defence", "key", "client"}
STATISTICS = {
    "mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate", "seeds", "scale",
    "unit", "rounds", "images",
}  # fmt: skip
# A statement on many cells names this many of the reasons for which they are absent, and counts the others.
REASONS = 2
# The same few texts are asked for a million times.
_text = lru_cache(10_000)(as_text)


class Table:
    """A result table whose lines are found by the values of columns, and the single trials behind them."""

    def __init__(self, name: str, frame: pd.DataFrame, trials: pd.DataFrame | None = None) -> None:
        self.name, self.frame = name, frame
        self._trials = trials if trials is not None and len(trials) else None
        self._columns: dict[str, tuple[np.ndarray, dict[str, int]]] = {}
        # A statement is judged by every scale, so that lines are read many times.
        self.columns = frozenset(map(str, frame.columns))
        self.row: Callable[[int], Any] = cache(lambda line: frame.iloc[line])
        self.values: Callable[[str], np.ndarray] = cache(lambda column: frame[column].to_numpy())
        self.trials = cache(self._trials_of)
        self.having, self.pooled = cache(self._lines_with), cache(self._pooled)

    def _lines_with(self, name: str, wanted: str) -> np.ndarray | None:
        """Return for each line whether its value in a column reads as `wanted`, or None where none does."""
        if name not in self._columns:
            codes, values = pd.factorize(self.frame[name], use_na_sentinel=False)
            texts: dict[str, int] = {}
            of_values = [texts.setdefault(as_text(value), len(texts)) for value in values.tolist()]
            self._columns[name] = np.array(of_values, int)[codes], texts
        codes, numbers = self._columns[name]
        return codes == numbers[wanted] if wanted in numbers else None

    def select(self, where: Mapping[str, object]) -> np.ndarray:
        """Return the places of the lines whose columns equal the wanted values, defaults included."""
        given = {**DEFAULTS, **where}.items()
        asked = {key: (_text if type(x) is str else as_text)(x) for key, x in given if x is not None}
        if beyond := next((key for key in where if asked.get(key) and key not in self.columns), ""):
            known = ", ".join(map(str, self.frame.columns))
            raise UserError(f"table {self.name}: no column {beyond!r} (columns: {known})")
        found = np.ones(len(self.frame), bool)
        for key, text in asked.items():
            if key in self.columns:
                if (these := self.having(key, text)) is None:
                    return np.array([], int)
                found &= these
        return np.flatnonzero(found)

    def one(self, where: Mapping[str, object]) -> int:
        """Return the place of the one line that a condition names."""
        rows = self.select(where)
        asked = ", ".join(f"{key}={as_text(value)}" for key, value in where.items())
        if not len(rows):
            raise NotMeasured(f"table {self.name} has no row for {asked}")
        if len(rows) > 1:
            some = self.frame.iloc[rows]
            columns = [str(name) for name in some if name not in STATISTICS]
            differ = ", ".join(name for name in columns if len(set(some[name].astype(str))) > 1) or "nothing"
            raise UserError(f"table {self.name}: {len(rows)} rows match {asked} (they differ in {differ})")
        return int(rows[0])

    @cached_property
    def _places(self) -> Mapping[Any, Any]:
        return self._trials.groupby("line").indices if self._trials is not None else {}

    def _trials_of(self, line: int) -> Trials | None:
        """Return the single trials behind a line, failed ones included; None where they are not kept."""
        if self._trials is None or line not in self._places:
            return None
        kept, places = self._trials, self._places[line]
        trials, clusters, values = (kept[key].iloc[places].tolist() for key in ("trial", "cluster", "value"))
        if len(set(trials)) < len(trials):
            return None
        return Trials(dict(zip(trials, values, strict=True)), dict(zip(trials, clusters, strict=True)))

    def _pooled(self, line: int, raised: tuple[tuple["Table", int], ...]) -> Measured:
        sources = ((self, line), *raised)
        return pooled([it.row(place) for it, place in sources], [it.trials(place) for it, place in sources])


def pooled(rows: Sequence[Any], kept: Sequence[Trials | None]) -> Measured:
    """Return the mean over the trials of several records of one condition, with an interval of networks."""
    # rows: the lines of the records, with mean, ci_low, ci_high, n, seeds and, where it is known, std.
    # kept: the trials behind each, None where they were not kept. Then each record counts by its mean.
    means, lows, highs, sizes = (
        np.array([float(row[key]) for row in rows]) for key in ("mean", "ci_low", "ci_high", "n")
    )
    value, n, std = float(means[0]), int(sizes.sum()), float(rows[0].get("std", NAN))
    ends, trials = (float(lows[0]), float(highs[0])), kept[0]
    if trials and len(rows) > 1 and all(kept):
        for more in filter(None, kept[1:]):
            trials = trials.joined(more)
        scores = np.array(list(trials.scored().values.values()))
        value, n, std = float(scores.mean()), len(scores), float(scores.std())
        ends = from_trials(trials.scored(), exactly(value)).ends
    elif len(rows) > 1:
        shares, trials = sizes / n, None
        value = float(shares @ means)
        arms = [float(np.linalg.norm(shares * each)) for each in (means - lows, highs - means)]
        ends = of_networks((value - arms[0], value + arms[1]), means, np.arange(len(means)))
    elif trials:
        # A table's interval counts updates, and a statement speaks of networks.
        ends = trials.scored().over(ends)
    independent = len(set(trials.clusters.values())) if trials else n
    if independent < FEWEST or math.isnan(ends[0]):
        ends = NAN, NAN
    return Measured(value, *ends, n, independent, trials=trials, extra={"std": std})


@dataclass
class ScaleEvidence:
    """The evidence that one scale has of every experiment."""

    scale: str
    lines: Mapping[str, Table]
    # Experiment -> stem of a cell -> why it is absent.
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Experiment -> stem -> what trained (victim, generator, ...) -> share of its full length.
    shares: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    # Experiment -> stem -> by what share the loss of each trial fell in the last half of its run.
    falls: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    # Attack -> its parameters and parts at full size, which tell how its step size falls.
    attacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fact: Callable[[str], Any] = lambda path: _unknown(path)  # gives a fact by its path
    # Gives the tensors and facts of an experiment's exhibit.
    exhibit: Callable[[str], Any] = lambda name: _unknown(f"exhibit of {name}")
    # All experiments that exist; None where a name that is not known is not a mistake.
    known: frozenset[str] | None = frozenset()
    device: str = ""
    commit: str = ""
    # Experiment -> scale, device and commit of what is recorded.
    origins: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    # The same scale with raised seeds, whose trials are pooled with its own.
    blocks: Sequence["ScaleEvidence"] = ()

    def origin(self, leaves: Iterable[tuple[str, int]]) -> tuple[str, str, str]:
        """Return scale, device and commit of the rows from which a quantity was read."""
        own = (self.scale, self.device, self.commit)
        found = [self.origins.get(name, own) for name in {name for name, _ in leaves}] or [own]
        scale, device, made = (
            "; ".join(sorted({each for each in part if each})) for part in zip(*found, strict=True)
        )
        return scale, device, made

    def column(self, name: str, leaves: Iterable[tuple[str, int]]) -> list[str]:
        """Return the texts of a column in the rows from which a quantity was read, each once, sorted."""
        own = [(self.lines[table], line) for table, line in leaves if table in self.lines]
        found = own + [pair for lines, line in own for pair in self._raised(lines, line)]
        return sorted({str(lines.row(line)[name]) for lines, line in found if name in lines.columns})

    def _raised(self, lines: Table, line: int) -> Iterator[tuple[Table, int]]:
        """Yield the lines of raised seeds that measure what a line of this scale does."""
        where = {n: lines.values(n)[line] for n in sorted(lines.columns - (STATISTICS - {"scale"}))}
        for others in (block.lines[lines.name] for block in self.blocks if lines.name in block.lines):
            if len(places := others.select(where)) == 1:
                yield others, int(places[0])

    def table(self, experiment: str, where: Mapping[str, object] | None = None) -> Table:
        if experiment not in self.lines:
            if self.known is not None and experiment not in self.known:
                raise UserError(f"no experiment is named {experiment!r} (mend the paper's map or claim)")
            if known := self.why(experiment, where) or self.why(experiment):
                raise LeftOut(known)
            raise NotMeasured(f"no results of experiment {experiment}")
        return self.lines[experiment]

    def why(self, experiment: str, where: Mapping[str, object] | None = None) -> str:
        """Return why cells of a condition (without `where`: all cells) are absent; empty if not known."""
        where = where or {}
        names = {str(where[key]) for key in PLACE if where.get(key)}
        tested, found = str(where.get("tested", "")), []
        for stem, reason in self.absent.get(experiment, {}).items():
            study, _, on = stem.partition(" on ")
            whole = not where or stem.startswith("every ")
            if whole or (names <= set(study.split("/")) and on in ("", tested)):
                found.append(reason)
        reasons = list(dict.fromkeys(found))
        if len(reasons) > REASONS + 1:
            reasons[REASONS:] = [f"{len(reasons) - REASONS} more reasons"]
        return "; ".join(reasons)

    def missing(
        self, experiment: str, otherwise: str, where: Mapping[str, object] | None = None
    ) -> NotMeasured:
        """Return the error for cells of a condition that were not measured: LeftOut where it is known why."""
        known = self.why(experiment, where)
        return LeftOut(known) if known else NotMeasured(otherwise)

    def read(self, experiment: str, metric: str, paper: Paper, **where: object) -> Measured:
        """Return the mean of a metric in the one condition that `where` names."""
        wanted = {"metric": metric, **where}
        lines = self._elsewhere(experiment, wanted) or self.table(experiment, where)
        experiment = lines.name
        try:
            line = lines.one(wanted)
        except NotMeasured as missing:
            told = f"{missing} ({others})" if (others := self.why(experiment)) else str(missing)
            raise self.missing(experiment, told, where) from None
        if math.isnan(float(lines.row(line)["mean"])):
            raise NotMeasured(f"table {experiment} has no value for {metric}")
        raised = tuple(self._raised(lines, line))
        rows, found = [it.row(place) for it, place in ((lines, line), *raised)], lines.pooled(line, raised)
        seeds = {seed for row in rows for seed in as_text(row.get("seeds", "")).split()}
        length, schedule, note, open_end = self._length(lines, line, paper, wanted)
        beats_null, nulls = self._nulls(lines, wanted, metric, found.value, lines.trials(line))
        return replace(
            found, length=length, beats_null=beats_null, leaves=frozenset({(experiment, line)}),
            notes=(note,) if note else (), metric=metric, raw=True, schedule=schedule, open_end=open_end,
            nulls=nulls, networks=len(seeds),
        )  # fmt: skip

    def _elsewhere(self, experiment: str, where: Mapping[str, object]) -> Table | None:
        """Return another experiment's table that has the same cell, None without one: one cell is one job."""
        if experiment in self.lines or not (where.keys() >= CELL or where.keys() >= STUDY):
            return None
        able = (each for each in self.lines.values() if where.keys() <= each.columns)
        return next((each for each in able if len(each.select(where)) == 1), None)

    def _length(
        self, lines: Table, line: int, paper: Paper, where: Mapping[str, object]
    ) -> tuple[float, PartialRun | None, str, bool]:
        """Return how far the run behind a line came."""
        # Returns the share of the published length that ran, the schedule of the step size, words for a share
        # below one, and whether the work states no length and the run is not shown to have settled. A run
        # that has settled counts as whole where it is else too short or its step size falls again.
        row = lines.row(line)
        shares, words = [1.0], []
        names = {str(row[key]) for key in PLACE if key in row and not pd.isna(row[key])}
        attack, steps, schedule = str(row.get("attack", "")), row.get("iterations"), None
        full, own = published_for(paper.lengths, attack), as_text(row.get("baseline", "")) == ""
        open_end = False
        if own and steps is not None and not pd.isna(steps):
            schedule = schedule_of(self.attacks.get(attack, {}), int(steps))
            short = bool(full and steps < SHORTEST * full) or bool(schedule and schedule.ahead)
            unstated = bool(full) and "iterations" in paper.unstated
            rested = (short or unstated) and self._settled(lines, line, where, names)
            early, open_end, how = short and rested, unstated and not rested, ""
            if early:
                schedule, how = None, ", when it had settled"
            elif full and schedule and schedule.full < full:
                how = f", with the whole schedule of the step size squeezed into {schedule.full:,}"
            if full:
                shares.append(1.0 if early else float(steps) / full)
                words += [f"after {steps:,.0f} of {full:,.0f} iterations{how}"] if steps < full else []
        turns, asked = row.get("rounds"), published_for(paper.rounds, str(row.get("training", "")))
        if asked and turns is not None and not pd.isna(turns):
            shares.append(float(turns) / asked)
            if turns < asked:
                words.append(f"after {turns:,.0f} of {asked:,.0f} rounds")
        trained: dict[str, float] = {}
        for stem, parts in self.shares.get(lines.name, {}).items():
            if names <= set(stem.split("/")):
                trained |= {key: min(trained.get(key, 1.0), float(value)) for key, value in parts.items()}
        for part, value in trained.items():
            shares += [] if part in paper.unstated else [value]
            words.append(f"{value:.2%} of the {part}'s full training")
        return min(1.0, *shares), schedule, "; ".join(words), open_end

    def _settled(self, lines: Table, line: int, where: Mapping[str, object], names: set[str]) -> bool:
        """Return whether the run behind a line is shown to have settled, by losses and kept images."""
        row, of_cells = lines.row(line), self.falls.get(lines.name, {}).items()
        losses = [fall for stem, found in of_cells if names <= set(stem.split("/")) for fall in found]
        asked = {key: value for key, value in where.items() if key != "iterations"} | {"baseline": SNAPSHOT}
        kept = lines.select(asked)
        steps = lines.values("iterations")[kept]
        early = steps[steps <= row["iterations"] / 2].max(initial=0)
        first = [lines.trials(int(place)) for place in kept[steps == early]]
        last = lines.trials(line)
        moves: list[float] = []
        if len(first) == 1 and first[0] and last and first[0].values.keys() == last.values.keys():
            moves = [last.values[key] - value for key, value in first[0].values.items()]
        return settled(losses, moves, tolerance_of(str(row["metric"]), float(row["mean"]))[0])

    def _nulls(
        self, lines: Table, where: Mapping[str, object], metric: str, mean: float, trials: Trials | None
    ) -> tuple[bool | None, tuple[float, ...]]:
        """Return whether a mean is better than every null baseline of its condition, and their means."""
        # What the attack made of other updates must surely be worse, by more than a tolerance: an attack that
        # only shows its prior knowledge is as good there, up to chance.
        if where.get("baseline"):
            return None, ()
        dropped = {key: value for key, value in where.items() if key not in ("baseline", "iterations")}
        places = lines.select({**dropped, "baseline": None})
        names, means = (lines.values(column)[places] for column in ("baseline", "mean"))
        measured = [pair for pair in zip(names, map(float, means), strict=True) if not math.isnan(pair[1])]
        known = tuple(value for name, value in measured if name in (*NULLS, *CONSTANTS))
        beaten = [value for name, value in measured if name in NULLS]
        declared = METRICS.get(metric)
        if declared is None or declared.of not in ("images", "candidates") or not beaten:
            return None, known
        sign = 1 if declared.higher_is_better else -1
        for line in places[[name == OTHER_UPDATE for name in names]]:
            theirs = lines.trials(int(line))
            if trials and theirs and not better(trials, theirs, sign, tolerance_of(metric, mean)[0]):
                return False, known
        return sign * mean > max(sign * value for value in beaten), known


def better(own: Trials, other: Trials, sign: int, least: float) -> bool:
    """Return whether `own` is surely further than `other` by more than `least`, in the direction `sign`."""
    # Where they have too few pairs, Pitman's exact test of two means asks it of all trials of both.
    both = own.values.keys() & other.values.keys()
    a, b = ({key: sign * each.values[key] for key in both} for each in (own, other))
    _, low, _, count = paired(a, b, own.clusters)
    if count >= DECIDING:
        return low > least
    # Of so few of the other, many of ours say no more.
    ours, theirs = (sign * np.array(each.scored().means()[:50]) for each in (own, other))
    every = combinations(np.concatenate([ours - least, theirs]), len(theirs))
    as_low = np.fromiter(map(sum, every), float) <= sum(theirs) + 1e-12
    return bool(as_low.mean() <= 1 - LEVEL)


def _unknown(what: str) -> Any:
    raise NotMeasured(f"{what} is not known")
