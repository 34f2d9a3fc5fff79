import re
from pathlib import Path

import numpy as np
import pytest
from catalogued import place

from leakbench.datasets import orl
from leakbench.datasets.canonical import Damaged

HEADER = b"P5\n92 112\n255\n"


def face(seed: int = 0) -> np.ndarray:
    """A smooth picture with a dark stripe where some pixels are line feeds (10), none carriage returns."""
    rows, columns = np.mgrid[:112, :92]
    picture = (120 + 60 * np.sin(rows / 9 + seed) + 60 * np.cos(columns / 7)).astype(np.uint8)
    picture[picture == 13] = 14
    picture[:, 48:53] = 12
    picture[40:44, 50] = 10
    return picture


def test_reads_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "1.pgm").write_bytes(HEADER + face().tobytes())
    assert np.array_equal(orl.read_face(tmp_path / "1.pgm"), face())


def test_undoes_converted_line_ends(tmp_path: Path) -> None:
    converted = (HEADER + face().tobytes()).replace(b"\n", b"\r\n")
    assert len(converted) > len(HEADER) + 112 * 92 + 3
    (tmp_path / "1.pgm").write_bytes(converted)
    assert np.array_equal(orl.read_face(tmp_path / "1.pgm"), face())


@pytest.mark.parametrize("row", [5, 38, 46, 70])
def test_keeps_the_pair_that_belonged_to_the_picture(tmp_path: Path, row: int) -> None:
    picture = face()
    picture[row, 49], picture[row, 50] = 13, 10
    whole = HEADER + picture.tobytes()
    converted = re.sub(rb"(?<!\r)\n", b"\r\n", whole)
    (tmp_path / "1.pgm").write_bytes(converted)
    assert np.array_equal(orl.read_face(tmp_path / "1.pgm"), picture)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (HEADER + face().tobytes()[:-1], "10303 pixels of 10304"),
        (b"P5\n91 112\n255\n" + bytes(91 * 112), "no header"),
        ((HEADER + face().tobytes()).replace(b"\n", b"\r\n")[:-7], "cannot be restored"),
    ],
)
def test_refuses_a_damaged_file(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "1.pgm").write_bytes(data)
    with pytest.raises(Damaged, match=what):
        orl.read_face(tmp_path / "1.pgm")


def test_splits_each_person_eight_to_two(tmp_path: Path) -> None:
    for person in range(1, 41):
        (tmp_path / "orl" / f"s{person}").mkdir(parents=True)
        for image in range(1, 11):
            picture = np.full((112, 92), 20 + person * 5 + image, np.uint8)
            (tmp_path / "orl" / f"s{person}" / f"{image}.pgm").write_bytes(HEADER + picture.tobytes())
    home = place("orl", tmp_path)
    assert home is not None
    tensors = orl.orl(home).tensors
    assert tensors["train/images"].shape == (320, 112, 92, 1)
    assert tensors["test/images"].shape == (80, 112, 92, 1)
    first = tensors["test/images"][:, 0, 0, 0]
    assert first.tolist() == [20 + person * 5 + image for person in range(1, 41) for image in (9, 10)]
    assert tensors["test/labels"].tolist() == [person for person in range(40) for _ in range(2)]
    assert np.bincount(tensors["train/labels"]).tolist() == [8] * 40
    (tmp_path / "orl" / "s7" / "10.pgm").unlink()
    with pytest.raises(Damaged, match=r"s7/10\.pgm"):
        orl.orl(home)
