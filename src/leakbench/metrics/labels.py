"""How many private labels an attack inferred."""

import numpy as np

from leakbench.metrics.metric import Metric


def label_accuracy(guesses: np.ndarray, truths: np.ndarray) -> float:
    """Return the share of the private labels that the guesses cover, whatever their order, in [0, 1].

    The share is the overlap of the two multisets, divided by k: the largest number of labels that any
    permutation of the guesses gets right (IRec of iLRG). It is NaN if k = 0.
    """
    guesses, truths = np.ravel(guesses), np.ravel(truths)
    if truths.size == 0:
        return float("nan")
    labels, counts = np.unique(truths, return_counts=True)
    guessed = (guesses[:, None] == labels[None, :]).sum(axis=0)
    return float(np.minimum(guessed, counts).sum() / truths.size)


def label_presence(guesses: np.ndarray, truths: np.ndarray, classes: int) -> float:
    """Return the share of classes whose presence is guessed rightly (LeAcc of iLRG), in [0, 1].

    With few labels most classes are absent, so that an attack that guesses nothing scores highly.
    """
    given, true = (_counts(each, classes) > 0 for each in (guesses, truths))
    return float((given == true).mean())


def label_counts(guesses: np.ndarray, truths: np.ndarray, classes: int) -> float:
    """Return the share of classes whose number of labels is guessed rightly (LnAcc of iLRG), in [0, 1]."""
    given, true = (_counts(each, classes) for each in (guesses, truths))
    return float((given == true).mean())


def _counts(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return how many labels each class has, int64 [classes], without those of no class, such as -1."""
    flat = np.ravel(labels)
    return np.bincount(flat[(flat >= 0) & (flat < classes)], minlength=classes)


def labels_matched(guesses: np.ndarray, truths: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return whether the label guessed for each image's reconstruction is right, bool [k]."""
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
    Metric("label_presence", label_presence, "standard", higher_is_better=True, of="updates"),
    Metric("label_counts", label_counts, "standard", higher_is_better=True, of="updates"),
)
