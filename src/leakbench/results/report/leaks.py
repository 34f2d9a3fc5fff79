"""The best known leak: what the strongest attack of each kind of attacker reads under each defence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from leakbench.base.cellname import CELL, of_lines
from leakbench.papers.verdicts.tolerances import possible
from leakbench.results.report.numbers import interval

# The value of `defence` in the threat model of an attacker who does not know the defence; the name of no
# defence. SERVER and MALICIOUS are the observers whose attacks count here.
UNKNOWN = "none"
SERVER = "honest-but-curious server"
MALICIOUS = "malicious server"
ATTACKERS = {"plain": "An attacker who does not know the defence", "adaptive": "An adaptive attacker"}
# These two are measured on few defences and many networks, so only the table of all networks has them.
STRONGER = {
    "candidates": "A server that holds candidate records: share of members recognised at no false alarm",
    "malicious": "A server that writes the weights: share of images that come back in every bit",
}
# The metric that each kind of attacker is measured by.
METRICS = {
    "plain": "pearson", "adaptive": "pearson", "candidates": "tpr_at_fpr_0", "malicious": "exact",
}  # fmt: skip
NOTHING = "there is nothing to adapt to"
PLAIN_ONLY = "only attackers who do not know the defence were tried"
# Controls, which show what the label alone gives, so they are no leaks.
CONTROLS = ("class-mean",)
# Fewer trials have no interval, so they cannot show which leak is the best.
FEWEST = 5
# The columns that say which network a training study trained, and how.
NETWORK = ("dataset", "victim", "training")


@dataclass(frozen=True)
class Leak:
    """The strongest attack of one cell."""

    attack: str
    mean: float  # the mean of the attacker's metric (METRICS): Pearson r from -1 to 1, or a share from 0 to 1
    interval: str
    n: int
    failed: str  # the share of trials that failed, in percent
    scale: str  # the scale at which the cell was measured, and its seeds
    where: str = ""  # the data set and the network, if the cell is the best of several; otherwise empty
    note: str = ""  # what the cell does not show
    # A data: address of the private image and its reconstruction at the median, "" if none is recorded.
    picture: str = ""


@dataclass(frozen=True)
class Price:
    """What a defence costs in test accuracy."""

    experiment: str
    accuracy: float  # the test accuracy of a network trained with the defence
    interval: str
    without: float  # the test accuracy of a network trained without it
    network: str  # the data set and the network, in words
    n: int  # the number of trainings behind `accuracy`
    scale: str  # the scale at which it was measured, and its seeds


@dataclass(frozen=True)
class Map:
    """One victim's part of the table."""

    title: str
    # Defence -> kind of attacker -> its best leak, None if no attack was tried.
    rows: dict[str, dict[str, Leak | None]]


def best_known(table: pd.DataFrame, knows: Mapping[str, Any], parts: Mapping[str, Any]) -> list[Map]:
    """Return the best leak of every victim, defence and kind of attacker in ATTACKERS.

    Only an honest-but-curious server is an attacker here: cells of other observers are left out. An attacker
    who knows the defence may also ignore it, so the adaptive column is never below the plain one.
    """
    own = _measured(table, "pearson")
    kinds = _kinds(knows, "pearson")
    own = own[_of(own, kinds, *ATTACKERS)]
    names = _names(parts)
    found = []
    for (dataset, victim), rows in own.groupby(["dataset", "victim"], sort=False):
        maps: dict[str, dict[str, Leak | None]] = {}
        for defence in _ordered(rows, names):
            part = rows[rows["defence"] == defence]
            maps[names["defence"].get(defence, defence)] = {
                kind: _leak(part, kinds, kind, names) for kind in ATTACKERS
            }
        found.append(Map(_where(str(dataset), str(victim), names), maps))
    return found


def on_any_network(
    table: pd.DataFrame, knows: Mapping[str, Any], parts: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Leak | None]], dict[str, dict[str, Leak | None]]]:
    """Return the best leak of each defence and kind of attacker over all networks.

    The attackers are those of ATTACKERS and STRONGER.

    Returns two mappings, defence -> kind of attacker -> its best leak. The first has no defence and the
    defences that most of these attackers met. The second has the other defences.
    """
    names, found = _names(parts), dict[str, dict[str, Leak | None]]()
    for kind in (*ATTACKERS, *STRONGER):
        rows, kinds = _measured(table, METRICS[kind]), _kinds(knows, METRICS[kind])
        for defence, part in rows.groupby("defence"):
            if leak := _leak(part, kinds, kind, names, where=True):
                found.setdefault(names["defence"].get(str(defence), str(defence)), {})[kind] = leak
    without = names["defence"].get(UNKNOWN, UNKNOWN)
    every = {
        title: {kind: found[title].get(kind) for kind in (*ATTACKERS, *STRONGER)}
        for title in sorted(found, key=lambda title: (title != without, title))
    }
    first = {
        title: leaks for title, leaks in every.items()
        if title == without or sum(leak is not None for leak in leaks.values()) > len(ATTACKERS)
    }  # fmt: skip
    return first, {title: leaks for title, leaks in every.items() if title not in first}


def of_images(table: pd.DataFrame) -> pd.DataFrame:
    """Return an experiment's table without correlations of features, which are no images.

    Only an image has a PSNR. If the experiment measures PSNR, a cell without it reconstructs the features
    that the first dense layer reads. The correlation of features is no leak of an image, and cannot be ranked
    beside one.
    """
    if not {"metric", *CELL} <= set(table):
        return table
    cells = of_lines(table)
    shown = set(cells[(table["metric"] == "psnr") & table["mean"].notna()])
    features = (table["metric"] == METRICS["plain"]) & ~cells.isin(shown)
    return table[~features] if shown else table


def strongest(table: pd.DataFrame, knows: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table that may stand in a best known leak and reconstruct images."""
    table = of_images(table)
    found = [_measured(table.iloc[:0], METRICS["plain"])]
    for kind in (*ATTACKERS, "malicious"):
        rows, kinds = _measured(table, METRICS[kind]), _kinds(knows, METRICS[kind])
        rows = rows[_of(rows, kinds, kind)]
        # The last row of a group is the one that `_best` chooses.
        rows = rows.sort_values(["mean", "n"], kind="stable")
        found.append(rows.groupby(["dataset", "victim", "defence"], sort=False).tail(1))
    return pd.concat(found).drop_duplicates("cell")


def prices(tables: Mapping[str, pd.DataFrame], parts: Mapping[str, Any]) -> dict[str, list[Price]]:
    """Return defence -> what it costs in accuracy, with one entry for each network on which it was measured.

    A network of an experiment counts if it has one accuracy for each defence, and one for no defence, each of
    at least FEWEST trainings. The accuracy of one training moves by more than most defences cost.
    """
    names, found = _names(parts), dict[str, list[Price]]()
    for experiment, table in tables.items():
        if not {"metric", "baseline", "defence", "convention"} <= set(table):
            continue
        own = table[(table["metric"] == "accuracy") & (table["baseline"].fillna("") == "")]
        own = own[(own["convention"] == "standard") & (own["n"] >= FEWEST)]
        for _, part in own.groupby([key for key in NETWORK if key in own], sort=False):
            if part["defence"].duplicated().any() or "none" not in set(part["defence"]):
                continue
            without = float(part.loc[part["defence"] == "none", "mean"].iloc[0])
            for row in part[part["defence"] != "none"].to_dict("records"):
                spread = interval(row["ci_low"], row["ci_high"], digits=3)
                network = ", ".join(names[kind].get(row[kind], row[kind]) for kind in NETWORK[:2])
                price = Price(
                    experiment, float(row["mean"]), spread, without, network, int(row["n"]), _origin(row)
                )
                found.setdefault(names["defence"].get(row["defence"], row["defence"]), []).append(price)
    return found


def _origin(row: Mapping[Any, Any]) -> str:
    several = " " in str(row["seeds"])
    return f"{row['scale']}, {'seeds' if several else 'seed'} {row['seeds']}"


def _names(parts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {kind: {part["name"]: part["title"] for part in value} for kind, value in parts.items()}


def _kinds(knows: Mapping[str, Any], metric: str) -> dict[tuple[str, ...], str]:
    """Return cell -> kind of its attacker: one of ATTACKERS or STRONGER, or "" for any other observer."""
    held = metric == METRICS["candidates"]
    return {tuple(cell.split("/")[:5]): _kind(model, held) for cell, model in knows.items()}


def _of(rows: pd.DataFrame, kinds: Mapping[tuple[str, ...], str], *wanted: str) -> pd.Series:
    """Return which rows are of the wanted attackers; without a threat model, a cell is of a plain one."""
    return rows["cell"].map(lambda cell: kinds.get(cell, "plain") in wanted).astype(bool)


def _kind(model: Mapping[str, Any], held: bool) -> str:
    observer = str(model.get("threat model", SERVER))
    if observer.startswith(MALICIOUS):
        return "malicious"
    if observer != SERVER:
        return ""
    if held and str(model.get("candidates", "")).startswith("held"):
        return "candidates"
    return "plain" if model.get("defence", UNKNOWN) == UNKNOWN else "adaptive"


def _measured(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of one metric with the column `cell`."""
    if not {"metric", "baseline", "n", *CELL} <= set(table):
        return pd.DataFrame(columns=["cell", *CELL, "mean", "n"])
    own = table[(table["baseline"].fillna("") == "") & (table["metric"] == metric) & (table["n"] >= FEWEST)]
    own = own[~own["attack"].isin(CONTROLS)]
    return own.assign(cell=own[list(CELL)].apply(tuple, axis=1) if len(own) else [])


def _ordered(rows: pd.DataFrame, names: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the defences of rows, sorted by title; no defence comes first."""
    titles = names["defence"]
    return sorted(rows["defence"].unique(), key=lambda name: (name != UNKNOWN, titles.get(name, name)))


def _where(dataset: str, victim: str, names: Mapping[str, Mapping[str, str]]) -> str:
    return f"{names['dataset'].get(dataset, dataset)}, {names['victim'].get(victim, victim)}"


def _leak(
    rows: pd.DataFrame, kinds: Mapping[tuple[str, ...], str], kind: str,
    names: Mapping[str, Mapping[str, str]], where: bool = False,
) -> Leak | None:  # fmt: skip
    """Return the best leak of one kind of attacker under one defence, None if no attack was tried."""
    # An adaptive attacker may also ignore the defence.
    own = rows[_of(rows, kinds, *(ATTACKERS if kind == "adaptive" else (kind,)))]
    best = _best(own, names, where)
    if best and kind == "adaptive" and not _of(own, kinds, kind).any():
        return replace(best, note=NOTHING if rows["defence"].iloc[0] == UNKNOWN else PLAIN_ONLY)
    return best


def _best(rows: pd.DataFrame, names: Mapping[str, Mapping[str, str]], where: bool = False) -> Leak | None:
    """Return the row with the highest mean; of several such rows, the one with the most trials."""
    if not len(rows):
        return None
    row = rows.sort_values(["mean", "n"], kind="stable").to_dict("records")[-1]
    return Leak(
        names["attack"].get(row["attack"], row["attack"]),
        float(row["mean"]),
        interval(*possible(str(row["metric"]), row["ci_low"], row["ci_high"]), digits=3),
        int(row["n"]),
        f"{row['failure_rate']:.0%}",
        _origin(row),
        _where(row["dataset"], row["victim"], names) if where else "",
        picture=row["picture"] if isinstance(row.get("picture"), str) else "",
    )
