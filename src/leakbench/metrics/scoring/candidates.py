"""Reconstructions beside the truth: which private image each one is matched to, and how good it is."""

from dataclasses import dataclass, replace

import numpy as np

from leakbench.metrics import measure
from leakbench.metrics.baselines import blank
from leakbench.metrics.matching import best, match
from leakbench.metrics.mse import mse_matrix
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.metrics.scoring.resources import Resources
from leakbench.metrics.text import agreement
from leakbench.metrics.updates import false_accepted

# Few enough values to stay in a processor's cache from one pass over them to the next.
WORKING_FLOATS = 1_000_000


@dataclass
class Candidates:
    """Reconstructions [rounds, n, …] of a client or a `baseline`, usable or not, and their gap."""

    images: np.ndarray
    usable: np.ndarray
    baseline: str = ""
    iterations: int = 0
    gap: np.ndarray | None = None


@dataclass(frozen=True)
class Measures:
    """An attack's metrics, and how candidates are matched with its target (`best` or `hungarian`)."""

    names: list[str]
    resources: Resources
    matching: str
    target: str


def _matched(candidates: Candidates, truth: np.ndarray, by: Measures) -> dict[str, np.ndarray]:
    """Match candidates [rounds, n, …] with truths [rounds, k, …]: images by error, features by r."""
    rounds, k = truth.shape[:2]
    n, width = candidates.images.shape[1], truth[0, 0].size
    out = {
        "match": np.empty((rounds, k), np.int64),
        "pearson": np.empty((rounds, k)),
        "neurons": np.empty((rounds, k), np.int64),
        "false_accepted": np.empty((rounds, k), np.int64),
    }
    step = max(1, WORKING_FLOATS // max(1, n * width))
    for start in range(0, rounds, step):
        part = slice(start, start + step)
        guess = np.asarray(candidates.images[part]).reshape(-1, n, width)
        true = truth[part].reshape(-1, k, width)
        # Of sentences the share of equal tokens takes the place of r, because numbers of tokens are names.
        tokens = by.resources.fixed.get("vocabulary")
        r = agreement(guess, true, tokens) if tokens else pearson_matrix(guess, true).astype(np.float64)
        out["neurons"][part] = (r >= THRESHOLD).sum(-2)
        out["false_accepted"][part] = false_accepted(r, candidates.usable[part], THRESHOLD)[:, None]
        r[~candidates.usable[part]] = np.nan
        if by.matching == "best":
            out["match"][part], out["pearson"][part] = best(r)
            continue
        for row in range(start, min(start + step, rounds)):
            cost = (
                mse_matrix(np.asarray(candidates.images[row]), truth[row])
                if by.target == "images" and "vocabulary" not in by.resources.fixed
                else -r[row - start]
            )
            cost[~candidates.usable[row]] = np.nan
            index = match(cost)
            index[[i >= 0 and not candidates.usable[row, i] for i in index]] = -1
            out["match"][row] = index
            out["pearson"][row] = np.where(index >= 0, r[row - start, index, np.arange(k)], np.nan)
    return out


def rows_of(
    candidates: Candidates, truth: np.ndarray, pixels: np.ndarray, by: Measures,
    labels: np.ndarray | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return one value per private image, flattened over rounds × samples, for matching and metrics."""
    # A candidate with a value that is not finite is no image: it is a failure and enters no mean.
    finite = np.isfinite(candidates.images).reshape(*candidates.usable.shape, -1).all(-1)
    candidates = replace(candidates, usable=candidates.usable & finite)
    found = _matched(candidates, truth, by)
    index = found["match"]
    nothing = index < 0
    out = {name: value.reshape(-1) for name, value in found.items()}
    out["pearson"] = np.where(np.isnan(out["pearson"]), 0.0, out["pearson"])
    out["status"] = np.where(nothing.reshape(-1), "nothing", "ok")
    out["usable"] = np.repeat(candidates.usable.sum(1), truth.shape[1])
    others = [name for name in by.names if name != "pearson"]
    if others:
        images = np.take_along_axis(
            np.asarray(candidates.images), np.maximum(index, 0)[(..., *[None] * (truth.ndim - 2))], axis=1
        )
        images = np.where(nothing[(..., *[None] * (truth.ndim - 2))], blank(truth.shape[2:]), images)
        flat = images.reshape(-1, *truth.shape[2:]).astype(np.float32)
        needs = by.resources.of(flat, None if labels is None else labels.reshape(-1))
        out |= measure(others, flat, pixels.reshape(-1, *pixels.shape[2:]), needs)
    return out
