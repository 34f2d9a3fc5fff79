"""The one form in which a data set is kept, whatever brought it, and the digests that pin it."""

import hashlib
import pickle
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakbench.artefacts import file_digest
from leakbench.errors import UserError


@dataclass(frozen=True)
class Found:
    """What a reader found in a folder.

    tensors: `train/images`, `test/images` uint8 [N, H, W, C] (0..255) and `train/labels`, `test/labels`
        int64 [N], as far as the data set has these splits; what is no picture, such as points, is float32,
        and `train/clients`, `test/clients` int64 [N] say whose each is, where the data set does; third-party
        weights are float32 under their own names.
    files: tensor name → the file (or folder) it was read from, for messages.
    classes: class names in the order of the labels; empty if there are none.
    note: what was read, if that is not simply the whole official set.
    """

    tensors: dict[str, np.ndarray]
    files: dict[str, Path]
    classes: list[str]
    note: str = ""


class Damaged(Exception):
    """A file of a data set is missing, cut short or altered. Carries what a one-line message needs."""

    def __init__(self, file: Path, what: str, tensor: str = "", expected: str = "") -> None:
        self.file, self.what = Path(file), what.replace("\n", " ")
        super().__init__(f"{file}: {self.what}")
        self.tensor, self.expected = tensor, expected


# What a library may raise while it reads a file that was cut short, altered or made on purpose.
_MALFORMED = (
    OSError, SyntaxError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError,
    RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError,
)  # fmt: skip


@contextmanager
def parsing(file: Path, kind: str) -> Iterator[None]:
    """Raise Damaged for `file`, which should be `kind` (such as "a picture"), if the block cannot read it."""
    try:
        yield
    except _MALFORMED as problem:
        raise Damaged(file, f"{kind} that is cut short or altered: {problem}") from problem


@contextmanager
def reading(tensor: str) -> Iterator[None]:
    """Let a Damaged of the block that names no tensor name this one."""
    try:
        yield
    except Damaged as damage:
        damage.tensor = damage.tensor or tensor
        raise


def present(file: Path) -> Path:
    """Return `file`. Raises Damaged if there is no such file."""
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
    """Return the one-line refusal of a damaged file: file, expected digest, found digest, how to mend.

    `shown` is how the message calls the file; `pinned` maps tensor name → expected canonical sha256.
    """
    expected = damage.expected or (
        f"{damage.tensor} with sha256 {pinned[damage.tensor]}" if damage.tensor in pinned else "a whole file"
    )
    found = damage.what
    if damage.file.is_file() and "sha256" not in found and "md5" not in found:
        found += f" (file sha256 {file_digest(damage.file)})"
    return UserError(
        f"{shown}: expected {expected}, found {found} (from {source}: remove this copy and fetch again)"
    )


def verify(found: Found, pinned: Mapping[str, str]) -> dict[str, str]:
    """Return tensor name → digest of all that was found. Raises Damaged at the first not as pinned."""
    digests = {name: digest(array) for name, array in sorted(found.tensors.items())}
    for name, value in digests.items():
        if name in pinned and value != pinned[name]:
            raise Damaged(found.files[name], f"sha256 {value}", name)
        if pinned and name not in pinned:
            raise Damaged(
                found.files[name], f"the tensor {name}", expected="only the tensors pinned in the catalogue"
            )
    return digests
