"""The pictures that an experiment shows, chosen by a stated rule and never by eye."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts, open_tensors, whole
from leakbench.base.cellname import CELL
from leakbench.base.pixels import pixels
from leakbench.catalogue.cell import Cell
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.metrics.scoring.truths import aim_at

if TYPE_CHECKING:
    from leakbench.catalogue.experiment import Exhibit

Pane = tuple[Facts, dict[str, np.ndarray]]
TENSORS = ("truth", "guess", "usable", "sample", "score")


def _correlation(guess: np.ndarray, truth: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each guess [n, …] the sample it resembles most, and its r."""
    r = pearson_matrix(guess.reshape(len(guess), -1), truth.reshape(len(truth), -1))
    sample, value = r.argmax(-1), r.max(-1)
    return np.where(usable, sample, -1), np.where(usable, value, 0).astype(np.float32)


class Files(NamedTuple):
    """The files of one cell from which its pictures are taken."""

    guesses: Path  # what the attack reconstructed
    truth: Path  # the private side of the capture
    victim: Path
    data: Path


def opened(path: Path) -> tuple[dict[str, np.ndarray], Facts]:
    found = open_tensors(path)
    whole(path)
    return found


def in_bytes(name: str, array: np.ndarray) -> np.ndarray:
    """Return a panel's images in 8 bits, which is what a figure shows, if they lie in [0, 1]."""
    shown = name.endswith(("/truth", "/guess")) and array.size and array.min() >= 0 and array.max() <= 1
    return np.rint(255 * array).astype(np.uint8) if shown else array


def panel_of(cell: Cell, files: Files, scored: pd.DataFrame, shown: "Exhibit", client: int) -> Pane:
    """Return the pictures of a client of one cell: their description and their tensors."""
    # The tensors are truth [k, C, H, W] in [0, 1], guess [m, C, H, W] as reconstructed, usable [m], sample
    # [m] and score [m] (r). With the target features, a guess is one channel of one reconstruction.
    tensors, facts = opened(files.guesses)
    secret, about = opened(files.truth)
    arrays, _ = opened(files.data)
    count, rule = shown.reconstructions, shown.rule
    index = secret[f"images/{client}"]
    rounds = min(shown.rounds, len(index), len(tensors["images"]))
    chosen = np.array(arrays[f"{about['split']}/images"])[index[:rounds]]
    truth = pixels(chosen)
    aim = np.stack([aim_at(facts["target"], images, files.victim) for images in chosen])
    guess = np.array(tensors["images"][:rounds, client])
    usable = np.array(tensors["usable"][:rounds, client])
    panel = {
        **{name: getattr(cell, name) for name in CELL},
        "checkpoint": int(secret["checkpoint"][0]), "local_samples": int(index.shape[1]), "rule": rule,
        "target": facts["target"], "metric": "pearson", "knows": facts["knows"],
    }  # fmt: skip
    if rule in ("matched", "worst-median-best"):
        own = (scored["baseline"] == "") & (scored["client"] == client) & (scored["round"] < rounds)
        rows = scored[own]
        if rule == "worst-median-best":
            rows = rows.sort_values("pearson", kind="stable").iloc[[0, len(rows) // 2, len(rows) - 1]]
        # A column with lines that have no match, such as those of a certified bound, is read as fractions.
        turn, match = (rows[name].to_numpy(np.int64) for name in ("round", "match"))
        truth, guess = truth[turn, rows["sample"].to_numpy()], guess[turn, np.maximum(match, 0)]
        usable, sample = match >= 0, np.arange(len(rows))
        score = rows["pearson"].to_numpy().astype(np.float32)
        return panel, dict(zip(TENSORS, (truth, guess, usable, sample, score), strict=True))
    truth, guess, usable = truth[0], guess[0], usable[0]
    sample, score = _correlation(guess, aim[0], usable)
    order = np.arange(len(score))
    if rule == "usable":
        order = order[usable]
    elif rule == "best":
        order = np.argsort(-score, kind="stable")
    elif rule == "faintest":
        order = np.argsort(score, kind="stable")
        order = order[score[order] >= THRESHOLD]
    if facts["target"] == "features":
        alive = order[usable[order]]
        # An update that reached no neuron still has a panel: its first neuron, which is dead.
        neuron = alive[:1] if len(alive) else np.array([0])
        guess = guess[neuron][0][:count, None]
        truths = aim[0][max(int(sample[neuron][0]), 0)][:count, None]
        r = np.diag(pearson_matrix(guess.reshape(len(guess), -1), truths.reshape(len(truths), -1)))
        usable, sample = (np.repeat(each[neuron], len(guess)) for each in (usable, sample))
        chosen = truth, guess, usable, sample, r.astype(np.float32)
        return panel | {"neuron": int(neuron[0])}, dict(zip(TENSORS, chosen, strict=True))
    first = (each[order[:count]] for each in (guess, usable, sample, score))
    return panel, dict(zip(TENSORS, (truth, *first), strict=True))
