import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from leakbench.datasets.canonical import Damaged
from leakbench.datasets.idx import read_idx


def made(shape: tuple[int, ...], body: bytes, kind: int = 8) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, kind, len(shape), *shape) + body


def test_reads_big_endian_shape_and_bytes_in_order(tmp_path: Path) -> None:
    file = tmp_path / "images"
    file.write_bytes(made((2, 3, 1), bytes([1, 2, 3, 250, 251, 252])))
    assert read_idx(file).tolist() == [[[1], [2], [3]], [[250], [251], [252]]]
    assert read_idx(file).dtype == np.uint8


def test_reads_gzip_like_plain(tmp_path: Path) -> None:
    file = tmp_path / "labels.gz"
    file.write_bytes(gzip.compress(made((3,), bytes([7, 0, 9]))))
    assert read_idx(file).tolist() == [7, 0, 9]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (made((2, 2), bytes(3)), "3 bytes of the 4"),
        (made((2, 2), bytes(5)), "5 bytes of the 4"),
        (made((2,), bytes(2), kind=0x0D), "no IDX header"),
        (made((2, 2), bytes(4))[:7], "no IDX header"),
        (b"", "no IDX header"),
    ],
)
def test_refuses_what_is_not_a_whole_file(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "images"
    file.write_bytes(content)
    with pytest.raises(Damaged, match=what):
        read_idx(file)


@pytest.mark.parametrize("keep", [1, 12, 200, -9, -4, -1])
def test_refuses_truncated_gzip(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "images.gz"
    noise = np.random.default_rng(0).integers(0, 256, 600, dtype=np.uint8).tobytes()
    file.write_bytes(gzip.compress(made((600,), noise))[:keep])
    with pytest.raises(Damaged, match="gzip"):
        read_idx(file)


def test_refuses_altered_gzip(tmp_path: Path) -> None:
    file = tmp_path / "images.gz"
    noise = np.random.default_rng(0).integers(0, 256, 600, dtype=np.uint8).tobytes()
    data = bytearray(gzip.compress(made((600,), noise)))
    data[300] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(Damaged, match="gzip"):
        read_idx(file)
