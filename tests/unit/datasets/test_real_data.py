"""Real data where this machine has it: samples in LEAKBENCH_DATA and what `fetch` left in data/."""

import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from catalogued import ROOT, available, spec

from leakbench.base.artefacts import open_tensors
from leakbench.datasets import fetch
from leakbench.datasets.columns import columns_of

SEARCH = [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]


def local(name: str, tmp_path: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    if not available(name, SEARCH):
        pytest.skip(f"no directory of LEAKBENCH_DATA holds {name}")
    fetch(spec(name), tmp_path / "out.safetensors", SEARCH, tmp_path / "scratch")
    return open_tensors(tmp_path / "out.safetensors")


def fetched(name: str) -> dict[str, np.ndarray]:
    file = ROOT / "data" / f"{name}.safetensors"
    if not file.is_file():
        pytest.skip(f"data/{name}.safetensors is not fetched")
    tensors, facts = open_tensors(file)
    if "absent" in facts:
        pytest.skip(str(facts["absent"]))
    return tensors


def test_cifar100_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("cifar100", tmp_path)
    images = np.concatenate([tensors["train/images"], tensors["test/images"]])
    assert np.abs(images.mean((0, 1, 2)) / 255 - [0.5074, 0.4867, 0.4411]).max() < 0.005
    assert len(set(np.bincount(tensors["test/labels"]).tolist())) == 1
    assert len(facts["classes"]) == 100  # type: ignore[arg-type]


def test_pictures_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("lfw", tmp_path)
    assert tensors["train/images"].shape == (992, 64, 64, 3)
    assert np.bincount(tensors["test/labels"]).tolist() == [4] * 62
    assert facts["classes"] == sorted(facts["classes"])  # type: ignore[call-overload]
    tensors, _ = local("imagenet", tmp_path)
    images = tensors["test/images"]
    assert images.shape[1:] == (224, 224, 3)
    assert images.std(axis=(1, 2, 3)).min() > 5


def test_adult_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("adult", tmp_path)
    records = tensors["train/images"][:, 0, :, 0]
    for column in columns_of(facts["columns"]):  # type: ignore[arg-type]
        if column.values:
            assert (records[:, column.place].sum(1) == 1).all()
    # A quarter of the people earn more, as the set's own description says.
    assert tensors["train/labels"].mean() == pytest.approx(0.2408, abs=1e-4)


@pytest.mark.parametrize("name", ["iiit5k", "svt", "icdar2003", "synth90k"])
def test_words_in_a_local_directory(name: str, tmp_path: Path) -> None:
    tensors, _ = local(name, tmp_path)
    images, labels = tensors["test/images"], tensors["test/labels"]
    assert images.shape[1:] == (32, 100, 3)
    # Real words show something, and are of usual lengths; the thesis tests on about a third of them.
    assert np.median(images.std(axis=(1, 2, 3))) > 20
    assert 4 < (labels >= 0).sum(1).mean() < 9
    wide = (tensors["test/widths"] >= 100) & (tensors["test/lengths"] >= 3)
    assert 0.2 < wide.mean() < 0.8


MD5 = {
    "train/images": "6bbc9ace898e44ae57da46a324031adb", "train/labels": "a25bea736e30d166cdddb491f175f624",
    "test/images": "2646ac647ad5339dbf082846283269ea", "test/labels": "27ae3e4e09519cfbb04c329615203637",
}  # fmt: skip


def test_mnist_written_back_as_idx_is_the_official_file() -> None:
    for tensor, array in fetched("mnist").items():
        array = array[..., 0] if array.ndim == 4 else array.astype(np.uint8)
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        assert hashlib.md5(header + array.tobytes()).hexdigest() == MD5[tensor]


def test_cifar10_has_the_known_moments_counts_and_order() -> None:
    tensors = fetched("cifar10")
    train = tensors["train/images"].reshape(-1, 3)
    assert np.allclose(train.mean(0) / 255, [0.49139968, 0.48215841, 0.44653091], atol=1e-7)
    assert np.allclose(train.std(0) / 255, [0.24703223, 0.24348513, 0.26158784], atol=1e-7)
    assert np.bincount(tensors["train/labels"]).tolist() == [5000] * 10
    assert np.bincount(tensors["test/labels"]).tolist() == [1000] * 10
    assert np.bincount(tensors["train/labels"][:10000]).tolist() == [
        1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981,
    ]  # fmt: skip
    assert tensors["test/labels"][:8].tolist() == [3, 8, 8, 0, 6, 6, 1, 6]


def test_fashion_mnist_has_the_known_moments_and_counts() -> None:
    tensors = fetched("fashion-mnist")
    assert tensors["train/images"].mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert tensors["train/images"].std() / 255 == pytest.approx(0.3530, abs=5e-5)
    assert np.bincount(tensors["train/labels"]).tolist() == [6000] * 10
    assert np.bincount(tensors["test/labels"]).tolist() == [1000] * 10
