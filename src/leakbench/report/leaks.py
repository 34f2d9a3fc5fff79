"""The best known leak: what the strongest attack reads under each defence, by what the attacker knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from leakbench.report.numbers import interval
from leakbench.verdicts.tolerances import possible

# What a threat model says of an attacker who does not know of the defence, and of the observer meant here.
UNKNOWN = "none"
SERVER = "honest-but-curious server"
ATTACKERS = {"plain": "An attacker who does not know of the defence", "adaptive": "An adaptive attacker"}
CELL = ("dataset", "victim", "federation", "defence", "attack")
# Fewer trials have no interval, so they say nothing of the best.
FEWEST = 5


@dataclass(frozen=True)
class Leak:
    """The strongest attack of one cell: its name, mean Pearson r, interval, number of trials, share that
    failed, and the scale that it was measured at."""

    attack: str
    mean: float
    interval: str
    n: int
    failed: str
    scale: str


@dataclass(frozen=True)
class Price:
    """What a defence costs: the test accuracy of a network trained with it, and of one trained without."""

    experiment: str
    accuracy: float
    without: float
    n: int


@dataclass(frozen=True)
class Map:
    """One victim's part of the table: what it is called, and defence -> attacker -> its best leak."""

    title: str
    rows: dict[str, dict[str, Leak | None]]


def best_known(table: pd.DataFrame, knows: Mapping[str, Any], parts: Mapping[str, Any]) -> list[Map]:
    """Return the best leak of every victim, defence and kind of attacker in an experiment's table.

    table: rows of the run and recorded ones. knows: cell -> its threat model. parts: kind -> what its parts
    are called. Only an honest-but-curious server is an attacker here: cells of other observers are left out.
    An attack that knows the defence may also ignore it, so the adaptive column is never below
    the plain one.
    """
    cells = {tuple(cell.split("/")[:5]): model for cell, model in knows.items()}
    adapted = {cell for cell, model in cells.items() if model.get("defence", UNKNOWN) != UNKNOWN}
    others = {cell for cell, model in cells.items() if model.get("threat model", SERVER) != SERVER}
    own = table[
        (table["baseline"].fillna("") == "") & (table["metric"] == "pearson") & (table["n"] >= FEWEST)
    ]
    own = own.assign(cell=own[list(CELL)].apply(tuple, axis=1))
    own = own[~own["cell"].isin(others)]
    names = {kind: {part["name"]: part["title"] for part in value} for kind, value in parts.items()}
    found = []
    for (dataset, victim), rows in own.groupby(["dataset", "victim"], sort=False):
        maps: dict[str, dict[str, Leak | None]] = {}
        order = sorted(
            rows["defence"].unique(), key=lambda name: (name != "none", names["defence"].get(name, name))
        )
        for defence in order:
            part = rows[rows["defence"] == defence]
            plain = part[~part["cell"].isin(adapted)]
            maps[names["defence"].get(defence, defence)] = {
                "plain": _best(plain, names["attack"]),
                "adaptive": _best(part, names["attack"]),
            }
        title = f"{names['dataset'].get(dataset, dataset)}, {names['victim'].get(victim, victim)}"
        found.append(Map(title, maps))
    return found


def prices(tables: Mapping[str, pd.DataFrame], parts: Mapping[str, Any]) -> dict[str, list[Price]]:
    """Return defence -> what it costs in accuracy, one entry for each experiment that measured it.

    tables: experiment -> rows of the run, or recorded ones. parts: as in `best_known`. An experiment counts
    where it has one accuracy of each defence, that of no defence among them.
    """
    names = {part["name"]: part["title"] for part in parts["defence"]}
    found: dict[str, list[Price]] = {}
    for experiment, table in tables.items():
        if not {"metric", "baseline", "defence", "convention"} <= set(table):
            continue
        own = table[(table["metric"] == "accuracy") & (table["baseline"].fillna("") == "")]
        own = own[own["convention"] == "standard"]
        if own["defence"].duplicated().any() or "none" not in set(own["defence"]):
            continue
        without = float(own.loc[own["defence"] == "none", "mean"].iloc[0])
        for row in own[own["defence"] != "none"].to_dict("records"):
            price = Price(experiment, float(row["mean"]), without, int(row["n"]))
            found.setdefault(names.get(row["defence"], row["defence"]), []).append(price)
    return found


def _best(rows: pd.DataFrame, names: Mapping[str, str]) -> Leak | None:
    if not len(rows):
        return None
    row = rows.sort_values("mean").to_dict("records")[-1]
    return Leak(
        names.get(row["attack"], row["attack"]),
        float(row["mean"]),
        interval(*possible(str(row["metric"]), row["ci_low"], row["ci_high"])),
        int(row["n"]),
        f"{row['failure_rate']:.0%}",
        str(row["scale"]),
    )
