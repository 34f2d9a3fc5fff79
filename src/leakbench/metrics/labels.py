"""How many private labels an attack inferred."""

import numpy as np

from leakbench.metrics.metric import Metric


def label_accuracy(guesses: np.ndarray, truths: np.ndarray) -> float:
    """Return the share of the k private labels that the guesses cover, whatever their order, in [0, 1].

    Both are integer vectors (n guesses, k labels). The overlap of the two multisets, divided by k: the
    largest number of labels that any permutation of the guesses gets right. NaN if k = 0.
    """
    guesses, truths = np.ravel(guesses), np.ravel(truths)
    if truths.size == 0:
        return float("nan")
    labels, counts = np.unique(truths, return_counts=True)
    guessed = (guesses[:, None] == labels[None, :]).sum(axis=0)
    return float(np.minimum(guessed, counts).sum() / truths.size)


def labels_matched(guesses: np.ndarray, truths: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return bool [k]: is the guess of the reconstruction matched to each image (`matching.match`) its label.

    An image without a reconstruction (index -1) has no guess, which is wrong.
    """
    guesses, truths, index = np.ravel(guesses), np.ravel(truths), np.ravel(index)
    if truths.shape != index.shape:
        raise ValueError(f"{truths.size} labels but {index.size} matched indices")
    right = np.zeros(truths.shape, dtype=bool)
    matched = index >= 0
    right[matched] = guesses[index[matched]] == truths[matched]
    return right


METRICS = (
    Metric("label_ok", labels_matched, "standard", higher_is_better=True, of="updates"),
    Metric("label_accuracy", label_accuracy, "standard", higher_is_better=True, of="updates"),
)
