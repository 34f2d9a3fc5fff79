"""train and fetch where data are not here or not whole: what needs no more is made, the rest is absent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from played import captured
from project import blobs

from leakbench.base.artefacts import open_tensors, read_facts, read_table, write_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.spec import spec_of
from leakbench.jobs.cli import main
from leakbench.jobs.fetch import fetch
from leakbench.jobs.train import train
from leakbench.networks import generators
from leakbench.observations.reading import _read_generator

IMAGE = {"name": "blobs", "shape": [28, 28, 1], "classes": 10}
TRAINING: dict[str, Any] = {
    "optimiser": "sgd", "lr": 0.05, "options": {}, "batch_size": 20, "epochs": 1, "checkpoints": [1],
    "images": None, "settled": None,
}  # fmt: skip
STUDY: dict[str, Any] = {
    "training": {
        "optimiser": "sgd", "lr": 0.05, "options": {}, "decay": None, "batch_size": 16, "rounds": 1,
        "local_epochs": 1, "clients": 2, "split": "iid", "alpha": None, "validation": 0.2, "images": None,
        "evaluate": 50, "size": None, "augmentation": "none", "beside": ["beside"], "tested_on": ["tested"],
        "task": "classification",
    },
    "victim": {"module": "lenet-dlg", "parameters": {}},
    "defence": {"module": "none", "parameters": {}},
    "dataset": IMAGE,
    "study": {"dataset": "blobs", "victim": "v", "training": "t", "defence": "none"},
    "seed": 0,
}  # fmt: skip


def copy(folder: Path, name: str, *splits: str, side: int = 28) -> Path:
    tensors = {}
    for split in splits:
        images, labels = blobs(60, len(split))
        tensors[f"{split}/images"] = images[:, :side, :side, None]
        tensors[f"{split}/labels"] = labels.astype(np.int64)
    write_tensors(folder / f"{name}.safetensors", tensors, {})
    return folder / f"{name}.safetensors"


def trained(folder: Path, spec: dict[str, Any], data: Path, *further: Path) -> Path:
    out = folder / f"{data.stem}.out.{'parquet' if further else 'safetensors'}"
    train(spec_of("train", spec, "spec.json"), data, out, None, None, folder / "scratch", further=further)
    return out


def victim(training: dict[str, Any] | None) -> dict[str, Any]:
    entry = {"module": "fcnn", "parameters": {"width": 5}, "training": training}
    return {"victim": entry, "dataset": IMAGE, "seed": 0}


def test_an_untrained_victim_needs_no_training_images(tmp_path: Path) -> None:
    partial, whole = copy(tmp_path, "partial", "test"), copy(tmp_path, "whole", "test", "train")
    one, other = (trained(tmp_path, victim(None), data).read_bytes() for data in (partial, whole))
    assert one == other


def test_a_trained_victim_is_absent_where_there_are_none(tmp_path: Path) -> None:
    data = copy(tmp_path, "partial", "test")
    reason = read_facts(trained(tmp_path, victim(TRAINING), data))["absent"]
    lacks = "the copy of partial that is here has no images of the split train (its splits: test; put"
    assert reason.startswith(lacks)
    assert "absent" not in read_facts(trained(tmp_path, victim(TRAINING), copy(tmp_path, "whole", "train")))


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_generator_is_absent_where_its_auxiliary_images_are(split: str, tmp_path: Path) -> None:
    entry = {
        "module": "cvae", "parameters": {"latent": 5, "width": 4}, "reads": "latent", "weights": None,
        "validation": 0.25, "training": TRAINING,
        "auxiliary": {"dataset": "blobs", "split": split, "start": 0, "stop": 40},
    }  # fmt: skip
    spec = {"generator": entry, "dataset": IMAGE | {"shape": [24, 24, 1]}, "seed": 0}
    out = trained(tmp_path, spec, copy(tmp_path, "partial", "test", side=24))
    assert ("absent" in read_facts(out)) == (split == "train")


@pytest.mark.parametrize(
    ("own", "beside"), [(("train",), ("train",)), (("test",), ("train",)), (("train", "test"), ("test",))]
)
def test_no_study_goes_without_images(own: tuple[str, ...], beside: tuple[str, ...], tmp_path: Path) -> None:
    files = copy(tmp_path, "own", *own), copy(tmp_path, "beside", *beside), copy(tmp_path, "tested", "test")
    rows, facts = read_table(trained(tmp_path, STUDY, *files))
    assert len(rows) == 0
    assert "no images of the split" in facts["absent"]


def test_a_study_leaves_out_a_test_set_without_test_images(tmp_path: Path) -> None:
    beside = (copy(tmp_path, name, "train") for name in ("beside", "tested"))
    rows, facts = read_table(trained(tmp_path, STUDY, copy(tmp_path, "own", "train", "test"), *beside))
    assert set(rows["tested"]) == {"blobs"}
    assert "no images of the split test" in facts["untested"]["tested"]


def test_a_federation_is_absent_where_no_test_image_is_left_to_evaluate_on(tmp_path: Path) -> None:
    captured(tmp_path, private="test")
    for name in ("capture", "oracle", "truth"):
        reason = read_facts(tmp_path / f"{name}.safetensors")["absent"]
        assert reason.startswith("evaluate: all 60 test images of made that are here are private")
    captured(tmp_path, private="test", evaluate=None)
    assert "absent" not in read_facts(tmp_path / "capture.safetensors")


SPEC = {
    "name": "shapes", "module": "orl", "shape": [28, 28, 1], "classes": 2, "counts": {}, "sha256": {},
    "sources": [{
        "folders": ["shapes"], "holding": [], "put": "files in shapes", "torchvision": [], "package": "",
        "drawn": "",
    }],
    "local": False, "parameters": {}, "scaled": False,
}  # fmt: skip


def test_an_absent_data_set_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    spec, out = tmp_path / "shapes.json", tmp_path / "shapes.safetensors"
    spec.write_text(json.dumps(SPEC))
    fetch(spec, out, None, tmp_path / "scratch", optional=True)
    said = capsys.readouterr().out
    assert said.startswith(f"{out}: absent, so its cells do not run: shapes: no source has it")
    assert "put files in shapes into a directory of LEAKBENCH_DATA" in said
    # Who asks for this one set gets an exit code.
    assert main(["fetch", "--spec", str(spec), "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"leakbench fetch: {out}: absent: shapes: no source has it")
    assert told.count("\n") == 1


EIGHT = [8, 8, 1]
ENTRY: dict[str, Any] = {
    "module": "cvae", "parameters": {"latent": 5, "width": 4}, "reads": "latent", "weights": None,
    "validation": 0.25, "auxiliary": {"dataset": "made", "split": "train", "start": 10, "stop": 50},
    "training": {"optimiser": "adam", "lr": 0.01, "options": {}, "batch_size": 10, "epochs": 3,
    "checkpoints": [3],
                 "images": None, "settled": None},
}  # fmt: skip


def generator_spec(**keys: Any) -> Any:
    value = {"generator": ENTRY | keys, "dataset": {"name": "made", "shape": EIGHT, "classes": 3}, "seed": 0}
    return spec_of("train", value, "generator_spec.json")


def generator_of(folder: Path, change: int | None = None, **keys: Any) -> Path:
    """Train on sixty images, of which number `change` is another, and return the generator's file."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, *EIGHT), dtype=np.uint8)
    if change is not None:
        images[change] = 255 - images[change]
    data, out = folder / "data.safetensors", folder / "out.safetensors"
    write_tensors(data, {"train/images": images, "train/labels": np.arange(60) % 3}, {})
    train(generator_spec(**keys), data, out, None, folder / "record.json", folder)
    return out


def test_it_is_fitted_without_a_victim_and_read_by_an_attack(tmp_path: Path) -> None:
    out = generator_of(tmp_path)
    facts = read_facts(out)
    assert facts["features"] == [3]
    assert 0 < facts["validation_mse"] < 1
    assert json.loads((tmp_path / "record.json").read_text())["validation_mse"] == facts["validation_mse"]
    found: Any = _read_generator(out, {"shape": EIGHT})
    assert not found.training
    assert found(torch.rand(2, 5), torch.tensor([0, 2])).shape == (2, 1, 8, 8)
    assert not any(name.startswith("encoder") for name in open_tensors(out)[0])


def test_only_auxiliary_images_tell(tmp_path: Path) -> None:
    """Images 10 to 39 train it, 40 to 49 are held out; none other is looked at."""
    plain = open_tensors(generator_of(tmp_path))[0]["dense.weight"].copy()
    for change, differs in ((5, False), (10, True), (39, True), (45, False), (55, False)):
        other = open_tensors(generator_of(tmp_path, change))[0]["dense.weight"]
        assert np.array_equal(plain, other) is not differs, change


def test_published_weights_are_copied_or_refused_in_one_line(tmp_path: Path) -> None:
    torch.manual_seed(3)
    theirs = generators.build("cvae", (3,), (8, 8, 1), {"latent": 5, "width": 4}).state_dict()
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    read = generator_spec(weights="published", auxiliary=None, training=None)
    write_tensors(data, {name: v.numpy() for name, v in theirs.items()}, {})
    train(read, data, out, None, None, tmp_path)
    found = _read_generator(out, {"shape": EIGHT}).state_dict()
    assert all(torch.equal(found[name], v) for name, v in theirs.items())
    write_tensors(data, {"dense.weight": np.zeros((2, 2), np.float32)}, {})
    with pytest.raises(UserError, match="not this generator's weights"):
        train(read, data, out, None, None, tmp_path)


def test_absent_weights_make_it_absent(tmp_path: Path) -> None:
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    write_tensors(data, {}, {"absent": "put them there"})
    train(generator_spec(), data, out, None, None, tmp_path)
    assert read_facts(out)["absent"] == "put them there"


def test_private_images_under_another_sets_name_are_refused_in_one_line(tmp_path: Path) -> None:
    """The cheat of a data set's variant: the same files, and so the same images, by another name."""
    generator_of(tmp_path)
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    before = out.read_bytes()
    images = open_tensors(data)[0]["train/images"].copy()
    aliased, other = tmp_path / "private.safetensors", tmp_path / "other.safetensors"
    write_tensors(aliased, {"test/images": images[45:], "test/labels": np.zeros(15, np.int64)}, {})
    write_tensors(other, {"test/images": 255 - images, "test/labels": np.zeros(60, np.int64)}, {})
    with pytest.raises(UserError, match="5 of 40 images of made are images of private"):
        train(generator_spec(), data, out, None, None, tmp_path, further=[aliased])
    # Without the check, and with images that are really others, it trains.
    train(generator_spec(), data, out, None, None, tmp_path, further=[other])
    assert out.read_bytes() == before
