"""The files between the verbs, with their facts inside; they are read as data, never as code.

Tensors are safetensors, rows are parquet. Facts (provenance, threat model, reasons) are one JSON object in
the file's own metadata, so a file that travels alone still says what it is. `leakbench.base.whole` writes the
files atomically, and puts the file's own digest beside the facts.
"""

import io
import itertools
import json
import math
import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakbench.base.errors import Altered, UserError, raise_unless_file
from leakbench.base.whole import AT_ONCE, SEAL, UNSEALED, beside, listing, replacing, sealing, whole

Facts = dict[str, Any]
_KEY = "leakbench"
# The options with which pandas reads every cell of a CSV as text.
AS_TEXT: Mapping[str, Any] = {"dtype": str, "keep_default_na": False}
# The digests of spec and code in facts as `to_json` writes them, where they stand outermost. A tensor file
# holds the facts as a string within JSON, hence the optional backslashes.
_MADE = re.compile(rb'(?:\n|\\n) \\?"(spec|code)\\?": \\?"([0-9a-f]{64})')
_DTYPES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip
_KINDS = {kind: dtype for dtype, kind in _DTYPES.items()}
_LARGEST_HEADER = 100_000_000
# The most axes and the longest axis that NumPy can hold, even in an array without elements.
_MOST_AXES, _LONGEST_AXIS = 32, 1 << 40
# What a library may raise while it reads a file of arbitrary bytes.
_MALFORMED = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError,
    NotImplementedError,
)  # fmt: skip


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_listed(path: Path, text: str) -> None:
    """Write `text` as `write_text` does, and its digest beside it."""
    with listing(path) as temporary:
        temporary.write_bytes(text.encode())


def to_json(value: Any) -> str:
    """Return the JSON text of `value` with sorted keys, the one form that digests and comparisons use."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1)


def _finite(pairs: list[tuple[str, Any]]) -> Facts:
    for key, value in pairs:
        listed = [value]
        while listed:
            each = listed.pop()
            if isinstance(each, list):
                listed += each
            elif isinstance(each, float) and not math.isfinite(each):
                raise ValueError(f"{key}: {each} is no finite number")
    return dict(pairs)


def read_json(path: Path, what: str, mend: str, restore: str = "") -> Facts:
    """Read a JSON file that holds a mapping. `restore` mends one that is there, by default as `mend` does."""
    path = Path(path)
    raise_unless_file(path, what.rpartition(" ")[2], mend)
    mend = restore or mend
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_finite)
    except (OSError, ValueError, RecursionError) as problem:
        raise Altered(path, f"not {what}: {problem}", mend) from problem
    if not isinstance(value, dict):
        raise Altered(path, f"not {what}", mend)
    try:
        if value.pop(SEAL, None) or beside(path).exists():
            whole(path)
    except Altered as problem:
        raise Altered(path, problem.what, mend) from problem
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a mapping as JSON, atomically, with the file's own digest."""
    with sealing(path) as temporary:
        temporary.write_text(to_json({**value, SEAL: UNSEALED}) + "\n", encoding="utf-8")


class _Sheet:
    """A tensor of a file that is being written: assigning to leading indices writes those bytes."""

    def __init__(self, file: int, offset: int, shape: tuple[int, ...], dtype: str) -> None:
        self.file, self.offset, self.shape, self.dtype = file, offset, shape, np.dtype(dtype)

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        """Write `value`, broadcast to the shape of the part that `key` selects."""
        key = () if key is ... else key if isinstance(key, tuple) else (key,)
        lead, rest = self.shape[: len(key)], self.shape[len(key) :]
        places = np.arange(math.prod(lead)).reshape(lead)[key]
        whole = np.ascontiguousarray(np.broadcast_to(value, (*places.shape, *rest)), self.dtype)
        rows = whole.reshape(places.size, -1)
        # Rows that lie side by side in the file are one write.
        runs = np.split(np.arange(places.size), np.flatnonzero(np.diff(places.ravel()) != 1) + 1)
        for run in runs if rows.size else []:
            begin = self.offset + int(places.flat[run[0]]) * rows.shape[1] * self.dtype.itemsize
            data = rows[run[0] : run[-1] + 1].data.cast("B")
            while data:
                written = os.pwrite(self.file, data[:AT_ONCE], begin)
                data, begin = data[written:], begin + written


@contextmanager
def creating(
    path: Path, layout: Mapping[str, tuple[tuple[int, ...], str]], facts: Facts, digested: bool = True
) -> Iterator[dict[str, _Sheet]]:
    """Create a safetensors file of known layout and fill it piece by piece.

    Yields tensor name → an object to whose indices (integers and slices of leading axes, or `...`) values are
    assigned. A file that is larger than memory thus costs only its chunks. Values that were not assigned are
    zero.
    """
    header: dict[str, Any] = {"__metadata__": {SEAL: UNSEALED, _KEY: to_json(facts)}}
    offset = 0
    for name in sorted(layout):
        shape, dtype = layout[name]
        places = [offset, offset + math.prod(shape) * np.dtype(dtype).itemsize]
        header[name] = {"dtype": _DTYPES[dtype], "shape": list(shape), "data_offsets": places}
        offset = places[1]
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with (sealing if digested else replacing)(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        begin = 8 + len(text)
        file.truncate(begin + offset)
        file.flush()
        yield {
            name: _Sheet(file.fileno(), begin + header[name]["data_offsets"][0], tuple(shape), dtype)
            for name, (shape, dtype) in layout.items()
        }


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], facts: Facts) -> None:
    """Write NumPy arrays (name → array) and facts to a safetensors file, atomically."""
    arrays = {name: np.asarray(value) for name, value in tensors.items()}
    layout = {name: (value.shape, value.dtype.name) for name, value in arrays.items()}
    with creating(path, layout, facts) as out:
        for name, value in arrays.items():
            out[name][...] = value


def _distinct(pairs: list[tuple[str, Any]]) -> Facts:
    """Return the pairs of a JSON mapping as a dict. Raises ValueError for a name that is given twice."""
    if len(value := dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return value


class _Header(NamedTuple):
    """What the header of a safetensors file says; `offset` is where the data begin."""

    facts: Facts
    # By the offset: name → (dtype, shape, first byte, last byte + 1).
    layout: dict[str, tuple[str, tuple[int, ...], int, int]]
    offset: int


def _header(path: Path) -> _Header:
    path = Path(path)
    raise_unless_file(path)
    with path.open("rb") as file:
        # The size is that of the open file: under its name another file may have taken its place meanwhile.
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _LARGEST_HEADER + 1
        if length > min(_LARGEST_HEADER, size - 8):
            raise Altered(path, "not a whole safetensors file")
        try:
            header = json.loads(file.read(length), object_pairs_hook=_distinct)
            facts = json.loads(header.pop("__metadata__", {}).get(_KEY, "{}"))
            if not isinstance(facts, dict):
                raise ValueError("its facts are no mapping")
            layout = {}
            for name, value in header.items():
                begin, stop = index(value["data_offsets"][0]), index(value["data_offsets"][1])
                layout[name] = _KINDS[value["dtype"]], tuple(map(index, value["shape"])), begin, stop
            places = sorted((begin, stop) for *_, begin, stop in layout.values())
            if any(stop > after for (_, stop), (after, _) in itertools.pairwise(places)):
                raise ValueError("its tensors overlap")
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
            raise Altered(path, f"malformed safetensors header: {problem}") from problem
    for name, (dtype, shape, begin, stop) in layout.items():
        fits = stop - begin == math.prod(shape) * np.dtype(dtype).itemsize
        # No axis of a product within the limit is longer than it.
        small = len(shape) <= _MOST_AXES and math.prod(max(n, 1) for n in shape) <= _LONGEST_AXIS
        if not (fits and small and begin >= 0 and min(shape, default=0) >= 0):
            raise Altered(path, f"tensor {name!r} does not fit its own header")
    end = max([0, *(stop for *_, stop in layout.values())])
    if size != 8 + length + end:
        raise Altered(path, f"truncated, {size} bytes of {8 + length + end}")
    return _Header(facts, layout, 8 + length)


def open_tensors(path: Path) -> tuple[dict[str, np.ndarray], Facts]:
    """Map a safetensors file read-only: (name → memory-mapped array, facts)."""
    path = Path(path)
    facts, layout, offset = _header(path)
    # All tensors share one map, since a process may hold some thousand. The map does not know its file.
    with path.open("rb") as file:
        body = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {
        name: np.zeros(shape, dtype) if begin == stop else np.ndarray(shape, dtype, body, offset + begin)
        for name, (dtype, shape, begin, stop) in layout.items()
    }, facts


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], Facts]:
    """Read a safetensors file into memory: (name → array, facts). Raises Altered where it is not whole."""
    arrays, facts = open_tensors(path)
    whole(Path(path))
    return {name: np.array(value) for name, value in arrays.items()}, facts


def write_table(path: Path, frame: Any, facts: Facts) -> None:
    """Write a pandas frame and facts to a parquet file, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    own = {_KEY.encode(): to_json(facts).encode()}
    table = table.replace_schema_metadata((table.schema.metadata or {}) | own)
    with sealing(path) as temporary, pq.ParquetWriter(temporary, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL: UNSEALED})


def _facts(metadata: Mapping[bytes, bytes] | None) -> Facts:
    """Return the facts in the metadata of a parquet schema. Raises ValueError if they are no mapping."""
    facts = json.loads((metadata or {}).get(_KEY.encode(), b"{}"))
    if not isinstance(facts, dict):
        raise ValueError("its facts are no mapping")
    return facts


@contextmanager
def _whole_parquet(path: Path) -> Iterator[None]:
    """Raise UserError if there is no parquet file at `path` or the block finds that it is not whole."""
    import pyarrow as pa

    raise_unless_file(Path(path))
    try:
        yield
    except (pa.ArrowException, *_MALFORMED) as problem:
        raise Altered(path, "not a whole parquet file") from problem


def read_table(path: Path, columns: list[str] | None = None) -> tuple[Any, Facts]:
    """Read a parquet file: (pandas frame, facts); only `columns` if given. Raises Altered if not whole."""
    import pyarrow.parquet as pq

    with _whole_parquet(path):
        table = pq.ParquetFile(path).read(columns)
        whole(Path(path))
        # Text that is none would be found by whoever looks at it first.
        table.validate(full=True)
        return table.to_pandas(), _facts(table.schema.metadata)


def read_csv(path: Path, needs: Iterable[str] = (), mend: str = "", **options: Any) -> Any:
    """Read a CSV that `write_text` or `write_listed` wrote, as a pandas frame with the columns `needs`."""
    import pandas as pd

    try:
        whole(path)
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            raise Altered(path, "not a whole table")
        rows = pd.read_csv(io.StringIO(text), **options)
    except ValueError as problem:
        raise Altered(path, f"no table: {problem}") from problem
    if missing := next((name for name in needs if name not in rows), None):
        raise UserError(f"{path}: column '{missing}' is missing ({mend})")
    return rows


def as_text(frame: Any) -> Any:
    """Return a pandas frame as a reader of its CSV sees it, all as text."""
    import pandas as pd

    return pd.read_csv(io.StringIO(frame.to_csv(index=False, float_format="%.6g")), **AS_TEXT)


def told(path: Path) -> tuple[str, str]:
    """Return the digests of spec and code in the facts of a tensor or table file; "" for a missing one."""
    with path.open("rb") as file:
        if path.suffix == ".parquet":
            # The facts of a parquet file come last.
            file.seek(max(0, path.stat().st_size - (1 << 18)))
            data = file.read()
        else:
            (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
            data = file.read(min(_LARGEST_HEADER, length))
    found = dict(_MADE.findall(data))
    return found.get(b"spec", b"").decode(), found.get(b"code", b"").decode()


def read_facts(path: Path) -> Facts:
    """Return the facts of a tensor or table file without reading its data."""
    if Path(path).suffix != ".parquet":
        return _header(Path(path)).facts
    import pyarrow.parquet as pq

    with _whole_parquet(path):
        return _facts(pq.read_schema(path).metadata)
