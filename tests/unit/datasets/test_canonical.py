import hashlib
from pathlib import Path

import numpy as np
import pytest

from leakbench.datasets.canonical import Damaged, Found, digest, refusal, verify


def test_digest_is_the_sha256_of_dtype_shape_and_bytes() -> None:
    array = np.array([[1, 2], [3, 4]], np.int64)
    text = b"int64 (2, 2)\n" + b"".join(n.to_bytes(8, "little") for n in (1, 2, 3, 4))
    assert digest(array) == hashlib.sha256(text).hexdigest()


def test_digest_depends_on_shape_dtype_and_bytes_alone() -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    others: list[np.ndarray] = [
        array.reshape(4, 3),
        array.astype(np.int32),
        array.astype(np.uint64),
        array + 1,
        array[:2],
    ]
    assert len({digest(a) for a in [array, *others]}) == 1 + len(others)
    assert digest(np.asfortranarray(array)) == digest(array)
    assert digest(array.astype(">i8")) == digest(array)
    assert digest(np.repeat(array, 2, 0)[::2]) == digest(array)
    assert digest(np.zeros((0, 3), np.uint8)) != digest(np.zeros((3, 0), np.uint8))


def found(tmp_path: Path) -> Found:
    return Found({"train/labels": np.arange(3)}, {"train/labels": tmp_path / "labels"}, [])


def test_verify_returns_the_digests_of_what_matches_or_is_not_pinned(tmp_path: Path) -> None:
    digests = {"train/labels": digest(np.arange(3))}
    assert verify(found(tmp_path), digests) == digests
    assert verify(found(tmp_path), {}) == digests


def test_verify_refuses_another_digest_and_an_unknown_tensor(tmp_path: Path) -> None:
    with pytest.raises(Damaged) as caught:
        verify(found(tmp_path), {"train/labels": "0" * 64})
    line = str(refusal(caught.value, {"train/labels": "0" * 64}, "labels", "a folder"))
    assert line == (
        f"labels: expected train/labels with sha256 {'0' * 64}, found sha256 {digest(np.arange(3))} "
        "(from a folder: remove this copy and fetch again)"
    )
    with pytest.raises(Damaged, match="tensor train/labels"):
        verify(found(tmp_path), {"test/labels": "0" * 64})


def test_refusal_names_the_digest_of_the_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_bytes(b"half")
    line = str(
        refusal(Damaged(file, "half a file", "test/images"), {"test/images": "1" * 64}, "a file", "npm")
    )
    assert f"expected test/images with sha256 {'1' * 64}, found half a file" in line
    assert hashlib.sha256(b"half").hexdigest() in line
    assert "\n" not in line
