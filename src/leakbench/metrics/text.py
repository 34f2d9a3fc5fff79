"""How much of a sentence was recovered: tokens at their places, the whole sentence, and runs of tokens."""

from collections import Counter

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric


def numbers(sentences: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return the tokens int64 [..., length] of sentences [..., 1, 1, length], shares of a vocabulary."""
    found = np.rint(np.asarray(sentences, np.float64)[..., 0, 0, :] * vocabulary)
    return np.asarray(found.clip(0, vocabulary - 1), np.int64)


def agreement(guesses: np.ndarray, truths: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return the share of equal tokens of each pair of [..., n, length] and [..., m, length], [..., n, m]."""
    a, b = (numbers(each[..., None, None, :], vocabulary) for each in (guesses, truths))
    return np.asarray((a[..., :, None, :] == b[..., None, :, :]).mean(-1))


def token_accuracy(reconstructions: np.ndarray, truths: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return the share of tokens that are right at their place, float64 [N]; sentences [N, 1, 1, length]."""
    guessed, true = (numbers(each, vocabulary) for each in pair(reconstructions, truths))
    return np.asarray((guessed == true).mean(1))


def exact_sentence(reconstructions: np.ndarray, truths: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return 1 where every token is right at its place, else 0, float64 [N]."""
    return np.asarray(token_accuracy(reconstructions, truths, vocabulary) == 1, np.float64)


def rouge_1(reconstructions: np.ndarray, truths: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return ROUGE-1 of tokens, float64 [N]: the share of tokens that both sentences have."""
    return _rouge(reconstructions, truths, vocabulary, 1)


def rouge_2(reconstructions: np.ndarray, truths: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return ROUGE-2 of tokens, float64 [N]: the share of neighbours that both sentences have."""
    return _rouge(reconstructions, truths, vocabulary, 2)


def _rouge(reconstructions: np.ndarray, truths: np.ndarray, vocabulary: int, size: int) -> np.ndarray:
    """Return the F measure of runs of `size` tokens, of equally many in both sentences: their recall."""
    out = []
    guesses, wanted = (numbers(each, vocabulary).tolist() for each in pair(reconstructions, truths))
    for both in zip(guesses, wanted, strict=True):
        guessed, true = (Counter(zip(*(row[i:] for i in range(size)), strict=False)) for row in both)
        out.append((guessed & true).total() / true.total())
    return np.array(out, np.float64)


METRICS = (
    Metric("token_accuracy", token_accuracy, "standard", higher_is_better=True, needs=("vocabulary",)),
    Metric("exact_sentence", exact_sentence, "standard", higher_is_better=True, needs=("vocabulary",)),
    Metric("rouge_1", rouge_1, "standard", higher_is_better=True, needs=("vocabulary",)),
    Metric("rouge_2", rouge_2, "standard", higher_is_better=True, needs=("vocabulary",)),
)
