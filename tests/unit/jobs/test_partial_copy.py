"""train on a copy of a data set that has one split alone: what needs no more is made, the rest is absent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played import captured
from project import blobs

from leakbench.base.artefacts import read_facts, read_table, write_tensors
from leakbench.catalogue.spec import spec_of
from leakbench.jobs.train import train

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
def test_a_study_is_absent_without_images_to_train_or_test_on(
    own: tuple[str, ...], beside: tuple[str, ...], tmp_path: Path
) -> None:
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
