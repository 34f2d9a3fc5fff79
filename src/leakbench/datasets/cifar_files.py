"""The file formats of CIFAR-10 and CIFAR-100, read as RGB images of 32 x 32, uint8 [N, 32, 32, 3]."""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged
from leakbench.datasets.pictures import opened
from leakbench.datasets.unpickle import read_pickle

_PIXELS = 32 * 32


def _from_planes(rows: np.ndarray) -> np.ndarray:
    """Turn rows of 3,072 bytes (red plane, green plane, blue plane) into images."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def read_python(file: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a batch of the official Python version: (images, labels int64 [N]).

    `key` is the name of the labels in the batch, such as `fine_labels`. Raises Damaged if `file` holds no
    such batch.
    """
    batch = read_pickle(file)
    data = batch.get("data") if isinstance(batch, dict) else None
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != 3 * _PIXELS
    ):
        raise Damaged(file, "a batch without rows of 3,072 bytes")
    labels = batch.get(key)
    if (
        not isinstance(labels, list)
        or len(labels) != len(data)
        or not all(isinstance(n, int) for n in labels)
    ):
        raise Damaged(file, f"a batch without '{key}' for each of its {len(data)} images")
    return _from_planes(data), np.asarray(labels, np.int64)


def read_binary(file: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a file of the official binary version: (images, labels int64 [N]).

    `label_bytes` is the number of label bytes before each image, of which the last is the class. CIFAR-10
    has one; CIFAR-100 has two, the coarse and the fine label. Raises Damaged if `file` has another length.
    """
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
