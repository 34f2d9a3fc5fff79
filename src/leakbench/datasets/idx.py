"""The IDX format of MNIST and Fashion-MNIST: big-endian header, then raw bytes (LeCun, the MNIST page)."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.official import download

FILES = {
    "train/images": "train-images-idx3-ubyte",
    "train/labels": "train-labels-idx1-ubyte",
    "test/images": "t10k-images-idx3-ubyte",
    "test/labels": "t10k-labels-idx1-ubyte",
}
_UNSIGNED_BYTE = 0x08


def read_idx(file: Path) -> np.ndarray:
    """Read one IDX file of unsigned bytes, plain or gzip (told by its name): uint8 of the shape in its
    header.

    Raises Damaged if it is cut short, too long, not gzip, or of another element type.
    """
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (EOFError, zlib.error) as problem:
        raise Damaged(file, "a gzip file that is cut short or altered") from problem
    except gzip.BadGzipFile as problem:
        raise Damaged(file, "a file that is not gzip or altered") from problem
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTE or len(data) < 4 + 4 * data[3]:
        raise Damaged(file, "no IDX header of unsigned bytes")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    body, size = len(data) - 4 - 4 * data[3], math.prod(shape)
    if body != size:
        raise Damaged(file, f"{body} bytes of the {size} that its header promises")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def place(folder: Path, layouts: Sequence[str]) -> Path | None:
    """Return the first of `layouts` (relative folders) that holds any of the four files, plain or gzip."""
    for layout in layouts:
        if any(
            (folder / layout / f"{name}{end}").is_file() for name in FILES.values() for end in ("", ".gz")
        ):
            return folder / layout
    return None


def read_four(folder: Path, classes: list[str]) -> Found:
    """Read the four files of `folder`: images uint8 [N, 28, 28, 1], labels int64 [N]. Raises Damaged."""
    tensors: dict[str, np.ndarray] = {}
    files: dict[str, Path] = {}
    for tensor, name in FILES.items():
        file = folder / name if (folder / name).is_file() else folder / f"{name}.gz"
        if not file.is_file():
            raise Damaged(folder / name, "no such file", tensor)
        try:
            array = read_idx(file)
        except Damaged as damage:
            raise Damaged(file, damage.what, tensor) from damage
        wanted = 3 if tensor.endswith("images") else 1
        if array.ndim != wanted:
            raise Damaged(file, f"an array of {array.ndim} dimensions", tensor)
        tensors[tensor] = array[..., None] if wanted == 3 else array.astype(np.int64)
        files[tensor] = file
    return Found(tensors, files, classes)


def download_four(dataset: Any, folder: Path) -> None:
    """Download the files of a torchvision MNIST-like class into `folder`. Raises Unavailable or Damaged."""
    for name, md5 in dataset.resources:
        download([f"{mirror}{name}" for mirror in dataset.mirrors], folder, name, md5)
