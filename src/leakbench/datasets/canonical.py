"""The one form in which every data set is kept, wherever it came from, and the digests that pin it."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.base.errors import UserError
from leakbench.base.whole import file_digest


@dataclass(frozen=True)
class Found:
    """What a reader found in a folder.

    tensors: name → array. For each split that the data set has, `<split>/images` are uint8 [N, H, W, C]
        (0..255), and `<split>/labels` are int64 [N]. Data that are no pictures, such as points and records,
        are float32 images. `<split>/clients` int64 [N] give the client of each sample, where the data set
        names clients. Sets of words have labels [N, 25] and two more kinds of tensors (`words.arrays`).
        Third-party weights are float32 under their own names.
    files: tensor name → the file (or folder) it was read from, for messages.
    classes: class names in the order of the labels; empty if there are none.
    note: what was read, if that is not simply the whole official set.
    columns: the meaning of the values of records (`datasets.columns.columns_of`); empty for other data.
    """

    tensors: dict[str, np.ndarray]
    files: dict[str, Path]
    classes: list[str]
    note: str = ""
    columns: list[Any] = field(default_factory=list)


# Split → images, labels, and the file or folder that both were read from.
Splits = dict[str, tuple[np.ndarray, np.ndarray, Path]]


def of_splits(found: Splits, classes: list[str], note: str = "") -> Found:
    """Return what was found of images and labels."""
    tensors: dict[str, np.ndarray] = {}
    for split, (images, labels, _) in found.items():
        tensors |= {f"{split}/images": images, f"{split}/labels": labels}
    files = {name: found[name.partition("/")[0]][2] for name in tensors}
    return Found(tensors, files, classes, note)


class Damaged(Exception):
    """A file or folder of a data set is missing, cut short or altered.

    file: the file or folder.
    what: what was found in place of a whole file.
    tensor: the tensor that was being read, if one is known.
    expected: what was expected; if it is empty, `refusal` finds words for it.
    """

    def __init__(self, file: Path, what: str, tensor: str = "", expected: str = "") -> None:
        self.file, self.what, self.tensor, self.expected = file, what.replace("\n", " "), tensor, expected
        super().__init__(f"{file}: {self.what}")


@contextmanager
def parsing(file: Path, kind: str) -> Iterator[None]:
    """Raise Damaged for `file`, which should be `kind` (such as "a picture"), if the block cannot read it."""
    try:
        yield
    except (Damaged, UserError):
        raise
    # A library may raise any exception while it reads a file that was cut short, altered or forged.
    except Exception as problem:
        raise Damaged(file, f"{kind} that is cut short or altered: {problem}") from problem


@contextmanager
def reading(tensor: str) -> Iterator[None]:
    """Let a Damaged that the block raises name `tensor`, unless it names another."""
    try:
        yield
    except Damaged as damage:
        damage.tensor = damage.tensor or tensor
        raise


def present(file: Path) -> Path:
    """Return `file`, or raise Damaged if there is no such file."""
    if not file.is_file():
        raise Damaged(file, "no such file")
    return file


def digest(array: np.ndarray) -> str:
    """Return the sha256 of an array's dtype, shape and little-endian C-order bytes (all three count)."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    out = hashlib.sha256(f"{array.dtype.name} {tuple(array.shape)}\n".encode())
    out.update(plain.reshape(-1).view(np.uint8).data)
    return out.hexdigest()


def refusal(damage: Damaged, pinned: Mapping[str, str], shown: str, source: str) -> UserError:
    """Return the one-line refusal of a damaged file: file, expected digest, found digest, how to mend."""
    expected = damage.expected or (
        f"{damage.tensor} with sha256 {pinned[damage.tensor]}" if damage.tensor in pinned else "a whole file"
    )
    found = damage.what
    if damage.file.is_file() and "sha256" not in found and "md5" not in found:
        found += f" (file sha256 {file_digest(damage.file)})"
    return UserError(
        f"{shown}: expected {expected}, found {found} (from {source}: remove this copy and fetch again)"
    )


def within(folder: Path, file: Path) -> Path:
    """Return `file`. Raises Damaged if its name leads out of `folder`."""
    if not Path(os.path.abspath(file)).is_relative_to(os.path.abspath(folder)):
        raise Damaged(folder, f"the name {str(file)!r}, which leads out of the folder")
    return file


def _check(found: Found) -> None:
    """Raise Damaged for images or labels that no data set can have, whether or not they are pinned."""
    for name, labels in found.tensors.items():
        split, _, kind = name.partition("/")
        images = found.tensors.get(f"{split}/images")
        if kind != "labels" or images is None:
            continue
        if images.dtype not in (np.uint8, np.float32) or not len(images):
            raise Damaged(found.files[f"{split}/images"], f"{images.dtype} images {images.shape}")
        if labels.dtype != np.int64 or len(labels) != len(images):
            raise Damaged(found.files[name], f"{labels.dtype} labels {labels.shape} for {len(images)} images")
        most = len(found.classes)
        if labels.ndim == 1 and most and not 0 <= labels.min() <= labels.max() < most:
            raise Damaged(found.files[name], f"labels {labels.min()} to {labels.max()} of {most} classes")


def verify(found: Found, pinned: Mapping[str, str]) -> dict[str, str]:
    """Return tensor name → digest. Raises Damaged for one that is pinned otherwise or impossible."""
    _check(found)
    digests = {name: digest(array) for name, array in sorted(found.tensors.items())}
    for name, value in digests.items() if pinned else ():
        if name not in pinned:
            pinned_alone = "only the tensors pinned in the catalogue"
            raise Damaged(found.files[name], f"the tensor {name}", expected=pinned_alone)
        if value != pinned[name]:
            raise Damaged(found.files[name], f"sha256 {value}", name)
    return digests
