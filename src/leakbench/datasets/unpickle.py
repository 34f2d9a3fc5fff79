"""Read arrays out of a pickle that others wrote, without running anything that the pickle asks for.

A pickle may name any callable. This reader only knows the few names that rebuild plain NumPy arrays, and it
replaces each by a stand-in, which merely keeps its arguments or encodes a text in Latin-1. Afterwards it
makes arrays from what was kept, and checks every field.
"""

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.datasets.canonical import parsing


class _Dtype:
    """The stand-in for numpy.dtype, which keeps the type code and, from the state, the byte order."""

    def __init__(self, code: Any, align: Any = False, copy: Any = False) -> None:
        self.code, self.order = str(code), "|"

    def __setstate__(self, state: Any) -> None:
        self.order = str(state[1])


class _Array:
    """The stand-in for numpy's _reconstruct; its state is (version, shape, dtype, column-major, bytes)."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def plain(self) -> np.ndarray:
        """Return the array. Raises ValueError unless it has a number type and as many bytes as its shape."""
        _, shape, dtype, by_columns, raw = self.state
        if not isinstance(dtype, _Dtype) or dtype.order not in "|<>=":
            raise ValueError("unknown element type")
        kind = np.dtype(dtype.code)
        if kind.kind not in "biuf":
            raise ValueError(f"an array of {kind}")
        raw = raw.encode("latin-1") if isinstance(raw, str) else raw
        if not isinstance(raw, bytes):
            raise ValueError("an array without bytes")
        if len(raw) != math.prod(shape) * kind.itemsize:
            raise ValueError("bytes and shape of an array differ")
        flat = np.frombuffer(raw, np.dtype(f"{dtype.order}{kind.str[1:]}"))
        return flat.reshape(shape, order="F" if by_columns else "C")


def _bytes(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"the encoding {encoding}")
    return text.encode("latin-1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _bytes,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r}, which is more than arrays")
        return _KNOWN[module, name]


def _plain(value: Any, known: dict[int, Any]) -> Any:
    if id(value) not in known:
        if isinstance(value, dict):
            known[id(value)] = {key: _plain(item, known) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            known[id(value)] = type(value)(_plain(item, known) for item in value)
        else:
            return value.plain() if isinstance(value, _Array) else value
    return known[id(value)]


def read_pickle(file: Path) -> Any:
    """Return the containers, numbers, text and NumPy arrays of a pickle (Python 2 text as latin-1)."""
    data = file.read_bytes()
    with parsing(file, "a pickle"):
        # Python's reader makes room for as many values as the highest number under which a value is kept, so
        # a short file could otherwise fill the memory.
        for operation, number, _ in pickletools.genops(data):
            if "PUT" in operation.name and int(number or 0) > len(data):
                raise pickle.UnpicklingError(f"it keeps a value as number {number}")
        return _plain(_Restricted(io.BytesIO(data), encoding="latin1").load(), {})
