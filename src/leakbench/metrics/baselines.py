"""Null baselines: the guesses of an attacker who saw no update, and learns nothing if it is no better."""

from collections.abc import Sequence

import numpy as np

from leakbench.datasets.columns import Column

# Not a baseline, but stored in the column `baseline`: an intermediate reconstruction of the attack.
SNAPSHOT = "snapshot"
# The mean image of what is publicly known of the data set.
DATASET_MEAN = "dataset-mean"
# Of tabular records: the median of each number and the most frequent value of each category. Of text: the
# most frequent token of each place.
TYPICAL = "typical-record"
# Of text: the sentence of the most frequent tokens, from the most frequent one on, and as a set of tokens as
# many as an update has.
FREQUENT = "frequent-tokens"
# Of tokens at their places: the tokens of the update at random places.
SHUFFLED = "shuffled-tokens"
# The attack's reconstruction from another update. An attack that only returns its prior knowledge is no
# better than this baseline, and no null run tells such an attack apart.
OTHER_UPDATE = "other-update"
# Two different private images of one data set: what a published convention gives for unrelated images. With
# 64 pairs, the standard error of their mean wrap-around PSNR on CIFAR-10 is 0.02 dB.
UNRELATED, PAIRS = "unrelated-image", 64
# The private images in place of reconstructions: the best that a judge could score.
ORIGINAL = "original"
# The attack's own result, compared with the images that a defence made the client train on instead of its
# private ones.
TRANSFORMED = "transformed"
# Not a guess: the bound that a defence certifies for every attacker (`leakbench.defences.certification`).
CERTIFIED = "certified"
# Not a guess either: what a closed form expects of the weights of a malicious server (`federation.servers`).
EXPECTED = "expected"

# Labels drawn from the class shares of public data, and one constant answer for all updates that has these
# shares. Of all constant answers to updates of unknown skew, the second is expected to score best.
LABEL_PRIOR, LABEL_CONSTANT = "label-prior", "label-constant"

# What a reader sees in the place of each name. The order gives each its marker in figures.
WORDS = {
    "random-gradient": "null: a random gradient attacked",
    "random-noise": "null: random noise",
    "dataset-mean": "null: the data set's mean image",
    "typical-record": "null: medians and most frequent categories",
    "other-update": "null: what it made of another update",
    "unrelated-image": "null: two unrelated images",
    "label-prior": "null: labels drawn at random",
    "label-constant": "null: the same labels always",
    "original": "the private images themselves",
    "transformed": "compared with the transformed image",
    "certified": "certified bound γ on any attacker",
    "expected": "expected by the closed form",
    "frequent-tokens": "null: the most frequent tokens",
    "shuffled-tokens": "null: the update's tokens at random places",
}
# Nulls that need no update; a number that one of them gives as well says little.
CONSTANTS = (LABEL_CONSTANT, LABEL_PRIOR, UNRELATED)
# The other nulls: a successful attack is better than each of them.
NULLS = tuple(name for name, said in WORDS.items() if said.startswith("null: ") and name not in CONSTANTS)


def constant_labels(shares: np.ndarray, count: int) -> np.ndarray:
    """Return `count` labels, ascending, in the proportions `shares` [classes] (largest remainders), int64."""
    ideal = count * np.asarray(shares, np.float64)
    counts = np.floor(ideal).astype(np.int64)
    counts[np.argsort(counts - ideal, kind="stable")[: count - counts.sum()]] += 1
    return np.repeat(np.arange(len(counts)), counts)


def random_noise(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return independent uniform noise in [0, 1), float32 of `shape` ([N, C, H, W])."""
    return rng.random(shape, dtype=np.float32)


def dataset_mean(train_images: np.ndarray) -> np.ndarray:
    """Return the mean of training images [N, …], uint8 or in [0, 1], as one image, float32 in [0, 1]."""
    images = np.asarray(train_images)
    if not len(images):
        raise ValueError("the mean of no images does not exist")
    # No other guess that ignores the update has a smaller expected squared error.
    mean = images.mean(axis=0, dtype=np.float64)
    return (mean / 255.0 if images.dtype == np.uint8 else mean).astype(np.float32)


def typical_record(train_records: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Return the record of the medians and modes of training records, float32 [width]."""
    out = np.zeros(train_records.shape[1], np.float32)
    for column in columns:
        part = train_records[:, column.place]
        if column.values:
            out[column.place.start + part.sum(0).argmax()] = 1
        else:
            out[column.place] = np.median(part)
    return out


def blank(shape: tuple[int, ...]) -> np.ndarray:
    """Return a mid-grey image, float32 of `shape`, as which a diverged trial is scored."""
    return np.full(shape, 0.5, dtype=np.float32)


def unrelated_pairs(count: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `pairs` pairs of different images out of `count`, by index, int64 [pairs, 2]."""
    if count < 2:
        raise ValueError(f"{count} images make no pair of different ones")
    first = rng.integers(0, count, pairs)
    other = rng.integers(0, count - 1, pairs)
    return np.stack([first, other + (other >= first)], axis=1)
