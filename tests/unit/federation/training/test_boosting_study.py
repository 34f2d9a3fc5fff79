"""Whole studies of FedBoosting in the plane: encrypted and plain, poisoned, with faults, killed."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from killed_studies import killed

from leakbench.base.artefacts import to_json, write_table, write_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.load import load_kind
from leakbench.datasets.gaussians import gaussians
from leakbench.defences.encryption import Keys
from leakbench.federation.training import enlisted
from leakbench.federation.training import study as module
from leakbench.federation.training.shown import STEPS
from leakbench.federation.training.study import study

ROOT = Path(__file__).parents[4]
SPEC: dict[str, Any] = {
    "training": {
        "optimiser": "adam", "lr": 0.01, "options": {}, "decay": None, "batch_size": 8, "rounds": 3,
        "local_epochs": 1,
        "clients": 3, "split": "iid", "alpha": None, "validation": 0.1, "images": 900, "evaluate": None,
        "size": None, "augmentation": "none", "hold_out": 0.1,
    },
    "victim": {"module": "perceptron", "parameters": {}},
    "defence": {"module": "none", "parameters": {}},
    "dataset": {"name": "gaussians", "shape": [1, 2, 1], "classes": 2},
    "study": {"dataset": "gaussians", "victim": "perceptron", "training": "t", "defence": "none"},
    "aggregation": {"module": "fedboosting-code", "parameters": {}},
    "seed": 0,
}  # fmt: skip
PAILLIER = {"encryption": {"module": "paillier", "parameters": {}}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "gaussians.safetensors"
    parameters = load_kind(ROOT / "config", "datasets")["gaussians"].model_dump()["parameters"]
    write_tensors(path, gaussians(path, **(parameters | {"samples": 4000, "test": 0.5})).tensors, {})
    return path


def spec(more: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    own = copy.deepcopy(SPEC) | (more or {})
    own["training"] = own["training"] | training
    return own


def accuracy(rows: pd.DataFrame) -> float:
    return float(rows.loc[rows["key"] == "", "test_accuracy"].iloc[-1])


def weights(rows: pd.DataFrame) -> np.ndarray:
    """Return the weights of clients [rounds, clients]."""
    chosen = rows[rows["key"] == "client"]
    return chosen.pivot_table(index="round", columns="client", values="weight").to_numpy()


@pytest.mark.parametrize("clients", [2, 3])
def test_a_secure_round_at_2048_bits_is_as_good_as_plain(data: Path, tmp_path: Path, clients: int) -> None:
    """Accuracy within 0.5 % of plain, as the thesis claims."""
    how = {"clients": clients, "split": "iid" if clients == 3 else "by-client", "rounds": 4}
    plain, told, _ = study(spec(**how), data, tmp_path / "plain")
    secure, facts, _ = study(spec(PAILLIER, **how, fusion=0.9), data, tmp_path / "secure")
    assert accuracy(plain) > 0.75
    assert abs(accuracy(secure) - accuracy(plain)) <= 0.005
    assert np.abs(weights(secure) - weights(plain)).max() < 0.05
    assert facts["encryption"] | {"bits": 2048, "secure": True, "packed": True} == facts["encryption"]
    # 42 values in one ciphertext of 4,096 bits.
    assert facts["upload_bytes"] == 512
    assert facts["problems"] == []
    # Each client has its weight in each round.
    assert weights(plain).shape == (4, clients)
    np.testing.assert_allclose(weights(plain).sum(1), 1)
    own = plain[plain["key"] == "client"]
    product = own["training_loss"] * own["cross_loss"] * own["weight"]
    for _, of_round in product.groupby(own["round"]):
        assert of_round.std() < 1e-6 * of_round.mean()
    assert own["cross_accuracy"].between(0, 1).all()
    # A tenth of 810 is validated on by the clients, of what is left after the study's own.
    assert clients == 2 or told["samples"] == [270, 270, 270]


@pytest.mark.parametrize("encryption", ["paillier", "ckks"])
def test_a_secure_study_is_the_same_each_time(data: Path, tmp_path: Path, encryption: str) -> None:
    """Though keys, blinding and noise are drawn anew."""
    own = spec({"encryption": {"module": encryption, "parameters": {}}}, rounds=2, fusion=0.9)
    told = []
    for name in ("first", "again"):
        rows, facts, _ = study(own, data, tmp_path / name)
        write_table(tmp_path / f"{name}.parquet", rows, facts)
        told.append((tmp_path / f"{name}.parquet").read_bytes())
    assert told[0] == told[1]
    # 42 values in one ciphertext: of 4,096 bits, or of 16,384 numbers of 100 bits.
    assert facts["upload_bytes"] == {"paillier": 512, "ckks": 204_800}[encryption]


@pytest.mark.parametrize(
    ("module", "parameters"),
    [("fedboosting-code", {"mode": "loss"}), ("fedboosting-code", {"mode": "accuracy"}),
     ("fedboosting-equations", {})],
)  # fmt: skip
def test_a_poisoned_client_weighs_less_by_the_code_and_more_by_the_printed_equations(
    data: Path, tmp_path: Path, module: str, parameters: dict[str, str]
) -> None:
    rule = {"aggregation": {"module": module, "parameters": parameters}}
    rows, _, _ = study(spec(rule, poisoned={"client": 1, "labels": "shuffled"}), data, tmp_path / "resume")
    own, others = weights(rows)[-1][1], weights(rows)[-1][[0, 2]]
    assert own < 0.75 * others.min() if module == "fedboosting-code" else own > others.max()


def test_rounds_with_faults_go_on_and_say_so(data: Path, tmp_path: Path) -> None:
    kinds = ["absent", "malformed", "other-key"]
    faults = [{"client": n, "round": n + 1, "kind": kind} for n, kind in enumerate(kinds)]
    rows, facts, _ = study(spec(PAILLIER, faults=faults), data, tmp_path / "resume")
    assert [(told["round"], told["client"]) for told in facts["problems"]] == [(1, 0), (2, 1), (3, 2)]
    assert (weights(rows) == 0).tolist() == np.eye(3, dtype=bool).tolist()


def test_keys_are_in_no_result(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[Keys] = []
    build = enlisted.encryption.build

    def watched(module: str, parameters: dict[str, Any]) -> Any:
        scheme = build(module, parameters)

        def keys() -> Keys:
            pairs.append(scheme.keys())
            return pairs[-1]

        return scheme._replace(keys=keys)

    monkeypatch.setattr(enlisted.encryption, "build", watched)
    saved: list[str] = []
    monkeypatch.setattr(module, "_save", lambda path, server, clients, facts: saved.append(to_json(facts)))
    rows, facts, _ = study(spec(PAILLIER), data, tmp_path / "resume", save_every=0)
    told = to_json(facts) + rows.to_csv() + "".join(saved)
    assert len(saved) == 2
    (pair,) = pairs
    for number in (pair.private.p, pair.private.q, pair.public.n):
        assert str(number) not in told
        assert f"{number:x}" not in told
    assert pair.name not in told


def test_a_killed_study_has_all_rows(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a new pair of keys, for none is kept."""
    whole, told, _ = study(spec(PAILLIER, fusion=0.9), data, tmp_path / "whole")
    killed(monkeypatch, lambda: study(spec(PAILLIER, fusion=0.9), data, tmp_path / "resume", save_every=0))
    rest, facts, _ = study(spec(PAILLIER, fusion=0.9), data, tmp_path / "resume", save_every=0)
    pd.testing.assert_frame_equal(rest, whole)
    assert facts == told


def test_a_study_in_the_plane_draws_its_boundary(data: Path, tmp_path: Path) -> None:
    _, facts, _ = study(spec(clients=2, split="by-client"), data, tmp_path / "resume")
    drawn = facts["boundary"]
    surface = np.array(drawn["surface"])
    assert surface.shape == (STEPS, STEPS)
    assert surface.min() < 0.5 < surface.max()
    left, right, low, high = drawn["extent"]
    assert right - left == pytest.approx(high - low, abs=0.01)
    points = np.array(drawn["points"]["test"])
    at = np.round((points[:, :2] - [left, low]) / [right - left, high - low] * (STEPS - 1)).astype(int)
    inside = (at >= 0).all(1) & (at < STEPS).all(1)
    read = surface[at[inside, 1], at[inside, 0]] > 0.5
    assert (read == points[inside, 2]).mean() > 0.75


def test_what_clients_hold_out_they_do_not_train_on(data: Path, tmp_path: Path) -> None:
    images, labels, own = torch.arange(40.0).reshape(20, 1, 2, 1), torch.arange(20), spec(clients=1)
    models, _ = module.locked_models(own, module.defences.build("none", {}))
    (client,) = enlisted.enlist(own, models, frozenset(), [(images, labels)], "cpu")
    seen = [*client.labels.tolist(), *client.held[1].tolist()]
    assert (len(client.labels), sorted(seen)) == (18, list(range(20)))
    assert client.images[0, 0, 0, 0] == 2 * client.labels[0]
    with pytest.raises(UserError, match="leaves nothing to validate on"):
        enlisted.enlist(own, models, frozenset(), [(images[:3], labels[:3])], "cpu")
