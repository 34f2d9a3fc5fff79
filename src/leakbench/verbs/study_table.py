"""The table of an experiment that trains: one line per study, key, client, test set and metric, over seeds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.artefacts import read_facts, read_table, write_tensors, write_text
from leakbench.datasets.words import spelt
from leakbench.metrics.baselines import SNAPSHOT
from leakbench.metrics.interval import summary
from leakbench.provenance import provenance, read_spec
from leakbench.seeds import stream

STUDY = ["dataset", "victim", "training", "defence"]
# What does not depend on what is tested on.
TRAINED = ["validation_accuracy", "validation_loss", "training_loss"]
CONVENTIONS = {"standard": "accuracy", "published": "published"}
WHOLE = ["lock_share", "lock_share_parameters", "upload_bytes", "seconds_per_round", "selected_round"]
SOMETIMES = ["epsilon", "delta", "told_apart"]
BY_RULE = ["weight", "cross_loss", "cross_accuracy", "training_loss"]
COLUMNS = [
    *STUDY, "client", "key", "tested", "baseline", "round", "metric", "convention", "mean", "std", "median", "q25", "q75", "ci_low",
    "ci_high", "n", "failure_rate", "rounds", "images", "unit", "seeds", "scale",
]  # fmt: skip
Value = tuple[dict[str, Any], str, str, float]


def over_short_batches(images: int, batch_size: int) -> float:
    """Return what the authors' code makes of an accuracy of 1: it divides each batch's right answers by the nominal size of a
    batch, also the last one's.
    """
    return images / (-(-images // batch_size) * batch_size)


def values(rows: pd.DataFrame, facts: dict[str, Any]) -> Iterator[Value]:
    """Yield (condition, metric, convention, value) of one study: of its selected round, and as snapshots of every round.

    Of a round by a rule of aggregation each client's numbers are told for every round. A client's own numbers have its number,
    their mean none. `tested` is the data set whose test images are measured, empty for what is measured on none. `gap_to_random`
    is an accuracy minus that with a stranger's key and the locks that the server drew.
    The published convention counts a short batch as a whole one; of words, only those that the thesis tests on.
    """
    nominal = over_short_batches(facts["test_images"], facts["batch_size"])
    rows = rows.rename(columns={"test_accuracy": "accuracy"})
    by_rule, rows = rows[rows["key"] == "client"], rows[rows["key"] != "client"].copy()
    for each in by_rule.to_dict("records"):
        condition = {
            "client": each["client"],
            "key": "",
            "tested": "",
            "baseline": SNAPSHOT,
            "round": each["round"],
        }
        for metric in BY_RULE:
            if each[metric] == each[metric]:
                yield condition, metric, "standard", each[metric]
    if rows["filtered_accuracy"].notna().any():
        rows["published"] = rows["filtered_accuracy"]
    else:
        rows["published"] = nominal * rows["accuracy"]
    first = rows["tested"].iloc[0]
    for (turn, tested), of_round in rows.groupby(["round", "tested"], sort=False):
        metrics = {"accuracy": tested, "test_loss": tested} | (
            dict.fromkeys(TRAINED, "") if tested == first else {}
        )
        whole = (
            of_round.groupby("key")[["published", "accuracy", "test_loss", *TRAINED]]
            .mean()
            .reset_index()
            .assign(client=np.nan)
        )
        for each in whole.to_dict("records"):
            for metric, where in metrics.items():
                condition = {
                    "client": np.nan,
                    "key": each["key"],
                    "tested": where,
                    "baseline": SNAPSHOT,
                    "round": turn,
                }
                yield condition, metric, "standard", each[metric]
        if turn != facts["selected"]:
            continue
        random = whole[whole["key"] == "random"]
        clients = of_round[of_round["client"] >= 0]
        for each in pd.concat([whole, clients]).to_dict("records"):
            condition = {"client": each["client"], "key": each["key"], "baseline": "", "round": np.nan}
            for name, column in CONVENTIONS.items():
                own = condition | {"tested": tested}
                yield own, "accuracy", name, each[column]
                if each["key"] in ("own", "other"):
                    yield own, "gap_to_random", name, each[column] - random[column].mean()
            for metric, where in metrics.items():
                if metric != "accuracy":
                    yield condition | {"tested": where}, metric, "standard", each[metric]
    condition = {"client": np.nan, "key": "", "tested": "", "baseline": "", "round": np.nan}
    for metric in (*WHOLE, *(name for name in SOMETIMES if name in facts)):
        yield condition, metric, "standard", float(facts[metric])


def aggregate_studies(studies: list[tuple[pd.DataFrame, dict[str, Any]]], scale: str) -> pd.DataFrame:
    """Return the tidy table of studies (rows, facts): one line per condition and metric, with the mean over seeds, each a run
    of its own.

    Snapshots are lines of baseline "snapshot" with their `round`. `rounds` and `images` are what a study trained for and on.
    """
    found = []
    for rows, facts in studies:
        names = {name: rows[name].iloc[0] for name in [*STUDY, "seed"]}
        told = names | {"rounds": facts["rounds"], "images": facts["images"]}
        found += [
            told | condition | {"metric": metric, "convention": convention, "value": value}
            for condition, metric, convention, value in values(rows, facts)
        ]
    frame = pd.DataFrame(found)
    keys = [*STUDY, "client", "key", "tested", "baseline", "round", "metric", "convention"]
    lines = []
    for condition, group in frame.groupby(keys, sort=False, dropna=False):
        line = dict(zip(keys, condition, strict=True))
        rng = np.random.default_rng(stream("bootstrap", str(line["metric"])))
        lines.append(
            line
            | summary(group["value"].to_numpy(), np.zeros(len(group), bool), rng)
            | {"rounds": group["rounds"].min(), "images": group["images"].min(), "unit": "run"}
            | {"seeds": " ".join(map(str, sorted(group["seed"]))), "scale": scale}
        )
    return pd.DataFrame(lines)[COLUMNS].sort_values(STUDY, kind="stable")


def _named(rows: pd.DataFrame) -> dict[str, Any]:
    """Return what a study's rows are called, and its seed."""
    return {name: rows[name].iloc[0] for name in STUDY} | {"seed": int(rows["seed"].iloc[0])}


def boundaries(
    studies: list[tuple[pd.DataFrame, dict[str, Any]]],
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return tensors and what they are, of each study in the plane: <place>/surface float32 [steps, steps], the probability of
    the second class from bottom left, and <place>/points/<client or test> float32 [n, 3], (x, y, label).

    `apart`: the share of the plane that is classified otherwise than by centralised training of the same network and seed, in
    [0, 1]; None where there is none. `accuracy`: on all test points, in [0, 1]. All are of the last round.
    """
    tensors: dict[str, np.ndarray] = {}
    told: list[dict[str, Any]] = []
    for rows, facts in studies:
        if "boundary" not in facts:
            continue
        own, place = facts["boundary"], len(told)
        tensors[f"{place}/surface"] = np.array(own["surface"], np.float32)
        groups = [*enumerate(own["points"]["clients"]), ("test", own["points"]["test"])]
        tensors |= {f"{place}/points/{name}": np.array(points, np.float32) for name, points in groups}
        names = _named(rows)
        last = rows[(rows["round"] == facts["rounds"]) & (rows["key"] != "client")]
        about = {"extent": own["extent"], "round": facts["rounds"], "clients": len(groups) - 1}
        told.append(names | about | {"accuracy": float(last["test_accuracy"].mean())})
    same = ("dataset", "victim", "defence", "seed")
    surfaces = [tensors[f"{place}/surface"] > 0.5 for place in range(len(told))]
    for about, own in zip(told, surfaces, strict=True):
        alike = [
            other
            for each, other in zip(told, surfaces, strict=True)
            if each["clients"] == 1 and all(each[key] == about[key] for key in same)
        ]
        about["apart"] = float((own != alike[0]).mean()) if alike else None
    return tensors, told


def examples(
    studies: list[tuple[pd.DataFrame, dict[str, Any]]],
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return pictures words/<test set> uint8 [words, rows, columns], and for each study and test set the `words` on them and
    what its model of the last round `read`.
    """
    tensors: dict[str, np.ndarray] = {}
    told: list[dict[str, Any]] = []
    for rows, facts in studies:
        names = _named(rows)
        for tested, own in facts.get("examples", {}).items():
            tensors.setdefault(f"words/{tested}", np.array(own["pictures"], np.uint8))
            spelled = {kind: [spelt(codes) for codes in own[kind]] for kind in ("words", "read")}
            told.append(names | spelled | {"tested": tested, "round": facts["rounds"]})
    return tensors, told


def study_table(paths: list[Path], value: dict[str, Any], out: Path, exhibit: Path) -> None:
    """Write tables/<experiment>.csv and an exhibit, which names the studies that are absent and why, and has boundaries and
    words read if any, rounds' problems, and how each study encrypted.
    """
    reasons = {"every study": value["left_out"]} if value["left_out"] else dict(value["cells_left_out"])
    studies = []
    for stem, path in zip(value["studies"], paths, strict=True):
        facts = read_facts(path)
        if "absent" in facts:
            reasons[stem] = facts["absent"]
            continue
        reasons |= {f"{stem} on {name}": why for name, why in facts["untested"].items()}
        rows, facts = read_table(path)
        cost = read_spec(exhibit.parents[1] / "records" / "study" / f"{stem}.json")
        facts |= {"seconds_per_round": cost["seconds_per_round"], "selected_round": facts["selected"]}
        studies.append((rows, facts))
    if studies:
        text = aggregate_studies(studies, value["scale"]).to_csv(index=False, float_format="%.6g")
    else:
        text = ",".join(COLUMNS) + "\n"
    tensors, drawn = boundaries(studies)
    pictures, read = examples(studies)
    told = {
        key: {str(rows["training"].iloc[0]): facts[key] for rows, facts in studies if facts.get(key)}
        for key in ("problems", "encryption")
    }
    facts = {
        **({"boundaries": drawn} if drawn else {}), **({"examples": read} if read else {}), **{key: value for key, value in told.items() if value},
        "panels": [], "knows": {}, "classes": {}, "absent_cells": reasons, "scale": value["scale"],
        "seeds": value["experiment"]["seeds"],
    }  # fmt: skip
    write_tensors(exhibit, tensors | pictures, facts | provenance(value, "leakbench.verbs.table"))
    write_text(out, text)
