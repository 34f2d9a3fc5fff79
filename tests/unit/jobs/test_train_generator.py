"""train on a generator of a latent and a class: fitted on auxiliary images alone, or read from published
weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.artefacts import open_tensors, read_facts, write_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.spec import spec_of
from leakbench.jobs.train import train
from leakbench.networks import generators
from leakbench.observations.reading import _read_generator

SHAPE = [8, 8, 1]
ENTRY: dict[str, Any] = {
    "module": "cvae", "parameters": {"latent": 5, "width": 4}, "reads": "latent", "weights": None,
    "validation": 0.25, "auxiliary": {"dataset": "made", "split": "train", "start": 10, "stop": 50},
    "training": {"optimiser": "adam", "lr": 0.01, "options": {}, "batch_size": 10, "epochs": 3,
    "checkpoints": [3],
                 "images": None, "settled": None},
}  # fmt: skip


def spec(**keys: Any) -> Any:
    value = {"generator": ENTRY | keys, "dataset": {"name": "made", "shape": SHAPE, "classes": 3}, "seed": 0}
    return spec_of("train", value, "spec.json")


def trained(folder: Path, change: int | None = None, **keys: Any) -> Path:
    """Train on sixty images, of which number `change` is another, and return the generator's file."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, *SHAPE), dtype=np.uint8)
    if change is not None:
        images[change] = 255 - images[change]
    data, out = folder / "data.safetensors", folder / "out.safetensors"
    write_tensors(data, {"train/images": images, "train/labels": np.arange(60) % 3}, {})
    train(spec(**keys), data, out, None, folder / "record.json", folder)
    return out


def test_it_is_fitted_without_a_victim_and_read_by_an_attack(tmp_path: Path) -> None:
    out = trained(tmp_path)
    facts = read_facts(out)
    assert facts["features"] == [3]
    assert 0 < facts["validation_mse"] < 1
    assert json.loads((tmp_path / "record.json").read_text())["validation_mse"] == facts["validation_mse"]
    found: Any = _read_generator(out, {"shape": SHAPE})
    assert not found.training
    assert found(torch.rand(2, 5), torch.tensor([0, 2])).shape == (2, 1, 8, 8)
    assert not any(name.startswith("encoder") for name in open_tensors(out)[0])


def test_only_auxiliary_images_tell(tmp_path: Path) -> None:
    """Images 10 to 39 train it, 40 to 49 are held out; none other is looked at."""
    plain = open_tensors(trained(tmp_path))[0]["dense.weight"].copy()
    for change, differs in ((5, False), (10, True), (39, True), (45, False), (55, False)):
        other = open_tensors(trained(tmp_path, change))[0]["dense.weight"]
        assert np.array_equal(plain, other) is not differs, change


def test_published_weights_are_copied_or_refused_in_one_line(tmp_path: Path) -> None:
    torch.manual_seed(3)
    theirs = generators.build("cvae", (3,), (8, 8, 1), {"latent": 5, "width": 4}).state_dict()
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    read = spec(weights="published", auxiliary=None, training=None)
    write_tensors(data, {name: v.numpy() for name, v in theirs.items()}, {})
    train(read, data, out, None, None, tmp_path)
    found = _read_generator(out, {"shape": SHAPE}).state_dict()
    assert all(torch.equal(found[name], v) for name, v in theirs.items())
    write_tensors(data, {"dense.weight": np.zeros((2, 2), np.float32)}, {})
    with pytest.raises(UserError, match="not this generator's weights"):
        train(read, data, out, None, None, tmp_path)


def test_absent_weights_make_it_absent(tmp_path: Path) -> None:
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    write_tensors(data, {}, {"absent": "put them there"})
    train(spec(), data, out, None, None, tmp_path)
    assert read_facts(out)["absent"] == "put them there"


def test_private_images_under_another_sets_name_are_refused_in_one_line(tmp_path: Path) -> None:
    """The cheat of a data set's variant: the same files, and so the same images, by another name."""
    trained(tmp_path)
    data, out = (tmp_path / name for name in ("data.safetensors", "out.safetensors"))
    before = out.read_bytes()
    images = open_tensors(data)[0]["train/images"].copy()
    aliased, other = tmp_path / "private.safetensors", tmp_path / "other.safetensors"
    write_tensors(aliased, {"test/images": images[45:], "test/labels": np.zeros(15, np.int64)}, {})
    write_tensors(other, {"test/images": 255 - images, "test/labels": np.zeros(60, np.int64)}, {})
    with pytest.raises(UserError, match="5 of 40 images of made are images of private"):
        train(spec(), data, out, None, None, tmp_path, further=[aliased])
    # Without the check, and with images that are really others, it trains.
    train(spec(), data, out, None, None, tmp_path, further=[other])
    assert out.read_bytes() == before
