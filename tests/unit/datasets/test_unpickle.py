import codecs
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbench.datasets.canonical import Damaged
from leakbench.datasets.unpickle import read_pickle


def written(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "a pickle"
    file.write_bytes(data)
    return file


class Evil:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(4, dtype=">i4"),
        np.ones((1, 5)),
    ],
)
def test_reads_arrays_as_numpy_wrote_them(tmp_path: Path, protocol: int, value: np.ndarray) -> None:
    content = {"data": value, "labels": [1, 2], "nested": {"pair": (value, "text", None, 1.5)}}
    read = read_pickle(written(tmp_path, pickle.dumps(content, protocol)))
    assert read["labels"] == [1, 2]
    assert read["nested"]["pair"][1:] == ("text", None, 1.5)
    for array in (read["data"], read["nested"]["pair"][0]):
        assert array.dtype == value.dtype
        assert np.array_equal(array, value)


def test_reads_an_array_of_python_2(tmp_path: Path) -> None:
    text = (
        b"\x80\x02}q\x00U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85"
        b"U\x01b\x87Rq\x04(K\x01K\x01K\x03\x86cnumpy\ndtype\nq\x05U\x02u1K\x00K\x01\x87Rq\x06(K\x03U\x01|NNNJ"
        b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x03\x01\x80\xfftbs."
    )
    read = read_pickle(written(tmp_path, text))
    assert read["data"].tolist() == [[1, 128, 255]]
    assert read["data"].dtype == np.uint8


@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch run"),
        (eval, "open('run', 'w')"),
        (np.load, "x", None, True),
        (codecs.decode, b"x", "bz2"),
        (np.ndarray, (10**12,)),
        (codecs.encode, "x", "rot13"),
    ],
)
def test_refuses_a_pickle_that_runs_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[Any, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, pickle.dumps({"data": Evil(*call)}, 2))
    with pytest.raises(Damaged) as caught:
        read_pickle(file)
    assert not (tmp_path / "run").exists()
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_refuses_object_arrays_and_forged_shapes(tmp_path: Path) -> None:
    with pytest.raises(Damaged):
        read_pickle(written(tmp_path, pickle.dumps(np.array([{}, None], object), 2)))
    data = pickle.dumps(np.arange(6, dtype=np.uint8), 2)
    forged = data.replace(b"K\x06\x85", b"K\x16\x85")
    assert forged != data
    with pytest.raises(Damaged, match="bytes and shape"):
        read_pickle(written(tmp_path, forged))


def test_refuses_every_truncation(tmp_path: Path) -> None:
    data = pickle.dumps({"data": np.arange(3, dtype=np.uint8)}, 2)
    for keep in range(len(data)):
        with pytest.raises(Damaged):
            read_pickle(written(tmp_path, data[:keep]))


def test_no_room_is_made_for_a_number_beyond_the_file(tmp_path: Path) -> None:
    """Python's own reader asks for gigabytes to keep a value as number 200 million."""
    number = struct.pack("<I", 200_000_000)
    for text in (b"\x80\x02]r" + number + b".", b"]p200000000\n."):
        tracemalloc.start()
        with pytest.raises(Damaged, match="keeps a value as number 200000000"):
            read_pickle(written(tmp_path, text))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
    assert read_pickle(written(tmp_path, b"\x80\x02]q\x01.")) == []
