"""Artefacts are whole or not there, say what they are, and refuse damage in one line."""

import hashlib
import json
import mmap
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from leakbench.base.artefacts import (
    creating,
    open_tensors,
    read_csv,
    read_facts,
    read_json,
    read_table,
    read_tensors,
    to_json,
    write_json,
    write_table,
    write_tensors,
)
from leakbench.base.errors import Altered, UserError
from leakbench.base.whole import whole
from leakbench.base.yamls import read_yaml

DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]
FACTS = {"source": "here", "seed": 3, "nested": {"ü": [1, 2.5, None]}}


def framed(header: bytes, body: bytes = bytes(8)) -> bytes:
    return struct.pack("<Q", len(header)) + header + body


def entry(**changes: Any) -> bytes:
    return json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}).encode()


@given(
    arrays.arrays(
        st.sampled_from(DTYPES), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    ),
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3
    ),
)
@settings(max_examples=40, deadline=None)
def test_tensors_come_back(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, facts: dict) -> None:
    path = tmp_path_factory.mktemp("with a space") / "a file.safetensors"
    write_tensors(path, {"a/b": array, "again": array}, facts)
    tensors, found = read_tensors(path)
    assert found == facts == read_facts(path)
    assert tensors.keys() == {"a/b", "again"}
    for value in tensors.values():
        assert value.dtype == array.dtype
        assert value.shape == array.shape
        np.testing.assert_array_equal(value, array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_readers_agree(tmp_path: Path, dtype: str) -> None:
    from safetensors.numpy import load_file

    array = np.arange(6).reshape(2, 3).astype(dtype)
    write_tensors(tmp_path / "x.safetensors", {"x": array, "empty": array[:0]}, FACTS)
    found = load_file(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(found["x"], array)
    assert found["empty"].shape == (0, 3)


def test_an_opened_file_is_mapped_and_cannot_be_written_through(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.safetensors", {"x": np.zeros(3)}, {})
    tensors, _ = open_tensors(tmp_path / "x.safetensors")
    assert isinstance(tensors["x"].base, mmap.mmap)
    with pytest.raises(ValueError, match="read-only"):
        tensors["x"][0] = 1


def test_a_file_filled_in_pieces_is_the_file_written_at_once(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    write_tensors(tmp_path / "one", {"x": array, "none": array[:0]}, FACTS)
    with creating(tmp_path / "two", {"x": ((4, 3), "float32"), "none": ((0, 3), "float32")}, FACTS) as out:
        out["x"][2:] = array[2:]
        out["x"][:2] = array[:2]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_equal_content_is_equal_bytes_whatever_the_order(tmp_path: Path) -> None:
    a, b = np.ones(2), np.zeros(3)
    write_tensors(tmp_path / "one", {"a": a, "b": b}, {"x": 1, "y": 2})
    write_tensors(tmp_path / "two", {"b": b, "a": a}, {"y": 2, "x": 1})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", [None, b"the old file"])
def test_a_failing_writer_leaves_what_was_there(
    tmp_path: Path, problem: type[BaseException], old: bytes | None
) -> None:
    path = tmp_path / "deep" / "out.safetensors"
    path.parent.mkdir()
    if old:
        path.write_bytes(old)

    def fail() -> None:
        with creating(path, {"x": ((1000,), "float64")}, {}) as out:
            out["x"][:10] = 1
            assert list(path.parent.glob(".*.part"))
            raise problem

    with pytest.raises(problem):
        fail()
    assert [p.name for p in path.parent.iterdir()] == ([path.name] if old else [])
    assert not old or path.read_bytes() == old


WHOLE = framed(entry())
HEADERS = [
    b"", b"not json", b"\xff\xfe", b"[]", b"null", b'{"x": 3}', b'{"x": {}}', b'{"x": null}',
    b'{"__metadata__": []}', b'{"__metadata__": {"leakbench": 5}}', b'{"__metadata__": {"leakbench": "[]"}}',
    b'{"__metadata__": {"leakbench": "{"}}', b"[" * 50_000,
    b'{"__metadata__": {"leakbench": "' + b"[" * 50_000 + b'"}}', entry(dtype="F8_E4M3"), entry(dtype=None),
    entry(shape=[3]), entry(shape=[-1, -2]), entry(shape=[10**30]), entry(shape=[2**32, 2**32]),
    entry(shape=None), entry(shape=["a"]), entry(shape=[float("inf")]), entry(shape=[float("nan")]),
    entry(shape=[1.9]), entry(shape="2"), entry(data_offsets=[0]), entry(data_offsets=[0, "8"]) + b"x",
    entry(data_offsets=[8, 0]), entry(data_offsets=[-8, 0]), entry(data_offsets=[4, 12]),
    entry(data_offsets=[10**30, 10**30 + 8]), entry(data_offsets={}),
    # A name that is given twice, and two tensors in one place.
    entry()[:-1] + b", " + entry()[1:], entry()[:-1] + b", " + entry()[1:].replace(b"x", b"y"),
]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        *map(framed, HEADERS),
        framed(entry(shape=[0, 1 << 40, 1 << 40], data_offsets=[0, 0]), b""),
        *(WHOLE[:size] for size in (0, 1, 7, 8, 20, -1)),
        WHOLE + b"more",
        # A header longer than the file is not read.
        struct.pack("<Q", 2**62) + b"{}",
    ],
)
def test_what_is_no_whole_tensor_file_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    for read in (read_tensors, open_tensors, read_facts):
        with pytest.raises(UserError, match=rf"^{path}: .*run its rule again\)$"):
            read(path)
    path.write_bytes(WHOLE)
    assert read_tensors(path)[0]["x"].shape == (2,)


def test_tables_come_back_as_they_were(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2], "x": [0.1, np.nan], "s": ["a", "b"], "ok": [True, False]})
    write_table(tmp_path / "a table.parquet", frame, FACTS)
    found, facts = read_table(tmp_path / "a table.parquet")
    pd.testing.assert_frame_equal(found, frame, check_dtype=False)
    assert facts == FACTS == read_facts(tmp_path / "a table.parquet")


def _json(path: Path) -> dict[str, Any]:
    return read_json(path, "a spec", "plan it")


READERS = {
    "x.safetensors": (read_tensors, read_facts, whole), "x.parquet": (read_table, read_facts),
    "x.csv": (read_csv,), "x.json": (_json,), "x.yaml": (read_yaml,),
}  # fmt: skip


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize(("name", "read"), [(name, read) for name in READERS for read in READERS[name]])
def test_nobody_waits_for_a_pipe(tmp_path: Path, name: str, read: Any, make: Callable[[Path], None]) -> None:
    with pytest.raises(UserError, match=f"{name}: no such (file|spec)"):
        read(tmp_path / name)
    make(tmp_path / name)
    with pytest.raises(UserError, match=rf"{name}: not a regular file"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "key"),
    [("NaN", "a"), ("-Infinity", "a"), ("1e999", "a"), ("[0, [NaN]]", "a"), ('{"b": NaN}', "b")],
)
def test_json_without_a_finite_number_is_refused_by_its_key(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "x.json").write_text(f'{{"a": {text}}}')
    with pytest.raises(UserError, match=rf"x\.json: not a spec: {key}: -?(nan|inf) is no finite number"):
        _json(tmp_path / "x.json")


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2", b"\xff\xfe\n", b'a,b\n"1,2\n', b"a\n1,2\n3\n1,2,3\n"])
def test_a_damaged_csv_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.csv: .*run its rule again\)"):
        read_csv(tmp_path / "x.csv")


def test_json_has_one_form() -> None:
    assert to_json({"b": 1, "a": {"d": 2, "c": "é"}}) == to_json({"a": {"c": "é", "d": 2}, "b": 1})
    assert "é" in to_json({"c": "é"})


def test_a_file_replaced_while_it_is_read_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "x.safetensors", tmp_path / "longer.safetensors"
    write_tensors(path, {"a": np.zeros(3, np.float32)}, {"turn": 1})
    write_tensors(other, {"a": np.zeros(300, np.float32)}, {"turn": 2})
    opened = Path.open

    def replaced(self: Path, *arguments: Any, **options: Any) -> Any:
        file = opened(self, *arguments, **options)
        if self == path and other.exists():
            os.replace(other, path)
        return file

    monkeypatch.setattr(Path, "open", replaced)
    assert read_facts(path) == {"turn": 1}
    assert not other.exists()
    assert read_facts(path) == {"turn": 2}


FRAME = pd.DataFrame({"n": [1, 2], "s": ["a", None], "x": [0.5, np.nan]})
WRITERS: dict[str, Callable[[Path], None]] = {
    "x.safetensors": lambda path: write_tensors(path, {"x": np.arange(40.0), "y": np.arange(3)}, {"a": "b"}),
    "x.parquet": lambda path: write_table(path, FRAME, {"a": "b"}),
    "x.json": lambda path: write_json(path, {"seconds": 1.5, "verb": "attack"}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_flipped_bit_is_noticed(name: str, tmp_path: Path) -> None:
    """But in the name of the digest's own place: then the file has none, and says what it said."""
    path, read = tmp_path / name, READERS[name][0]
    WRITERS[name](path)
    sound, digest = path.read_bytes(), whole(path)
    assert sound.count(digest.encode()) == 1
    assert hashlib.sha256(sound.replace(digest.encode(), b"0" * 64)).hexdigest() == digest
    own = sound.index(b"leakbench-sha256")
    for place in range(len(sound)):
        if not own <= place < own + 16:
            path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
            with pytest.raises(Altered, match=re.escape(str(path))):
                read(path)
    path.write_bytes(sound)
    read(path)


def test_more_tensors_can_be_open_than_files(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {str(number): np.zeros(1, np.float32) for number in range(5000)}, {})
    assert len(open_tensors(path)[0]) == 5000
