"""A training study on made blobs: its rows, its selection, its secrets, and a killed run."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from project import blobs

from leakbench import defences
from leakbench.artefacts import write_tensors
from leakbench.training import study as module
from leakbench.training.study import lock_shares, locked_models, study, upload_bytes

SPEC: dict[str, Any] = {
    "training": {
        "optimiser": "sgd", "lr": 0.05, "options": {"momentum": 0.9}, "decay": None, "batch_size": 16, "rounds": 3,
        "local_epochs": 1, "clients": 2, "split": "iid", "alpha": None, "validation": 0.2, "images": None, "evaluate": 50,
        "size": None, "augmentation": "none",
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


def test_rows_of_every_round_client_and_key(data: Path, tmp_path: Path) -> None:
    rows, facts, seconds = study(SPEC, data, tmp_path / "resume")
    assert list(rows["round"].unique()) == [1, 2, 3]
    first = rows[rows["round"] == 1]
    assert list(zip(first["client"], first["key"], strict=True)) == [
        (0, "own"), (0, "other"), (1, "own"), (1, "other"), (-1, "random"),
    ]  # fmt: skip
    own = rows[rows["key"] == "own"].groupby("round")["validation_accuracy"].mean()
    assert facts["selected"] == own.idxmax()
    assert (facts["samples"], facts["images"], facts["test_images"]) == ([80, 80], 160, 50)
    assert seconds > 0


def test_without_a_lock_all_clients_have_one_model(data: Path, tmp_path: Path) -> None:
    plain = spec() | {"defence": {"module": "none", "parameters": {}}}
    rows, facts, _ = study(plain, data, tmp_path / "resume")
    assert list(rows["client"]) == [-1, -1, -1]
    assert set(rows["key"]) == {""}
    assert facts["lock_share"] == 0


def test_a_killed_study_goes_on_to_the_same_rows(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, told, _ = study(SPEC, data, tmp_path / "whole")
    play, done = module.play_round, []

    def dying(*arguments: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return play(*arguments)

    monkeypatch.setattr(module, "play_round", dying)
    with pytest.raises(KeyboardInterrupt):
        study(SPEC, data, tmp_path / "resume", save_every=0)
    assert (tmp_path / "resume").is_file()
    monkeypatch.setattr(module, "play_round", play)
    rest, facts, _ = study(SPEC, data, tmp_path / "resume", save_every=0)
    pd.testing.assert_frame_equal(rest, whole)
    assert facts == told
    assert not (tmp_path / "resume").exists()


def test_clients_have_their_own_keys_and_the_same_locks() -> None:
    defence = defences.build("key-lock", {"key_length": 32})
    (first, second), stranger = locked_models(SPEC, defence)
    states = [model.state_dict() for model in (first, second, stranger)]
    for name in states[0]:
        alike = all(torch.equal(states[0][name], other[name]) for other in states[1:])
        assert alike == (not name.endswith(".key")), name
    assert len({tuple(state["norm1.key"].tolist()) for state in states}) == 3


def test_the_share_of_the_lock_as_the_thesis_counts_it() -> None:
    """Table 5.3: 22.43 % of a LeNet with a hundred classes."""
    wide = copy.deepcopy(SPEC) | {"dataset": {"name": "d", "shape": [32, 32, 3], "classes": 100}}
    defence = defences.build("key-lock", {})
    (model, _), _ = locked_models(wide, defence)
    shares = lock_shares(model, defence.secret(model))
    assert round(100 * shares["lock_share"], 2) == 22.43
    assert shares["lock_share_parameters"] > shares["lock_share"]


def test_an_upload_is_the_twins_without_scale_and_shift() -> None:
    defence = defences.build("key-lock", {"key_length": 32})
    (locked, _), _ = locked_models(SPEC, defence)
    none = defences.build("none", {})
    (plain, _), _ = locked_models(SPEC, none)
    own = upload_bytes(locked, defence.secret(locked), defence)
    # Twelve channels have a scale and a shift of four bytes each.
    assert upload_bytes(plain, frozenset(), none) - own == 12 * 2 * 4


def test_images_are_brought_to_the_regimes_size(data: Path, tmp_path: Path) -> None:
    rows, _, _ = study(
        spec(size=16, rounds=1, clients=1, augmentation="flip-crop"), data, tmp_path / "resume"
    )
    assert list(rows["key"]) == ["own", "random"]
