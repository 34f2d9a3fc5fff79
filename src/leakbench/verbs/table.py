"""table: from the scores of an experiment's cells to one tidy table, and to the pictures it shows."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.artefacts import read_facts, read_table, write_tensors, write_text
from leakbench.catalogue.cell import capture_of
from leakbench.metrics import METRICS
from leakbench.metrics.baselines import SNAPSHOT
from leakbench.metrics.interval import summary
from leakbench.metrics.pearson import THRESHOLD
from leakbench.metrics.success import PREFIX, THRESHOLDS, successes
from leakbench.provenance import provenance, read_spec
from leakbench.seeds import stream
from leakbench.verbs.study_table import study_table

CONDITION = [
    "dataset", "victim", "federation", "defence", "attack", "checkpoint", "client", "local_samples", "baseline",
]  # fmt: skip


def _updates(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return per-update values: how many samples were fully revealed (each once), how many neurons were usable."""
    _, first, update = np.unique(rows["update"], return_index=True, return_inverse=True)
    hit = (rows["pearson"] >= THRESHOLD).to_numpy()
    size, revealed = np.bincount(update), np.bincount(update, hit)
    usable = rows["usable"].to_numpy(float)[first]
    isolating = np.bincount(update, rows["neurons"])
    gathered = np.full(len(first), np.nan)
    seeds, images = (rows[name].to_numpy() for name in ("seed", "image"))
    for seed in np.unique(seeds):
        own = seeds == seed
        rounds = np.unique(update[own])
        # Over several rounds of one local set the server gathers; with fresh sets there is nothing to gather.
        if len(rounds) > 1 and len(np.unique(images[own])) == size[rounds].max():
            gathered[rounds[-1]] = len(np.unique(images[own & hit]))
    return {
        "revealed": revealed,
        "revealed_fraction": revealed / size,
        "revealed_cumulative": gathered,
        "usable_neurons": usable,
        "isolating_neurons": isolating,
        "isolating_share": np.divide(isolating, usable, out=np.full(len(first), np.nan), where=usable > 0),
    }


def aggregate(
    rows: pd.DataFrame, metrics: list[str], scale: str, success: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the tidy table of score rows: one line per condition and metric.

    Intervals are 95 % bootstrap intervals over updates, since the samples of one update share its fate. A client that
    went over its set in several passes has a line, and a column `pass`, for each. Where attacks optimise, a column
    `iterations` tells the length, of images kept on the way too. For each metric of `success` there are lines
    `success_<metric>`, one for each value of a column `threshold`: the share of images that are at least so good. What is measured on the federation's model has a line,
    of no client, for each round, with the round in a column `round`; those before the last are "snapshot".
    """
    out: list[dict[str, Any]] = []
    several = {"pass": rows["pass"].nunique() > 1, "iterations": rows["iterations"].max() > 0}
    columns = CONDITION + [name for name, wanted in several.items() if wanted]
    rows = rows.assign(update=rows.groupby(["seed", "round"]).ngroup())
    for values, group in rows.groupby(columns, sort=True, dropna=False):
        condition = dict(zip(columns, values, strict=True))
        failed = (group["status"] != "ok").to_numpy()
        clusters = group["update"].to_numpy()
        common = {"seeds": " ".join(str(s) for s in sorted(group["seed"].unique())), "scale": scale}

        def line(
            metric: str,
            unit: str,
            convention: str,
            stats: dict[str, Any],
            condition: dict = condition,
            common: dict = common,
        ) -> None:
            out.append(
                {**condition, "metric": metric, "convention": convention, **stats, "unit": unit, **common}
            )

        for metric in metrics:
            if METRICS[metric].of != "models" and metric in group and not group[metric].isna().all():
                rng = np.random.default_rng(stream("bootstrap", metric))
                stats = summary(group[metric].to_numpy(), failed, rng, clusters)
                line(metric, "image", METRICS[metric].convention, stats)
        for metric in success:
            if metric not in group or condition["baseline"] == SNAPSHOT:
                continue
            rng = np.random.default_rng(stream("bootstrap", PREFIX + metric))
            for threshold, good in zip(
                THRESHOLDS, successes(group[metric].to_numpy(), failed, metric), strict=True
            ):
                stats = summary(good, failed, rng, clusters) | {"threshold": threshold}
                line(PREFIX + metric, "image", "published", stats)
        if "pearson" in metrics:
            below = group["pearson"].where(group["pearson"] < THRESHOLD)
            if below.notna().any():
                rng = np.random.default_rng(stream("bootstrap", "pearson_unrevealed"))
                line(
                    "pearson_unrevealed",
                    "image",
                    "standard",
                    summary(below.to_numpy(), failed, rng, clusters),
                )
            for metric, each in _updates(group).items():
                if np.isnan(each).all():
                    continue
                rng = np.random.default_rng(stream("bootstrap", metric))
                line(metric, "update", "standard", summary(each, np.zeros(len(each), bool), rng))
    return pd.concat([pd.DataFrame(out), *_of_models(rows, metrics, columns, scale)], ignore_index=True)


def _of_models(rows: pd.DataFrame, metrics: list[str], columns: list[str], scale: str) -> list[pd.DataFrame]:
    """Return the lines of metrics of the federation's model, over seeds, if there are any."""
    out: list[dict[str, Any]] = []
    keys = [name for name in columns if name not in ("client", "local_samples", "baseline")]
    for metric in metrics:
        if metric not in rows or METRICS[metric].of != "models":
            continue
        # All images of a round tell the same model.
        own = rows[(rows["baseline"] == "") & rows[metric].notna()]
        models = own.drop_duplicates([*keys, "seed", "round"])
        last = models.groupby(keys, dropna=False)["round"].transform("max")
        models = models.assign(baseline=np.where(models["round"] < last, SNAPSHOT, ""))
        models["round"] += 1
        for values, group in models.groupby([*keys, "round", "baseline"], sort=True, dropna=False):
            rng = np.random.default_rng(stream("bootstrap", metric))
            stats = summary(group[metric].to_numpy(), np.zeros(len(group), bool), rng)
            line = dict(zip([*keys, "round", "baseline"], values, strict=True))
            told = {"metric": metric, "convention": METRICS[metric].convention, **stats, "unit": "model"}
            seeds = " ".join(str(s) for s in sorted(group["seed"].unique()))
            out.append({**line, **told, "seeds": seeds, "scale": scale})
    return [pd.DataFrame(out)] if out else []


def _scored(
    stems: Sequence[str], scores: Sequence[Path]
) -> Iterator[tuple[str, pd.DataFrame | None, dict[str, Any]]]:
    """Yield each cell's rows and facts; no rows, and why, where it is absent. `scores` is one file per capture, as cells first name it."""
    captures = list(dict.fromkeys(capture_of(stem) for stem in stems))
    files = {capture: (path, read_facts(path)) for capture, path in zip(captures, scores, strict=True)}
    read: dict[Path, pd.DataFrame] = {}
    for stem in stems:
        path, facts = files[capture_of(stem)]
        attack = stem.split("/")[-2]
        own = facts if "absent" in facts else facts["attacks"][attack]
        if "absent" in own:
            yield stem, None, own
            continue
        if path not in read:
            read[path] = read_table(path)[0]
        yield stem, read[path][read[path]["attack"] == attack], own


def table(scores: list[Path], spec: Path, out: Path, exhibit: Path) -> None:
    """Write tables/<experiment>.csv and exhibits/<experiment>.safetensors.

    `scores` has a file for each capture, or for each training study. Cells whose scores are absent are left out and named, with their reasons, in the exhibit's facts.
    """
    from leakbench.verbs.exhibit import pictures

    value = read_spec(spec)
    if "studies" in value:
        return study_table(scores, value, out, exhibit)
    frames, reasons, knows, classes = [], {}, {}, {}
    asked, success, client, shown = (
        value["experiment"][key] for key in ("metrics", "success", "client", "exhibit")
    )
    if value.get("left_out"):
        reasons["every cell"] = value["left_out"]
    reasons |= value.get("cells_left_out", {})
    for stem, frame, facts in _scored(value["cells"], scores):
        if frame is None:
            reasons[stem] = facts["absent"]
            continue
        frames.append(frame if client is None else frame[frame["client"] == client])
        knows[stem] = facts["knows"]
        if facts["classes"]:
            classes[stem.partition("/")[0]] = facts["classes"]
    if frames:
        rows = aggregate(pd.concat(frames, ignore_index=True), asked, value["scale"], success)
        text = rows.to_csv(index=False, float_format="%.6g")
    else:
        columns = [
            *CONDITION,
            "metric",
            "convention",
            "mean",
            "std",
            "median",
            "q25",
            "q75",
            "ci_low",
            "ci_high",
            "n",
            "failure_rate",
            "unit",
            "seeds",
            "scale",
        ]
        text = ",".join(columns) + "\n"
    tensors: dict[str, np.ndarray] = {}
    panels: list[dict[str, Any]] = []
    if shown:
        present = [stem for stem in value["cells"] if stem in knows]
        for number, (panel, content) in enumerate(
            itertools.chain.from_iterable(
                pictures(exhibit.parents[1], stem, shown, client or 0) for stem in present
            )
        ):
            tensors |= {f"{number}/{name}": array for name, array in content.items()}
            panels.append(panel)
    facts = {
        "panels": panels,
        "knows": knows,
        # How many people the judges of a data set tell apart.
        "classes": classes,
        "absent_cells": reasons,
        "scale": value["scale"],
        "seeds": value["experiment"]["seeds"],
    }
    write_tensors(exhibit, tensors, facts | provenance(value, "leakbench.verbs.table"))
    write_text(out, text)
