"""IDX, PGM and pickle files: what is read of them, and what is refused, however hostile."""

import codecs
import gzip
import itertools
import os
import pickle
import re
import struct
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogued import home

from leakbench.datasets import idx as reader
from leakbench.datasets import orl
from leakbench.datasets.canonical import Damaged, Found, verify, within
from leakbench.datasets.idx import read_idx
from leakbench.datasets.pictures import opened, read_list, read_picture
from leakbench.datasets.unpickle import read_pickle
from leakbench.datasets.words import Word, cut, read_words


def made(shape: tuple[int, ...], body: bytes, kind: int = 8) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, kind, len(shape), *shape) + body


def test_reads_big_endian_shape_and_bytes_in_order(tmp_path: Path) -> None:
    content = made((2, 3, 1), bytes([1, 2, 3, 250, 251, 252]))
    for name, data in (("images", content), ("images.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(data)
        read = read_idx(tmp_path / name)
        assert (read.tolist(), read.dtype) == ([[[1], [2], [3]], [[250], [251], [252]]], np.uint8)


@pytest.mark.parametrize(
    ("content", "what"),
    [(made((2, 2), bytes(3)), "3 bytes of the 4"), (made((2, 2), bytes(5)), "5 bytes of the 4"),
     (made((2,), bytes(2), kind=0x0D), "no IDX header"), (made((2, 2), bytes(4))[:7], "no IDX header"),
     (b"", "no IDX header")],
)  # fmt: skip
def test_refuses_what_is_not_a_whole_file(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "images"
    file.write_bytes(content)
    with pytest.raises(Damaged, match=what):
        read_idx(file)


@pytest.mark.parametrize("keep", [1, 12, 200, -9, -4, -1, None])
def test_refuses_truncated_and_altered_gzip(tmp_path: Path, keep: int | None) -> None:
    file = tmp_path / "images.gz"
    noise = np.random.default_rng(0).integers(0, 256, 600, dtype=np.uint8).tobytes()
    data = bytearray(gzip.compress(made((600,), noise)))
    data[300] ^= keep is None
    file.write_bytes(bytes(data[:keep]))
    with pytest.raises(Damaged, match="gzip"):
        read_idx(file)


HEADER = b"P5\n92 112\n255\n"


def face(seed: int = 0) -> np.ndarray:
    """A smooth picture with a dark stripe where some pixels are line feeds (10), none carriage returns."""
    rows, columns = np.mgrid[:112, :92]
    picture = (120 + 60 * np.sin(rows / 9 + seed) + 60 * np.cos(columns / 7)).astype(np.uint8)
    picture[picture == 13] = 14
    picture[:, 48:53] = 12
    picture[40:44, 50] = 10
    return picture


@pytest.mark.parametrize("row", [None, 5, 38, 46, 70])
def test_undoes_converted_line_ends_and_keeps_a_pictures_pair(tmp_path: Path, row: int | None) -> None:
    picture = face()
    if row is not None:
        picture[row, 49], picture[row, 50] = 13, 10
    whole = HEADER + picture.tobytes()
    converted = re.sub(rb"(?<!\r)\n", b"\r\n", whole)
    assert len(converted) > len(whole) + 3
    for content in (converted, whole):
        (tmp_path / "1.pgm").write_bytes(content)
        assert np.array_equal(orl.read_face(tmp_path / "1.pgm"), picture)


@pytest.mark.parametrize(
    ("data", "what"),
    [(HEADER + face().tobytes()[:-1], "10303 pixels of 10304"),
     (b"P5\n91 112\n255\n" + bytes(91 * 112), "no header"),
     ((HEADER + face().tobytes()).replace(b"\n", b"\r\n")[:-7], "cannot be restored")],
)  # fmt: skip
def test_refuses_a_damaged_file(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "1.pgm").write_bytes(data)
    with pytest.raises(Damaged, match=what):
        orl.read_face(tmp_path / "1.pgm")


def test_splits_each_person_eight_to_two(tmp_path: Path) -> None:
    for person, image in itertools.product(range(1, 41), range(1, 11)):
        file = tmp_path / "orl" / f"s{person}" / f"{image}.pgm"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(HEADER + bytes([20 + person * 5 + image]) * (112 * 92))
    folder = home("orl", tmp_path)
    tensors = orl.orl(folder).tensors
    assert [len(tensors[f"{split}/images"]) for split in ("train", "test")] == [320, 80]
    first = tensors["test/images"][:, 0, 0, 0]
    assert first.tolist() == [20 + person * 5 + image for person in range(1, 41) for image in (9, 10)]
    assert tensors["test/labels"].tolist() == [person for person in range(40) for _ in range(2)]
    assert np.bincount(tensors["train/labels"]).tolist() == [8] * 40
    (tmp_path / "orl" / "s7" / "10.pgm").unlink()
    with pytest.raises(Damaged, match=r"s7/10\.pgm"):
        orl.orl(folder)


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
def test_reads_arrays_as_numpy_wrote_them(tmp_path: Path, protocol: int) -> None:
    six = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for value in (six, np.asfortranarray(six.astype(np.float32)), np.arange(4, dtype=">i4"), np.ones((1, 5))):
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
    [(os.system, "touch run"), (eval, "open('run', 'w')"), (np.load, "x", None, True),
     (codecs.decode, b"x", "bz2"), (np.ndarray, (10**12,)), (codecs.encode, "x", "rot13")],
)  # fmt: skip
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


PIXELS = np.zeros((4, 2, 2, 1), np.uint8)


def found(images: np.ndarray, labels: np.ndarray) -> Found:
    tensors = {"train/images": images, "train/labels": labels}
    return Found(tensors, dict.fromkeys(tensors, Path("made")), [str(n) for n in range(10)])


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (PIXELS[:0], np.zeros(0, np.int64)), (PIXELS, np.zeros(3, np.int64)), (PIXELS, np.full(4, 250)),
        (PIXELS, np.full(4, -1)), (PIXELS, np.full(4, np.nan)),
        (PIXELS.astype(np.float64), np.zeros(4, np.int64)),
    ],
)  # fmt: skip
def test_arrays_that_no_data_set_has_are_refused(images: np.ndarray, labels: np.ndarray) -> None:
    verify(found(PIXELS, np.arange(4)), {})
    with pytest.raises(Damaged):
        verify(found(images, labels), {})


def png(path: Path, width: int, height: int) -> Path:
    """Write a black picture in a few bytes for each line."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    lines = zlib.compress(b"\0" * (1 + -(-width // 8)) * height)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    )
    return path


def test_a_picture_that_asks_for_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    assert opened(png(tmp_path / "x.png", 30, 20)).size == (30, 20)
    for width, height in ((13_000, 13_000), (100_000, 1000)):
        with pytest.raises(Damaged):
            opened(png(tmp_path / "x.png", width, height))
    with pytest.raises(Damaged, match="30000×1"):
        read_picture(png(tmp_path / "x.png", 30_000, 1), 256, 224)


def test_a_gzip_file_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST", 1 << 20)
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1 << 27)))
    tracemalloc.start()
    with pytest.raises(Damaged, match="more than"):
        read_idx(tmp_path / "x.gz")
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_lists_that_share_lists_are_read_once(tmp_path: Path) -> None:
    value: list[Any] = [0]
    for _ in range(60):
        value = [value, value]
    (tmp_path / "x").write_bytes(pickle.dumps(value))
    begin = time.monotonic()
    read_pickle(tmp_path / "x")
    assert time.monotonic() - begin < 5


def test_names_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    assert within(folder, folder / "a/b.png") == folder / "a/b.png"
    for name in ("../x.png", "/etc/passwd", "a/../../x.png"):
        with pytest.raises(Damaged, match="out of the folder"):
            within(folder, folder / name)
        with pytest.raises(Damaged, match="out of the folder"):
            read_words(folder, {"test": [Word(folder / name, "word")]})


def test_lists_and_boxes_are_read_or_refused(tmp_path: Path) -> None:
    for data in (b"file\tword\n\xff\tx\n", b"file\tword\n" + b"x" * 200_000 + b"\tx\n"):
        (tmp_path / "labels.tsv").write_bytes(data)
        with pytest.raises(Damaged):
            read_list(tmp_path / "labels.tsv", {"file", "word"})
    picture = opened(png(tmp_path / "x.png", 30, 20))
    for box in ((np.nan, 0, 1, 1), (0, 0, np.inf, 1)):
        with pytest.raises(Damaged, match="without numbers"):
            cut(Word(tmp_path / "x.png", "x", box), picture)
