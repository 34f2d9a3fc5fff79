"""A training study on made blobs: its rows, its selection, its secrets, and a killed run."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from killed_studies import killed
from project import blobs

from leakbench import defences
from leakbench.base.artefacts import open_tensors, write_tensors
from leakbench.federation.training.sets import examined
from leakbench.federation.training.shown import WORDS
from leakbench.federation.training.study import lock_shares, locked_models, share, study, upload_bytes

SPEC: dict[str, Any] = {
    "training": {
        "optimiser": "sgd", "lr": 0.05, "options": {"momentum": 0.9}, "decay": None, "batch_size": 16,
        "rounds": 3,
        "local_epochs": 1, "clients": 2, "split": "iid", "alpha": None, "validation": 0.2, "images": None,
        "evaluate": 50, "size": None, "augmentation": "none",
    },
    "victim": {"module": "lenet-dlg", "parameters": {"norm": "batch"}},
    "defence": {"module": "key-lock", "parameters": {"key_length": 32}},
    "dataset": {"name": "tiny", "shape": [28, 28, 1], "classes": 10},
    "study": {"dataset": "tiny", "victim": "v", "training": "t", "defence": "key-lock"},
    "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "tiny.safetensors"
    tensors = {}
    for split, count, seed in (("train", 200, 1), ("test", 80, 2)):
        images, labels = blobs(count, seed)
        tensors |= {f"{split}/images": images[..., None], f"{split}/labels": labels.astype(np.int64)}
    write_tensors(path, tensors, {})
    return path


def spec(**changes: Any) -> dict[str, Any]:
    own = copy.deepcopy(SPEC)
    own["training"] |= changes
    return own


def test_rows_of_all_rounds_and_keys(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, facts, seconds = study(SPEC, data, tmp_path / "whole")
    assert list(rows["round"].unique()) == [1, 2, 3]
    first = rows[rows["round"] == 1]
    assert list(zip(first["client"], first["key"], strict=True)) == [
        (0, "own"), (0, "other"), (1, "own"), (1, "other"), (-1, "random"),
    ]  # fmt: skip
    own = rows[rows["key"] == "own"].groupby("round")["validation_accuracy"].mean()
    assert facts["selected"] == own.idxmax()
    assert (facts["samples"], facts["images"], facts["test_images"]) == ([80, 80], 160, 50)
    assert seconds > 0
    # A killed study goes on to the same rows.
    killed(monkeypatch, lambda: study(SPEC, data, tmp_path / "resume", save_every=0))
    assert (tmp_path / "resume").is_file()
    rest, again, _ = study(SPEC, data, tmp_path / "resume", save_every=0)
    pd.testing.assert_frame_equal(rest, rows)
    assert again == facts
    assert not (tmp_path / "resume").exists()


def test_without_a_lock_all_clients_have_one_model(data: Path, tmp_path: Path) -> None:
    plain = spec() | {"defence": {"module": "none", "parameters": {}}}
    rows, facts, _ = study(plain, data, tmp_path / "resume")
    assert list(rows["client"]) == [-1, -1, -1]
    assert set(rows["key"]) == {""}
    assert facts["lock_share"] == 0
    # Images are brought to the regime's size.
    changes = spec(size=16, rounds=1, clients=1, augmentation="flip-crop")
    assert list(study(changes, data, tmp_path / "resume")[0]["key"]) == ["own", "random"]
    # Only words that the rule counts are in the filtered accuracy.
    right = torch.tensor([True, False, True, True])
    assert share(right, torch.tensor([True, True, False, False])) == 0.5
    assert np.isnan([share(right, None), share(right, torch.zeros(4, dtype=torch.bool))]).all()


def test_clients_have_their_own_keys_and_the_same_locks() -> None:
    lock, none = defences.build("key-lock", {"key_length": 32}), defences.build("none", {})
    (first, second), stranger = locked_models(SPEC, lock)
    states = [model.state_dict() for model in (first, second, stranger)]
    for name in states[0]:
        alike = all(torch.equal(states[0][name], other[name]) for other in states[1:])
        assert alike == (not name.endswith(".key")), name
    assert len({tuple(state["norm1.key"].tolist()) for state in states}) == 3
    # An upload is the twin's without scale and shift: twelve channels have one of four bytes each.
    (plain, _), _ = locked_models(SPEC, none)
    own = upload_bytes(first, lock.secret(first), lock)
    assert upload_bytes(plain, frozenset(), none) - own == 12 * 2 * 4


def test_the_share_of_the_lock_as_the_thesis_counts_it() -> None:
    """Table 5.3: 22.43 % of a LeNet with a hundred classes."""
    wide = copy.deepcopy(SPEC) | {"dataset": {"name": "d", "shape": [32, 32, 3], "classes": 100}}
    defence = defences.build("key-lock", {})
    (model, _), _ = locked_models(wide, defence)
    shares = lock_shares(model, defence.secret(model))
    assert round(100 * shares["lock_share"], 2) == 22.43
    assert shares["lock_share_parameters"] > shares["lock_share"]


def lines(path: Path, count: int, seed: int) -> Path:
    """Narrow pictures that say A, and wide ones that say BAB."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for split in ("train", "test"):
        two = rng.integers(0, 2, count)
        images = rng.integers(0, 60, (count, 32, 100, 3)).astype(np.uint8)
        images[two == 1, :, 50:] += 150
        labels = np.full((count, 25), -1)
        labels[:, 0] = np.where(two == 1, 11, 10)
        labels[two == 1, 1:3] = 10, 11
        tensors |= {
            f"{split}/images": images,
            f"{split}/labels": labels,
            f"{split}/widths": np.where(two == 1, 160, 90).astype(np.float32),
            f"{split}/lengths": np.where(two == 1, 3, 1),
        }
    write_tensors(path, tensors, {})
    return path


def reading(**changes: Any) -> dict[str, Any]:
    own = spec(
        task="recognition", optimiser="adadelta", lr=1.0, options={}, batch_size=4, rounds=1,
        split="by-client", beside=["other"], tested_on=["far", "gone"], images=24,
    )  # fmt: skip
    own["training"] |= changes
    return own | {
        "victim": {"module": "crnn", "parameters": {"width": 2}},
        "defence": {"module": "none", "parameters": {}},
        "dataset": {"name": "own", "shape": [32, 100, 3], "classes": 36},
    }


def test_words_of_two_data_sets_are_tested_on_others(tmp_path: Path) -> None:
    own, other, far = (lines(tmp_path / name, 30, seed) for seed, name in enumerate(("own", "other", "far")))
    write_tensors(tmp_path / "gone", {}, {"absent": "nobody has it"})
    further = [other, far, tmp_path / "gone"]
    rows, facts, _ = study(reading(), own, tmp_path / "resume", further=further)
    assert list(rows["tested"]) == ["own", "other", "far"]
    assert facts["untested"] == {"gone": "nobody has it"}
    # A fifth of 48 is held out; the clients have what is left of one data set each.
    assert sum(facts["samples"]) == facts["images"] == 38
    assert max(facts["samples"]) <= 24
    assert facts["tested"]["far"]["images"] == 30
    assert 0 < facts["tested"]["far"]["filtered"] < 30
    assert rows["validation_loss"].nunique() == 1
    assert rows["test_loss"].nunique() == 3
    shown = facts["examples"]["far"]
    counted = examined(far, None).counted
    assert len(shown["words"]) == len(shown["read"]) == min(WORDS, int(counted.sum()))
    assert shown["words"][0] == open_tensors(far)[0]["test/labels"][int(counted.nonzero()[0])].tolist()
    assert np.array(shown["pictures"]).shape[1:] == (32, 100)
