"""The table of an experiment that attacks: one line for each condition and metric."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.metrics import METRICS
from leakbench.metrics.baselines import SNAPSHOT
from leakbench.metrics.pearson import THRESHOLD
from leakbench.metrics.success import PREFIX, THRESHOLDS, successes
from leakbench.results.tables.lines import STATISTICS, Lines, TrialNames, bootstrap, of_seeds

CONDITION = [
    "dataset", "victim", "federation", "defence", "attack", "checkpoint", "client", "local_samples",
    "baseline",
]  # fmt: skip
# The columns of a table without lines.
COLUMNS = [*CONDITION, "metric", "convention", *STATISTICS, "unit", "seeds", "scale"]


def _updates(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the numbers of each update, metric → float [updates]."""
    _, first, update = np.unique(rows["update"], return_index=True, return_inverse=True)
    hit = (rows["pearson"] >= THRESHOLD).to_numpy()
    size, revealed = np.bincount(update), np.bincount(update, hit)
    # The share of an update has an interval over updates, whereas single samples have one of all or nothing.
    bits = {"exact_fraction": np.bincount(update, rows["exact"]) / size} if "exact" in rows else {}
    usable = rows["usable"].to_numpy(float)[first]
    isolating = np.bincount(update, rows["neurons"])
    gathered = np.full(len(first), np.nan)
    seeds, images = (rows[name].to_numpy() for name in ("seed", "image"))
    for seed in np.unique(seeds):
        own = seeds == seed
        rounds = np.unique(update[own])
        # Over several rounds of one local set the server gathers samples; of fresh sets it gathers none.
        if len(rounds) > 1 and len(np.unique(images[own])) == size[rounds].max():
            gathered[rounds[-1]] = len(np.unique(images[own & hit]))
    return {
        "revealed": revealed,
        "revealed_fraction": revealed / size,
        **bits,
        "revealed_cumulative": gathered,
        "usable_neurons": usable,
        "isolating_neurons": isolating,
        "isolating_share": np.divide(isolating, usable, out=np.full(len(first), np.nan), where=usable > 0),
    }


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return score rows with the names of their trials: by image, by update, and by cluster."""
    words = {name: rows[name].astype(str) for name in ("seed", "round", "client", "image")}
    cluster = words["seed"] + "/" + words["round"]
    of_update = cluster + "/" + words["client"]
    return rows.assign(
        update=rows.groupby(["seed", "round"]).ngroup(),
        cluster=cluster.astype(object),
        of_update=of_update.astype(object),
        trial=(of_update + "/" + words["image"]).astype(object),
    )


def aggregate(
    rows: pd.DataFrame, metrics: list[str], scale: str, success: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tidy table of score rows, one line per condition and metric, and the trials behind it."""
    # Intervals are over updates, since the samples of one update share its fate. Lines have a column `pass`
    # if a client went over its set several times, and `iterations` if attacks optimise. A metric of the
    # federation's model has a line for each `round`; rounds before the last are "snapshot".
    out = Lines(scale)
    several = {"pass": rows["pass"].nunique() > 1, "iterations": rows["iterations"].max() > 0}
    columns = CONDITION + [name for name, wanted in several.items() if wanted]
    rows = _named(rows)
    for values, group in rows.groupby(columns, sort=True, dropna=False):
        condition = dict(zip(columns, values, strict=True))
        _add_images(out, group, metrics, success, condition)
        if "pearson" in metrics and "pearson" in group and group["pearson"].notna().any():
            _add_updates(out, group, condition)
    for metric in metrics:
        if metric in rows and METRICS[metric].of == "models":
            _add_models(out, rows, metric, columns)
    return pd.DataFrame(out.lines), out.trials()


def _add_images(
    out: Lines, group: pd.DataFrame, metrics: list[str], success: Sequence[str], condition: Facts
) -> None:
    cluster, trial, update, failed = (
        group[name].to_numpy() for name in ("cluster", "trial", "update", "failed")
    )
    lost = (group["status"] != "ok").to_numpy()
    named = TrialNames(cluster, trial, failed, update)
    seeds = group["seed"].unique()
    # An attack that infers labels alone has one row for each update, and no image.
    pictured = any(METRICS[m].of == "images" and m in group and group[m].notna().any() for m in metrics)
    one_each = not pictured and condition["local_samples"] > 1 and group["update"].is_unique
    for metric in metrics:
        declared = METRICS[metric]
        if declared.of != "models" and metric in group and not group[metric].isna().all():
            # An update has labels and a time even if the reconstruction of its image failed.
            own = named if declared.of == "images" else replace(named, failed=lost)
            unit = "update" if declared.of == "candidates" or one_each else "image"
            out.add(condition, (metric, declared.convention), group[metric].to_numpy(), own, unit, seeds)
    for metric in success:
        if metric not in group or condition["baseline"] == SNAPSHOT:
            continue
        line, rng = (PREFIX + metric, "published"), bootstrap(PREFIX + metric)
        shares = successes(group[metric].to_numpy(), lost, metric)
        for threshold, good in zip(THRESHOLDS, shares, strict=True):
            out.add(condition, line, good, named, "image", seeds, rng, threshold=threshold)
    if "pearson" in metrics and "pearson" in group:
        below = group["pearson"].where(group["pearson"] < THRESHOLD)
        if below.notna().any():
            out.add(condition, ("pearson_unrevealed", "standard"), below.to_numpy(), named, "image", seeds)


def _add_updates(out: Lines, group: pd.DataFrame, condition: Facts) -> None:
    updates = group.drop_duplicates("update").sort_values("update")
    cluster, trial = (updates[name].to_numpy() for name in ("cluster", "of_update"))
    named = TrialNames(cluster, trial, np.zeros(len(updates), bool))
    for metric, each in _updates(group).items():
        if not np.isnan(each).all():
            out.add(condition, (metric, "standard"), each, named, "update", group["seed"].unique())


def _add_models(out: Lines, rows: pd.DataFrame, metric: str, columns: list[str]) -> None:
    """Add the lines of a metric of the federation's model, over seeds."""
    keys = [name for name in columns if name not in ("client", "local_samples", "baseline")]
    # All images of a round were reconstructed from updates of the same model.
    own = rows[(rows["baseline"] == "") & rows[metric].notna()]
    models = own.drop_duplicates([*keys, "seed", "round"])
    last = models.groupby(keys, dropna=False)["round"].transform("max")
    models = models.assign(baseline=np.where(models["round"] < last, SNAPSHOT, ""))
    models["round"] += 1
    line = metric, METRICS[metric].convention
    for values, group in models.groupby([*keys, "round", "baseline"], sort=True, dropna=False):
        condition = dict(zip([*keys, "round", "baseline"], values, strict=True))
        out.add(condition, line, group[metric].to_numpy(), of_seeds(group), "model", group["seed"])
