"""Sets in the files of MNIST: four files of the IDX format, which is a big-endian header, then raw bytes.

MNIST has digits (LeCun, Cortes, Burges 1998), Fashion-MNIST has articles of clothing (Xiao, Rasul, Vollgraf
2017). Both have 60,000 + 10,000 grey images of 28 x 28, and ten classes. Source of the format: LeCun's page
on MNIST.
"""

import gzip
import math
import struct
from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, parsing, present, reading

FILES = {
    "train/images": "train-images-idx3-ubyte",
    "train/labels": "train-labels-idx1-ubyte",
    "test/images": "t10k-images-idx3-ubyte",
    "test/labels": "t10k-labels-idx1-ubyte",
}
_UNSIGNED_BYTE = 0x08
# The most bytes of an unpacked file. No set of this kind comes near, and 8 MB of gzip can unpack to 8 GB.
MOST = 1 << 30


def read_idx(file: Path) -> np.ndarray:
    """Read one IDX file of unsigned bytes, plain or gzip by its ending."""
    with parsing(file, "a gzip file"), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        data = stream.read(MOST + 1)
    if len(data) > MOST:
        raise Damaged(file, f"more than {MOST} bytes")
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTE or len(data) < 4 + 4 * data[3]:
        raise Damaged(file, "no IDX header of unsigned bytes")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    body, size = len(data) - 4 - 4 * data[3], math.prod(shape)
    if body != size:
        raise Damaged(file, f"{body} bytes of the {size} that its header promises")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def idx(folder: Path, *, names: list[str]) -> Found:
    """Read the four files of `folder`: images uint8 [N, 28, 28, 1], labels int64 [N].

    names: the names of the classes, in the order of the labels.

    Raises Damaged if a file is missing or malformed.
    """
    tensors: dict[str, np.ndarray] = {}
    files: dict[str, Path] = {}
    for tensor, name in FILES.items():
        zipped = folder / f"{name}.gz"
        wanted = 3 if tensor.endswith("images") else 1
        with reading(tensor):
            file = zipped if zipped.is_file() and not (folder / name).is_file() else present(folder / name)
            array = read_idx(file)
            if array.ndim != wanted:
                raise Damaged(file, f"an array of {array.ndim} dimensions")
        tensors[tensor] = array[..., None] if wanted == 3 else array.astype(np.int64)
        files[tensor] = file
    return Found(tensors, files, names)
