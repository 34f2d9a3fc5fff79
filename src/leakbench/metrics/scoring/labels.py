"""The rows of an attack on labels alone: one for each update."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from leakbench.base.artefacts import read_facts
from leakbench.metrics.baselines import LABEL_CONSTANT, LABEL_PRIOR, constant_labels
from leakbench.metrics.labels import label_accuracy, label_counts, label_presence
from leakbench.metrics.scoring.truths import Truths


def label_rows(
    tensors: Mapping[str, np.ndarray], truths: Truths, client: int, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    """Yield the rows of the labels inferred of one client, and of each null baseline."""
    secret = truths.secret
    truth = np.array(secret[f"labels/{client}"])
    rounds, k = truth.shape
    split = "train" if "train/labels" in truths.arrays else truths.facts["split"]
    known = np.array(truths.arrays[f"{split}/labels"])
    classes = int(read_facts(truths.victim)["network"]["classes"])
    shares = np.bincount(known, minlength=classes) / len(known)
    constant = constant_labels(shares, k)
    for baseline, guesses in {
        "": np.array(tensors["labels"][:, client, :k]),
        "random-gradient": np.array(tensors["null/labels"][:, client, :k]),
        LABEL_PRIOR: rng.choice(classes, (rounds, k), p=shares),
        LABEL_CONSTANT: np.broadcast_to(constant, (rounds, k)),
    }.items():
        count = len(guesses)
        pairs = list(zip(guesses, truth, strict=False))
        yield pd.DataFrame({
            "checkpoint": secret["checkpoint"][:count], "pass": secret["pass"][:count],
            "round": np.arange(count), "client": client, "local_samples": k, "sample": 0,
            "image": secret[f"images/{client}"][:count, 0], "baseline": baseline, "usable": k,
            "status": "ok", "iterations": 0, "label_accuracy": [label_accuracy(g, t) for g, t in pairs],
            "label_presence": [label_presence(g, t, classes) for g, t in pairs],
            "label_counts": [label_counts(g, t, classes) for g, t in pairs],
        })  # fmt: skip
