"""The best known leak: what the strongest attack of each kind of attacker reads under each defence."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from leakbench.base.cellname import CELL, of_lines
from leakbench.papers.verdicts.tolerances import possible
from leakbench.results.report.numbers import interval

# The name of no defence, which an attacker who knows of none assumes. SERVER and MALICIOUS are the observers
# whose attacks count here.
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
# From the kind and the name of a part to its title.
Title = Callable[[str, Any], str]
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
    """Return the best leak of every victim, defence and kind of attacker in ATTACKERS."""
    # An attacker who knows the defence may also ignore it: the adaptive column is never below the plain one.
    own, title = _measured(table, METRICS["plain"], knows), _titles(parts)
    own = own[own["attacker"].isin(list(ATTACKERS))]
    found = []
    for (dataset, victim), rows in own.groupby(["dataset", "victim"], sort=False):
        of = {title("defence", name): part for name, part in rows.groupby("defence", sort=False)}
        order = _ordered(of, title)
        maps = {name: {kind: _leak(of[name], kind, title) for kind in ATTACKERS} for name in order}
        found.append(Map(f"{title('dataset', dataset)}, {title('victim', victim)}", maps))
    return found


def on_any_network(
    table: pd.DataFrame, knows: Mapping[str, Any], parts: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Leak | None]], dict[str, dict[str, Leak | None]]]:
    """Return defence -> kind of attacker (ATTACKERS and STRONGER) -> its best leak over all networks."""
    # The first mapping has no defence and the defences that most of these attackers met, the second the
    # others.
    title, kinds, found = _titles(parts), (*ATTACKERS, *STRONGER), dict[str, dict[str, Leak | None]]()
    for kind in kinds:
        for defence, part in _measured(table, METRICS[kind], knows).groupby("defence"):
            if leak := _leak(part, kind, title, where=True):
                found.setdefault(title("defence", defence), dict.fromkeys(kinds))[kind] = leak
    every = {name: found[name] for name in _ordered(found, title)}
    met = {name: sum(leak is not None for leak in leaks.values()) for name, leaks in every.items()}
    first = [name for name in every if name == title("defence", UNKNOWN) or met[name] > len(ATTACKERS)]
    return {name: every.pop(name) for name in first}, every


def of_images(table: pd.DataFrame) -> pd.DataFrame:
    """Return an experiment's table without correlations of features, which cannot be ranked beside images."""
    # Only an image has a PSNR: if the experiment measures PSNR, a cell without it reconstructs features.
    if not {"metric", *CELL} <= set(table):
        return table
    cells = of_lines(table)
    shown = set(cells[(table["metric"] == "psnr") & table["mean"].notna()])
    features = (table["metric"] == METRICS["plain"]) & ~cells.isin(shown)
    return table[~features] if shown else table


def strongest(table: pd.DataFrame, knows: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table that may stand in a best known leak and reconstruct images."""
    table = of_images(table)
    found = [_measured(table.iloc[:0], METRICS["plain"], knows)]
    for kind in (*ATTACKERS, "malicious"):
        rows = _measured(table, METRICS[kind], knows)
        # The last row of a group is the one that `_leak` chooses.
        rows = rows[rows["attacker"] == kind].sort_values(["mean", "n"], kind="stable")
        found.append(rows.groupby(["dataset", "victim", "defence"], sort=False).tail(1))
    return pd.concat(found).drop_duplicates("cell")


def prices(tables: Mapping[str, pd.DataFrame], parts: Mapping[str, Any]) -> dict[str, list[Price]]:
    """Return defence -> what it costs in accuracy, with one entry for each network on which it was measured.

    A network counts if it has one accuracy for each defence and one for no defence, each of at least FEWEST
    trainings: the accuracy of one training moves by more than most defences cost.
    """
    title, found = _titles(parts), dict[str, list[Price]]()
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
                network, n = ", ".join(title(kind, row[kind]) for kind in NETWORK[:2]), int(row["n"])
                price = Price(experiment, float(row["mean"]), spread, without, network, n, _origin(row))
                found.setdefault(title("defence", row["defence"]), []).append(price)
    return found


def _origin(row: Mapping[Any, Any]) -> str:
    several = " " in str(row["seeds"])
    return f"{row['scale']}, {'seeds' if several else 'seed'} {row['seeds']}"


def _titles(parts: Mapping[str, Any]) -> Title:
    known = {(kind, part["name"]): part["title"] for kind, own in parts.items() for part in own}
    return lambda kind, name: str(known.get((kind, name), name))


def _ordered(defences: Iterable[str], title: Title) -> list[str]:
    """Return titles of defences in order; no defence comes first."""
    return sorted(defences, key=lambda name: (name != title("defence", UNKNOWN), name))


def _kind(model: Mapping[str, Any], held: bool) -> str:
    """Return the kind of attacker of a threat model, "" for an observer who is none of them."""
    observer = str(model.get("threat model", SERVER))
    if observer.startswith(MALICIOUS):
        return "malicious"
    if observer != SERVER:
        return ""
    if held and str(model.get("candidates", "")).startswith("held"):
        return "candidates"
    return "plain" if model.get("defence", UNKNOWN) == UNKNOWN else "adaptive"


def _measured(table: pd.DataFrame, metric: str, knows: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of one metric, without baselines and controls, with columns `cell` and `attacker`."""
    # A cell without a threat model is of a plain attacker. Who reconstructs makes no use of candidates.
    if not {"metric", "baseline", "n", *CELL} <= set(table):
        return pd.DataFrame(columns=["cell", "attacker", *CELL, "mean", "n"])
    own = table[(table["baseline"].fillna("") == "") & (table["metric"] == metric) & (table["n"] >= FEWEST)]
    own = own[~own["attack"].isin(CONTROLS)]
    held = metric == METRICS["candidates"]
    kinds = {tuple(cell.split("/")[:5]): _kind(model, held) for cell, model in knows.items()}
    cells = pd.Series(list(own[list(CELL)].itertuples(index=False, name=None)), own.index, object)
    return own.assign(cell=cells, attacker=cells.map(lambda cell: kinds.get(cell, "plain")))


def _leak(rows: pd.DataFrame, kind: str, title: Title, where: bool = False) -> Leak | None:
    """Return the best leak of one kind of attacker under one defence, None if no attack was tried."""
    # An adaptive attacker may also ignore the defence.
    own = rows[rows["attacker"].isin(list(ATTACKERS) if kind == "adaptive" else [kind])]
    if not len(own):
        return None
    row = own.sort_values(["mean", "n"], kind="stable").to_dict("records")[-1]
    ignored = NOTHING if row["defence"] == UNKNOWN else PLAIN_ONLY
    return Leak(
        title("attack", row["attack"]),
        float(row["mean"]),
        interval(*possible(str(row["metric"]), row["ci_low"], row["ci_high"]), digits=3),
        int(row["n"]),
        f"{row['failure_rate']:.0%}",
        _origin(row),
        f"{title('dataset', row['dataset'])}, {title('victim', row['victim'])}" if where else "",
        "" if kind in set(own["attacker"]) else ignored,
        row["picture"] if isinstance(row.get("picture"), str) else "",
    )
