"""The rows that a drawing shows: those of a table, with derived columns, and the printed numbers."""

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.base.artefacts import read_table
from leakbench.base.cellname import CELL
from leakbench.results.figures import words
from leakbench.results.figures.result import Result, cut

# A PSNR above this means "the same image": more decibels would only squeeze all other values.
DECIBELS = 60.0
# A run of less than this share of its published length shows nothing, so it is not drawn.
SHORTEST = 0.01
# An interval needs at least this many values.
FEWEST = 3
PRINTED = "printed"
# The word of a printed outcome → the baseline of its row, which has no number.
OUTCOMES = {"failure": "printed failure", "success": "printed success"}
SAID = (PRINTED, *OUTCOMES.values())
# The baseline of single trials.
TRIAL = "run"
MEASURED = {
    "mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate", "value", "id", "updates",
}  # fmt: skip
# Metric → what it is counted in, where a table says images of any private sample.
OF = dict.fromkeys(("exact_sentence", "token_accuracy", "rouge_1", "rouge_2"), "sentence")
OF |= dict.fromkeys(("exact_record", "feature_accuracy"), "record")
# A point of a drawing and the ends of its bar.
ENDS = ["mean", "ci_low", "ci_high"]
Columns = Mapping[str, Mapping[str, Any]]


def chosen(
    result: Result,
    metrics: Sequence[str],
    *,
    where: Mapping[str, Any] | None = None,
    columns: Columns | None = None,
    convention: str = "standard",
    baselines: Sequence[str] = ("",),
    medians: Sequence[str] = (),
    unmeasured: bool = False,
    over_updates: bool = False,
) -> pd.DataFrame:
    """Return the rows of some metrics and baselines that a drawing shows, with what is printed beside them.

    Printed numbers are rows of the baseline PRINTED, and printed outcomes rows of the baselines OUTCOMES.
    Runs that were too short and intervals of fewer than FEWEST values are left out, and PSNR ends at
    DECIBELS. `medians`, `unmeasured` and `over_updates` mean what they mean for `lines`; where updates are
    few but alike, the interval of a share is wide.
    """
    parts = [_clustered(result, over_updates) if result.trials else result.rows, _printed(result, unmeasured)]
    if TRIAL in baselines and result.trials:
        single = read_table(result.trials)[0]
        single = single[single["metric"].isin(list(metrics)) & single["baseline"].fillna("").eq("")]
        parts.append(single.assign(baseline=TRIAL, mean=single["value"]))
    # The columns of an empty table have no type, and would change the types of the other table.
    rows = pd.concat([part for part in parts if len(part)] or parts)
    rows = rows.reindex(
        columns=rows.columns.union(["attack", "training", "client", "iterations"], sort=False)
    )
    rows = rows[rows["metric"].isin(list(metrics)) & rows["baseline"].isin([*baselines, *SAID])]
    # A metric that only a paper uses has rows of that paper's convention alone.
    other = ~rows["metric"].isin(rows.loc[rows["convention"] == convention, "metric"])
    rows = rows[(rows["convention"] == convention) | other].reset_index(drop=True)
    if set(CELL) <= set(rows.columns):
        cells = pd.MultiIndex.from_frame(rows[list(CELL)])
        rows = rows[~cells.isin([cell for cell, _ in too_short(result)]) | rows["iterations"].isna()]
    for column, how in (columns or {}).items():
        rows = derived(result, rows, column, how)
    for column, wanted in (where or {}).items():
        rows = rows[rows[column].isin(several(wanted))]
    central = rows["metric"].isin(list(medians)) & ~rows["baseline"].isin([*SAID, TRIAL])
    if central.any():
        rows.loc[central, ENDS] = rows.loc[central, ["median", "q25", "q75"]].to_numpy()
    decibels = rows["metric"].str.startswith("psnr")
    rows.loc[decibels, ENDS] = rows.loc[decibels, ENDS].clip(upper=DECIBELS)
    rows.loc[~(rows["n"] >= FEWEST), ["ci_low", "ci_high"]] = math.nan
    return rows


def several(wanted: Any) -> Sequence[Any]:
    """Return a list of values, or the only value that is wanted, as a list."""
    return wanted if isinstance(wanted, list | tuple) else [wanted]


def derived(result: Result, rows: pd.DataFrame, column: str, how: Mapping[str, Any]) -> pd.DataFrame:
    by = list(several(how["by"]))
    names = rows[by].apply(lambda row: " | ".join(map(words.plain, row)), axis=1)
    known = {key: value for key, value in how.items() if key not in ("by", "else", "parameter")}

    def became(name: str) -> Any:
        for glob, value in known.items():
            if fnmatch.fnmatchcase(name, glob):
                return value
        if "parameter" in how:
            return result.value(by[0], name, how["parameter"])
        return how.get("else", name)

    found = pd.Series([became(name) for name in names], rows.index, dtype=object)
    return rows.assign(**{column: found}).explode(column, ignore_index=True)


def levels(result: Result, rows: pd.DataFrame, column: str, columns: Columns | None = None) -> list[Any]:
    """Return the values of a column in order: numbers by size, others as they are first listed."""
    there = list(dict.fromkeys(rows[column].dropna()))
    how = (columns or {}).get(column, {})
    listed: list[Any] = []
    for value in [value for key, value in how.items() if key not in ("by", "parameter")]:
        listed += value if isinstance(value, list) else [value]
    listed += words.KEYS if column == "key" else ["none", *result.parts(column)]
    if numeric(there):
        return sorted(there)
    place = {value: number for number, value in reversed(list(enumerate(listed)))}
    return sorted(there, key=lambda value: place.get(value, len(place)))


def numeric(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values if not pd.isna(value))


def named(
    result: Result, rows: pd.DataFrame, columns: Sequence[str], text: Mapping[str, str] | None = None
) -> pd.Series:
    """Return the words for each row's values in some columns, joined with " · "."""
    values = rows[list(columns)].to_numpy(object)
    found = ([word(result, *each, text) for each in zip(columns, row, strict=True)] for row in values)
    return pd.Series([" · ".join(filter(None, each)) for each in found], rows.index, dtype=object)


def word(result: Result, column: str, value: Any, text: Mapping[str, str] | None = None) -> str:
    """Return the experiment's own words for a value, or the title of its part, or `words.called`."""
    plain = words.plain(value)
    if text and plain in text:
        return text[plain]
    part = result.parts("dataset" if column == "tested" else column).get(plain, {})
    return str(part.get("title", "")) or words.called(column, plain)


def ordered(
    result: Result, rows: pd.DataFrame, by: Sequence[str], columns: Columns | None = None
) -> pd.DataFrame:
    """Return the rows sorted by some columns, the most important first, each as `levels` has it."""
    keys = {c: {value: n for n, value in enumerate(levels(result, rows, c, columns))} for c in by}
    places = rows[list(by)].apply(lambda series: series.map(keys[str(series.name)]).fillna(-1))
    return rows.loc[places.sort_values(list(by), kind="stable").index] if len(by) else rows


def too_short(result: Result) -> list[tuple[tuple[str, ...], str]]:
    """Return the cells whose attacks ran for less than SHORTEST of their published length, with words."""
    rows = result.rows
    if not {*CELL, "iterations"} <= set(rows.columns):
        return []
    longest = rows[rows["baseline"] == ""].groupby(list(CELL))["iterations"].max()
    out = []
    for cell, taken in longest.dropna().items():
        assert isinstance(cell, tuple)
        whole = result.value("attack", cell[-1], "iterations") or 0
        if taken < SHORTEST * whole:
            out.append((cell, f"{word(result, 'attack', cell[-1])} ({taken:g} of {whole:,} steps)"))
    return out


def missing(result: Result) -> str:
    """Return in words why cells are missing. Data sets that are not here are named by their titles."""
    reasons: list[str] = list(dict.fromkeys(result.facts.get("absent_cells", {}).values()))
    named = {reason: reason.split()[0].rstrip(":") for reason in reasons}
    absent = [name for name in dict.fromkeys(named.values()) if name in result.parts("dataset")]
    sets = ", ".join(word(result, "dataset", name) for name in absent)
    others = [reason for reason in reasons if named[reason] not in absent]
    return "; ".join([*([f"the data sets {sets} are not here"] if absent else []), *others])


def counted(rows: pd.DataFrame, intervals: str = "bars and bands", medians: Sequence[str] = ()) -> str:
    """Return the small print of a drawing: on how many values and steps its rows rest."""
    own = rows[rows["baseline"].isin(["", "snapshot"])]
    if own.empty:
        return "n = 0"
    counts = own.groupby(own["unit"].mask(own["metric"].isin(OF), own["metric"].map(OF)), sort=False)
    text = "; ".join(f"n = {_counted(str(unit), part)} behind each point" for unit, part in counts)
    # Runs and models are networks themselves.
    seeds = own.loc[own["unit"].isin(["image", "update"]), "seeds"].map(lambda each: len(each.split()))
    text += ", on one network each" if seeds.max() == 1 else ""
    text += f" {steps}" if (steps := words.steps(own[own["baseline"] == ""])) else ""
    if "rounds" in own and own["rounds"].notna().any():
        text += f" after {words.span(own['rounds'])} rounds over {words.span(own['images'])} images"
    if intervals:
        central = own["metric"].isin(list(medians))
        if own.loc[~central, "ci_low"].notna().any():
            text += f"; {intervals}: 95 % interval"
        elif not central.all():
            text += "; too few values for an interval"
        if central.any():
            names = ", ".join(words.called("metric", name) for name in medians if name in set(own["metric"]))
            text += f"; medians and quartiles of {names}"
    whole = rows["metric"].str.startswith("psnr") & (rows["mean"] >= DECIBELS)
    return text + (f"; PSNR is cut at {DECIBELS:g} dB" if whole.any() else "")


def _clustered(result: Result, over_updates: bool) -> pd.DataFrame:
    """Return the rows of a table with the updates of each, and Student's interval of their means."""
    from scipy import stats

    trials = read_table(Path(result.trials or ""))[0]
    means = trials.groupby(["line", "cluster"])["value"].mean().groupby("line").agg(["sem", "size"])
    means = means.reindex(range(len(result.rows))).set_axis(result.rows.index)
    rows = result.rows.assign(updates=means["size"])
    if over_updates:
        half = means["sem"] * stats.t.ppf(0.975, means["size"] - 1)
        rows = cut(rows.assign(ci_low=rows["mean"] - half, ci_high=rows["mean"] + half))
    return rows


def _counted(unit: str, rows: pd.DataFrame) -> str:
    """Return how many values are behind some rows, and how many updates where each holds several."""
    said = f"{words.span(rows['n'])} {unit}{'s' if rows['n'].max() > 1 else ''}"
    updates = rows.get("updates", rows["n"])
    if unit != "update" and (updates < rows["n"]).any():
        said += f" of {words.span(updates)} update{'s' if updates.max() > 1 else ''}"
    return said


def _printed(result: Result, unmeasured: bool) -> pd.DataFrame:
    """Return the row of the table that each printed number or outcome belongs to, with it as the mean."""
    rows, out = result.rows[result.rows["baseline"] == ""], []
    conditions = [c for c in rows if c not in MEASURED | {"baseline", "unit", "seeds", "scale"}]
    for mark in result.marks.to_dict("records"):
        if isinstance(of := mark.get("baseline"), str) and of:
            continue  # what is printed of a null is no number of an attack
        known = {c: v for c, v in mark.items() if c in conditions and not pd.isna(v)}
        same = (rows[list(known)] == pd.Series(known)).all(axis=1)
        # If a mark leaves a column open, a row with a gap in that column is preferred: the row of all clients
        # to that of client 0.
        gaps = rows[same].isna().sum(axis=1).sort_values(ascending=False, kind="stable")
        found = rows.loc[gaps.index[:1]]
        if found.empty and unmeasured:
            found = pd.DataFrame([known])
        said = {"baseline": OUTCOMES.get(mark.get("word", ""), PRINTED), "mean": mark["value"]}
        said |= {"id": mark.get("id", "")}
        out.append(found.assign(**said, ci_low=math.nan, ci_high=math.nan))
    return pd.concat(out) if out else rows.head(0)
