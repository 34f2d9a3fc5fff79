"""Null baselines: images of an attacker who saw no update. An attack that does no better learnt nothing."""

from collections.abc import Sequence

import numpy as np

from leakbench.records import Column

# Not a baseline but kept under one's column: what an attack had on the way.
SNAPSHOT = "snapshot"
# The mean image of what is publicly known of the data set.
DATASET_MEAN = "dataset-mean"
# Of records: the median of each number, and of each category the most frequent one.
TYPICAL = "typical-record"
# What the attack made of another update: whoever shows what it knows beforehand does no better than this, and
# it has no null run to be told from.
OTHER_UPDATE = "other-update"
# Two private images of the same data set: what a published convention says of images that have nothing to do
# with each other. With 64 pairs the standard error of their mean wrap-around PSNR on CIFAR-10 is 0.02 dB.
UNRELATED, PAIRS = "unrelated-image", 64
# The private images in place of reconstructions: what a judge could tell at best.
ORIGINAL = "original"
# The attack's own result beside what the client trained on in place of its images, as a defence made it.
TRANSFORMED = "transformed"
# No guess, but what a defence certifies that none exceeds (`leakbench.certificate`).
CERTIFIED = "certified"
# No guess either, but what a closed form says of a malicious server's weights (`leakbench.servers`).
EXPECTED = "expected"

# Labels drawn from the shares of the classes in public data; and one answer for all updates that has these
# shares. Of all constant answers to updates whose skew is not known it is expected to score best.
LABEL_PRIOR, LABEL_CONSTANT = "label-prior", "label-constant"


def constant_labels(shares: np.ndarray, count: int) -> np.ndarray:
    """Return `count` labels, ascending, in the proportions `shares` [classes] (largest remainders)."""
    ideal = count * np.asarray(shares, np.float64)
    counts = np.floor(ideal).astype(np.int64)
    counts[np.argsort(counts - ideal, kind="stable")[: count - counts.sum()]] += 1
    return np.repeat(np.arange(len(counts)), counts)


def random_noise(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return independent uniform noise in [0, 1), float32 of `shape` ([N, C, H, W])."""
    return rng.random(shape, dtype=np.float32)


def dataset_mean(train_images: np.ndarray) -> np.ndarray:
    """Return the mean of the training images [N, C, H, W] as one image, float32 [C, H, W] in [0, 1].

    uint8 images are read as 0..255. Of all guesses that ignore the update it has the least expected squared
    error.
    """
    images = np.asarray(train_images)
    if not len(images):
        raise ValueError("the mean of no images does not exist")
    mean = images.mean(axis=0, dtype=np.float64)
    return (mean / 255.0 if images.dtype == np.uint8 else mean).astype(np.float32)


def typical_record(train_records: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """Return the record of the training records' medians and modes, float32 [width], of [N, width] in [0, 1].

    It is what an attacker guesses who knows the public statistics of each column and saw no update.
    """
    out = np.zeros(train_records.shape[1], np.float32)
    for column in columns:
        part = train_records[:, column.place]
        if column.values:
            out[column.place.start + part.sum(0).argmax()] = 1
        else:
            out[column.place] = np.median(part)
    return out


def blank(shape: tuple[int, ...]) -> np.ndarray:
    """Return mid-grey, float32 of `shape`: what a diverged trial, having no image to show, is scored as."""
    return np.full(shape, 0.5, dtype=np.float32)


def unrelated_pairs(count: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Return `pairs` pairs of two different ones of `count` images, by index, int64 [pairs, 2].

    Every ordered pair is as likely as any other, and may come twice. Raises ValueError for fewer than two
    images.
    """
    if count < 2:
        raise ValueError(f"{count} images make no pair of different ones")
    first = rng.integers(0, count, pairs)
    other = rng.integers(0, count - 1, pairs)
    return np.stack([first, other + (other >= first)], axis=1)
