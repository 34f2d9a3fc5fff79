"""ORL faces (Samaria and Harter 1994, AT&T Laboratories Cambridge): 40 people, ten grey images of 112 x 92
each.

The set has no official split. Here images 1 to 8 of each person are `train`, 9 and 10 are `test`.
"""

import re
from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, present, reading

PEOPLE, IMAGES, TRAIN, ROWS, COLUMNS = 40, 10, 8, 112, 92
_HEADER = re.compile(rb"P5\s+(\d+)\s+(\d+)\s+255\n")


def orl(folder: Path) -> Found:
    """Read the 400 files of `folder`: images uint8 [N, 112, 92, 1], labels int64 [N] in 0..39."""
    faces = np.empty((PEOPLE, IMAGES, ROWS, COLUMNS, 1), np.uint8)
    for person, image in np.ndindex(PEOPLE, IMAGES):
        with reading("train/images" if image < TRAIN else "test/images"):
            file = present(folder / f"s{person + 1}" / f"{image + 1}.pgm")
            faces[person, image, ..., 0] = read_face(file)
    labels = np.repeat(np.arange(PEOPLE, dtype=np.int64)[:, None], IMAGES, 1)
    found: Splits = {
        split: (faces[:, part].reshape(-1, ROWS, COLUMNS, 1), labels[:, part].reshape(-1), folder)
        for split, part in {"train": slice(None, TRAIN), "test": slice(TRAIN, None)}.items()
    }
    return of_splits(found, [f"s{person + 1}" for person in range(PEOPLE)])


def read_face(file: Path) -> np.ndarray:
    """Read one PGM, uint8 [112, 92], and undo a line-end conversion if the file went through one."""
    # In 152 of the package's 400 files a carriage return stands before every line feed; the length says how
    # many were put in. Two images have a pair of their own. To keep a wrong one moves a part of the image by
    # a pixel, so that its rows differ more.
    data = file.read_bytes()
    if not data.startswith(b"P5\r\n"):
        return _pixels(file, data)
    whole = len(b"P5\n92 112\n255\n") + ROWS * COLUMNS
    pieces = data.split(b"\r\n")
    own = (len(pieces) - 1) - (len(data) - whole)
    if own == 0:
        return _pixels(file, b"\n".join(pieces))
    if own != 1:
        raise Damaged(file, f"{len(data)} bytes whose line ends cannot be restored")
    choices = [b"\n".join(pieces[:n]) + b"\r\n" + b"\n".join(pieces[n:]) for n in range(4, len(pieces))]
    images = [_pixels(file, choice) for choice in choices]
    return min(images, key=lambda image: int(np.abs(np.diff(image.astype(np.int64), axis=0)).sum()))


def _pixels(file: Path, data: bytes) -> np.ndarray:
    header = _HEADER.match(data)
    if header is None or (int(header[1]), int(header[2])) != (COLUMNS, ROWS):
        raise Damaged(file, f"no header of a grey {COLUMNS} x {ROWS} picture")
    body = data[header.end() :]
    if len(body) != ROWS * COLUMNS:
        raise Damaged(file, f"{len(body)} pixels of {ROWS * COLUMNS}")
    return np.frombuffer(body, np.uint8).reshape(ROWS, COLUMNS)
