"""A cell whose server holds candidates, from the capture to the rows of its scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from played import ROUNDS, captured, guessed

from leakbench import attacks
from leakbench.base.errors import Unfit
from leakbench.metrics.scoring.columns import add_distance
from leakbench.metrics.scoring.membership import membership_rows
from leakbench.observations.reading import read_observation

NONE = {"module": "none", "parameters": {}}
NAMES = ["membership_auc", "tpr_at_fpr_0", "members_accepted", "false_acceptances"]


def test_members_are_known_to_the_truth_alone_and_found_from_the_observation(tmp_path: Path) -> None:
    files = captured(
        tmp_path, None, defence=NONE, clients=(3, 5), candidates=20, server="frozen", activation="tanh"
    )
    seen, truth = files["capture"]["candidates"], files["truth"]
    np.testing.assert_array_equal(seen, files["data"]["train/images"][truth["candidates"]])
    assert "candidates" not in files["oracle"]
    tensors = guessed(tmp_path, {"module": "membership", "parameters": {}}, 1)
    for client, k in enumerate((3, 5)):
        rows = membership_rows(tensors, truth, client, NAMES)
        # All rounds of the other client share an image.
        others = ["other-update"] if client == 0 else []
        assert rows["baseline"].tolist() == [""] * ROUNDS + ["random-gradient", *others]
        # The members of another update are no more like those of this one than others are.
        assert (rows.loc[rows["baseline"] == "other-update", "membership_auc"] < 0.9).all()
        own = rows[rows["baseline"] == ""]
        assert (own[["membership_auc", "tpr_at_fpr_0", "members_accepted"]] == 1).all(axis=None)
        assert (own["false_acceptances"] == 0).all()
        assert (own["local_samples"] == k).all()
        assert own["round"].tolist() == list(range(ROUNDS))


def test_who_knows_the_transforms_of_a_client_finds_its_members(tmp_path: Path) -> None:
    files = captured(
        tmp_path, None, defence={"module": "ats", "parameters": {}}, clients=(3,), candidates=20,
        server="frozen", activation="tanh",
    )  # fmt: skip
    truth = files["truth"]
    own = files["data"]["train/images"][truth["images/0"]].transpose(0, 1, 4, 2, 3) / 255
    assert truth["inputs/0"].shape == own.shape == (ROUNDS, 3, 1, 4, 4)
    assert np.abs(truth["inputs/0"] - own).reshape(ROUNDS * 3, -1).max(1).min() > 0.1
    observation, _ = read_observation(tmp_path / "capture.safetensors")
    found = {}
    for adaptive in (False, True):
        entry = {"module": "membership", "parameters": {}, "adaptive": adaptive}
        made = attacks.run(entry, observation, torch.Generator()).tensors()
        tensors = {name: value.numpy() for name, value in made.items()}
        tensors |= {f"null/{name}": value[:1] for name, value in tensors.items()}
        rows = membership_rows(tensors, truth, 0, NAMES)
        found[adaptive] = rows[rows["baseline"] == ""]["tpr_at_fpr_0"]
    assert (found[True] == 1).all()
    assert (found[False] < 1).all()


def test_a_distance_that_is_no_number_counts_as_the_farthest(tmp_path: Path) -> None:
    """An update about which an attack says NaN would leave the mean."""
    secret = {name: np.zeros(2) for name in ("checkpoint", "pass")}
    secret |= {"images/0": np.array([[4, 5], [6, 7]]), "candidates": np.arange(10)}
    far = np.where(np.isin(np.arange(10), [4, 5]), 0.0, 1.0)
    distance = np.stack([far, np.full(10, np.nan)])[:, None]
    tensors = {"span_distance": distance, "usable": distance == 0}
    tensors |= {f"null/{name}": value[:1] for name, value in tensors.items()}
    rows = membership_rows(tensors, secret, 0, NAMES)
    own = rows[rows["baseline"] == ""]
    assert own["membership_auc"].tolist() == [1, 0.5]
    assert own["tpr_at_fpr_0"].tolist() == [1, 0]
    assert own["status"].tolist() == ["ok", "nothing"]


def test_candidates_and_the_fact_go_together(tmp_path: Path) -> None:
    captured(tmp_path, None, defence=NONE)
    observation, _ = read_observation(tmp_path / "capture.safetensors")
    assert observation.candidates is None
    with pytest.raises(Unfit, match="needs candidates"):
        attacks.run({"module": "membership", "parameters": {}}, observation, torch.Generator())


def test_each_image_has_the_distance_of_its_own_reconstruction() -> None:
    tensors = {"span_distance": np.array([[[0.1, 0.2, 0.3]], [[0.4, 0.5, np.nan]]])}
    frame = pd.DataFrame({"match": [2, 0, 1, -1]})
    add_distance(frame, tensors, 0, "")
    np.testing.assert_array_equal(frame["span_distance"], [0.3, 0.1, 0.5, np.nan])
    for baseline in ("random-noise", "random-gradient", "snapshot"):
        other = pd.DataFrame({"match": [0, 0]})
        add_distance(other, tensors, 0, baseline)
        assert "span_distance" not in other
