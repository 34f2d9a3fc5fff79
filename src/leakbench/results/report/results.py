"""A result table as the page shows it: conditions that vary have columns, the others stand in one line."""

from dataclasses import dataclass

import pandas as pd

from leakbench.metrics.baselines import WORDS
from leakbench.papers.verdicts.tolerances import possible
from leakbench.results.figures.words import plain
from leakbench.results.report.numbers import count, interval, number, percent

# Column of a table → its words on the page. Only some tables have the last ones.
CONDITION = {
    "dataset": "data set", "victim": "victim", "federation": "federation", "training": "training",
    "defence": "defence", "attack": "attack", "checkpoint": "epoch", "client": "client", "local_samples": "k",
    "pass": "pass", "iterations": "iterations", "key": "key", "rounds": "rounds", "images": "images",
}  # fmt: skip
# Rows of a table that the page shows; the file has all.
MANY = 20
FIRST = ["revealed", "revealed_fraction"]
NULLS = {name: words.removeprefix("null: ") for name, words in WORDS.items()}


@dataclass(frozen=True)
class Row:
    """The texts of one condition and metric."""

    condition: list[str]  # the values of the columns that vary
    metric: str
    unit: str
    convention: str
    mean: str
    interval: str
    median: str
    n: str
    failure: str  # the share of trials that failed, in percent
    nulls: list[str]  # one mean for each null baseline of the table, "" if there is none


@dataclass(frozen=True)
class Results:
    """The compact table."""

    columns: list[str]  # the headings of the conditions that vary
    constant: list[tuple[str, str]]  # pairs of label and value, of the conditions that do not vary
    nulls: list[str]  # the headings of the null baselines
    rows: list[Row]  # the first MANY rows
    conventions: bool  # whether a row has another convention than the standard one
    total: int


def results(table: pd.DataFrame) -> Results:
    """Arrange the rows of one table for the page."""
    table = table.assign(baseline=table["baseline"].fillna("")) if len(table) else table
    if "threshold" in table:
        # The figure shows the points of curves. In a table, these points would bury the other rows.
        table = table[table["threshold"].isna()]
    if not len(table):
        return Results([], [], [], [], False, 0)
    varying, constant = _split(table)
    keys = [*varying, "metric", "convention"]
    baselines = [name for name in NULLS if name in set(table["baseline"])]
    baselines += [n for n in table["baseline"].unique() if n and n not in (*NULLS, "snapshot")]
    beside = table[table["baseline"] != ""]
    means = dict(
        zip(beside[["baseline", *keys]].itertuples(index=False, name=None), beside["mean"], strict=True)
    )
    order = [*FIRST, *(m for m in table["metric"].unique() if m not in FIRST)]
    own = table[table["baseline"] == ""]
    own = own.assign(order=own["metric"].map(order.index)).sort_values("order", kind="stable")
    rows = [
        Row(
            condition=[plain(row[column]) for column in varying],
            metric=str(row["metric"]),
            unit=str(row["unit"]),
            convention=str(row["convention"]),
            mean=number(row["mean"]),
            interval=interval(*possible(str(row["metric"]), row["ci_low"], row["ci_high"])),
            median=number(row["median"]),
            n=count(row["n"]),
            failure=percent(row["failure_rate"]),
            nulls=[number(means.get((name, *(row[key] for key in keys)))) for name in baselines],
        )
        for row in own.head(MANY).to_dict("records")
    ]
    return Results(
        columns=[CONDITION[column] for column in varying],
        constant=constant,
        nulls=[NULLS.get(name, name) for name in baselines],
        rows=rows,
        conventions=bool((own["convention"] != "standard").any()),
        total=len(own),
    )


def _split(table: pd.DataFrame) -> tuple[list[str], list[tuple[str, str]]]:
    there = [column for column in CONDITION if column in table]
    varying = [column for column in there if table[column].nunique(dropna=False) > 1]
    # If each size of a local set belongs to one client, the size alone says which client a row is of.
    sized = {"client", "local_samples"} <= set(varying)
    if sized and (table.groupby("local_samples")["client"].nunique() == 1).all():
        varying.remove("client")
    alike = [column for column in there if table[column].nunique(dropna=False) == 1]
    return varying, [(CONDITION[column], plain(table[column].iloc[0])) for column in alike]
