"""Data sets that somebody made on purpose: refused in one line, without what they ask for."""

import gzip
import pickle
import struct
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbench.datasets import idx as reader
from leakbench.datasets.canonical import Damaged, Found, verify, within
from leakbench.datasets.idx import read_idx
from leakbench.datasets.pictures import opened, read_list, read_picture
from leakbench.datasets.unpickle import read_pickle
from leakbench.datasets.words import Word, cut, read_words

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
