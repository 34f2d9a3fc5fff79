"""The table of an experiment that trains: one line per study, key, client, test set and metric."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.metrics.baselines import SNAPSHOT
from leakbench.results.tables.lines import STATISTICS, Lines, of_seeds

STUDY = ["dataset", "victim", "training", "defence"]
# The metrics that do not depend on the test set.
TRAINED = ["validation_accuracy", "validation_loss", "training_loss"]
CONVENTIONS = {"standard": "accuracy", "published": "published"}
WHOLE = ["lock_share", "lock_share_parameters", "upload_bytes", "seconds_per_round", "selected_round"]
SOMETIMES = ["epsilon", "delta", "told_apart"]
BY_RULE = ["weight", "cross_loss", "cross_accuracy", "training_loss"]
COLUMNS = [
    *STUDY, "client", "key", "tested", "baseline", "round", "metric", "convention", *STATISTICS, "rounds",
    "images", "unit", "seeds", "scale",
]  # fmt: skip
Value = tuple[Facts, str, str, float]


def over_short_batches(images: int, batch_size: int) -> float:
    """Return what the authors' code reports for an accuracy of 1: it counts a short batch as a whole one."""
    return images / (-(-images // batch_size) * batch_size)


def values(rows: pd.DataFrame, facts: Facts) -> Iterator[Value]:
    """Yield (condition, metric, convention, value) of one study: of its selected round, and as snapshots."""
    # A client's own numbers have its number, their mean has none. `tested` is the data set whose test images
    # are measured, empty for what needs none. `gap_to_random` is an accuracy minus that with a stranger's
    # key. The published convention counts a short batch as a whole one, and of words only those that the
    # published rule counts.
    nominal = over_short_batches(facts["test_images"], facts["batch_size"])
    rows = rows.rename(columns={"test_accuracy": "accuracy"})
    by_rule, rows = rows[rows["key"] == "client"], rows[rows["key"] != "client"].copy()
    for each in by_rule.to_dict("records"):
        own = _at(client=each["client"], baseline=SNAPSHOT, round=each["round"])
        for metric in BY_RULE:
            if each[metric] == each[metric]:
                yield own, metric, "standard", each[metric]
    if rows["filtered_accuracy"].notna().any():
        rows["published"] = rows["filtered_accuracy"]
    else:
        rows["published"] = nominal * rows["accuracy"]
    first = rows["tested"].iloc[0]
    for (turn, tested), of_round in rows.groupby(["round", "tested"], sort=False):
        metrics = dict.fromkeys(("accuracy", "test_loss"), tested)
        metrics |= dict.fromkeys(TRAINED, "") if tested == first else {}
        measured = ["published", "accuracy", "test_loss", *TRAINED]
        whole = of_round.groupby("key", as_index=False)[measured].mean().assign(client=np.nan)
        for each in whole.to_dict("records"):
            for metric, where in metrics.items():
                own = _at(key=each["key"], tested=where, baseline=SNAPSHOT, round=turn)
                yield own, metric, "standard", each[metric]
        if turn != facts["selected"]:
            continue
        random = whole[whole["key"] == "random"]
        clients = of_round[of_round["client"] >= 0]
        for each in pd.concat([whole, clients]).to_dict("records"):
            own = _at(client=each["client"], key=each["key"])
            for name, column in CONVENTIONS.items():
                yield own | {"tested": tested}, "accuracy", name, each[column]
                if each["key"] in ("own", "other"):
                    gap = each[column] - random[column].mean()
                    yield own | {"tested": tested}, "gap_to_random", name, gap
            for metric, where in metrics.items():
                if metric != "accuracy":
                    yield own | {"tested": where}, metric, "standard", each[metric]
    for metric in (*WHOLE, *(name for name in SOMETIMES if name in facts)):
        yield _at(), metric, "standard", float(facts[metric])


def _at(**where: Any) -> Facts:
    """Return the condition of a value: that of the whole study except for the given columns."""
    return {"client": np.nan, "key": "", "tested": "", "baseline": "", "round": np.nan} | where


def aggregate_studies(
    studies: list[tuple[pd.DataFrame, Facts]], scale: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tidy table of studies, one line per condition and metric, and the trials behind its lines.

    A line has the mean over seeds. `rounds` and `images` are those of a study's whole training.
    """
    found = []
    for rows, facts in studies:
        names: Facts = {name: rows[name].iloc[0] for name in [*STUDY, "seed"]}
        names |= {"rounds": facts["rounds"], "images": facts["images"]}
        found += [
            names | condition | {"metric": metric, "convention": convention, "value": value}
            for condition, metric, convention, value in values(rows, facts)
        ]
    # Lines of one study stand together; within it they keep their order.
    frame = pd.DataFrame(found).sort_values(STUDY, kind="stable")
    keys = [*STUDY, "client", "key", "tested", "baseline", "round", "metric", "convention"]
    out = Lines(scale)
    for condition, group in frame.groupby(keys, sort=False, dropna=False):
        where = dict(zip(keys, condition, strict=True))
        line = str(where.pop("metric")), str(where.pop("convention"))
        least = {name: group[name].min() for name in ("rounds", "images")}
        trials = of_seeds(group)
        out.add(where, line, group["value"].to_numpy(), trials, "run", group["seed"], **least)
    return pd.DataFrame(out.lines)[COLUMNS], out.trials()
