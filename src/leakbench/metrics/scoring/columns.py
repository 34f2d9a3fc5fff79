"""The columns of a score row beside its image metrics: labels, partners in other passes, prices."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from leakbench.metrics.alarms import METRICS as ALARMS
from leakbench.metrics.labels import label_accuracy, labels_matched
from leakbench.metrics.update_matching import matching_success
from leakbench.metrics.updates import of_rounds


def add_labels(
    frame: pd.DataFrame, tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int,
    baseline: str,
) -> None:  # fmt: skip
    """Add the columns about labels and about the agreement of an attack's own findings."""
    part = {"": "", "random-gradient": "null/"}.get(baseline)
    if part is not None and f"{part}agreement" in tensors:
        agreement = tensors[f"{part}agreement"][:, client]
        frame["agreement"] = of_rounds(agreement, len(frame) // len(agreement))
    if part is None or f"{part}labels" not in tensors:
        return
    given = np.array(tensors[f"{part}labels"][:, client])
    known = secret[f"labels/{client}"][: len(given)]
    k = known.shape[1]
    chosen = frame["match"].to_numpy().reshape(known.shape)
    right = [labels_matched(g, t, i) for g, t, i in zip(given, known, chosen, strict=True)]
    frame["label_ok"] = np.concatenate(right).astype(float)
    overlap = [label_accuracy(g[g >= 0], t) for g, t in zip(given, known, strict=True)]
    frame["label_accuracy"] = np.repeat(overlap, k)
    lost = np.repeat(np.array(tensors[f"{part}diverged"][:, client]), k)
    frame.loc[lost, "status"] = "diverged"


def add_distance(frame: pd.DataFrame, tensors: Mapping[str, np.ndarray], client: int, baseline: str) -> None:
    """Add how far the reconstruction of each image is from the span of its update, if that is known."""
    part = {"": "", "random-gradient": "null/"}.get(baseline)
    if part is None or f"{part}span_distance" not in tensors:
        return
    distance = tensors[f"{part}span_distance"][:, client]
    chosen = frame["match"].to_numpy().reshape(len(distance), -1)
    found = np.take_along_axis(np.asarray(distance), np.maximum(chosen, 0), axis=1)
    frame["span_distance"] = np.where(chosen < 0, np.nan, found).reshape(-1)


def add_partners(
    frame: pd.DataFrame, tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int
) -> None:
    """Add a column for each way in which the attack matched updates of two passes."""
    whole = secret[f"images/{client}"]
    # An attacker who pools rounds has fewer reconstructions than there were rounds.
    index = whole[: len(frame) // whole.shape[1]]
    found = frame["match"].to_numpy().reshape(index.shape)
    for name in [name for name in tensors if name.startswith("partner")]:
        success = matching_success(tensors[name][:, client], found, index, secret["pass"][: len(index)])
        frame[name.replace("partner", "matching_success", 1)] = success.reshape(-1)


def add_prices(frame: pd.DataFrame, secret: Mapping[str, np.ndarray], client: int) -> None:
    """Add what the defence cost in each attacked round, and whether detectors raised an alarm."""
    k = secret[f"images/{client}"].shape[1]
    rounds = len(frame) // k
    given = {"accuracy": "accuracy", "update_bytes": f"bytes/{client}"}
    given |= {alarm.name: f"{alarm.name}/{client}" for alarm in ALARMS}
    for column, name in given.items():
        if name in secret:
            frame[column] = of_rounds(secret[name][:rounds], k)
