"""Folders of JPEG or PNG files, one picture each, and the lists that say what they show."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakbench.datasets.canonical import Damaged, parsing

if TYPE_CHECKING:
    from PIL import Image


# The most pixels of a picture. No data set here comes near, and a file of 500 KB can ask for a gigabyte.
MOST = 1 << 26


def opened(file: Path) -> "Image.Image":
    """Return the picture in a JPEG or PNG file, read whole. Raises Damaged for any other or one too large."""
    from PIL import Image

    # Whatever the file's name is, other formats are refused, because Pillow hands some to other programs.
    with parsing(file, "a picture"), Image.open(file, formats=("JPEG", "PNG")) as picture:
        if picture.width * picture.height > MOST:
            raise Damaged(file, f"a picture of {picture.width}×{picture.height} pixels")
        picture.load()
        return picture


def read_picture(file: Path, resize: int, crop: int | None = None) -> np.ndarray:
    """Read a picture as RGB uint8 [size, size, 3], scaled (bilinear, antialiased)."""
    from PIL import Image

    image = opened(file).convert("RGB")
    if crop is None:
        return np.asarray(image.resize((resize, resize), Image.Resampling.BILINEAR))
    short = min(image.size)
    width, height = (round(side * resize / short) for side in image.size)
    if width * height > MOST:
        raise Damaged(file, f"a picture of {image.width}×{image.height} pixels")
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - crop) // 2, (height - crop) // 2
    return np.asarray(image.crop((left, top, left + crop, top + crop)))


def read_pictures(
    labelled: Sequence[tuple[Path, int]], resize: int, crop: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures uint8 [N, size, size, 3], each as `read_picture` reads it, and labels int64 [N]."""
    size = crop or resize
    images, labels = np.empty((len(labelled), size, size, 3), np.uint8), np.empty(len(labelled), np.int64)
    for number, (file, label) in enumerate(labelled):
        images[number], labels[number] = read_picture(file, resize, crop), label
    return images, labels


def scaled(images: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Scale images uint8 [N, H, W, C] to `shape`, bilinear, antialiased; grey ones get equal channels."""
    from PIL import Image

    rows, columns, channels = shape
    if images.shape[3] not in (1, channels):
        raise ValueError(f"{images.shape[3]} channels cannot become {channels}")
    out = np.empty((len(images), *shape), np.uint8)
    for number, image in enumerate(images):
        small = Image.fromarray(image.squeeze()).resize((columns, rows), Image.Resampling.BILINEAR)
        out[number] = np.asarray(small).reshape(rows, columns, -1)
    return out


def read_list(file: Path, columns: set[str], quoting: int = csv.QUOTE_MINIMAL) -> list[dict[str, str]]:
    """Read a tab-separated list in UTF-8 with a header row: column → value for each row."""
    with parsing(file, "a list"), file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=quoting))  # type: ignore[call-overload]
    lacking = sorted(columns - set(rows[0] if rows else {}))
    if lacking or any(None in row.values() for row in rows):
        raise Damaged(file, f"a list without {', '.join(lacking) or 'a value in every column'}")
    return rows


def pictures_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
