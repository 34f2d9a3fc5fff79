"""Cells of a malicious server, of one that holds candidates, and under DP-SGD, from capture to rows."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from played import ROUNDS, captured, guessed, rows_of

from leakbench import attacks
from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.errors import Unfit, UserError
from leakbench.catalogue.cell import Cell
from leakbench.metrics.baselines import CERTIFIED, EXPECTED
from leakbench.metrics.scoring.columns import add_distance
from leakbench.metrics.scoring.membership import membership_rows
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.results.tables.attacked import aggregate
from leakbench.results.tables.of_attacks import check_bounds

BINS: dict[str, Any] = {
    "module": "robbing-the-fed", "parameters": {}, "threat": "G",
    "auxiliary": {"split": "train", "start": 0, "stop": 60},
}  # fmt: skip
STEP = {"lr": 0.1, "batch_size": None, "epochs": 1}
ALARMS = ["alarm_rows_alike", "alarm_one_sided_rows", "alarm_isolation"]


def play(root: Path, malicious: dict[str, Any] | None, **more: Any) -> Observation:
    """Return what the server of a frozen model sees."""
    given: dict[str, Any] = {"defence": {"module": "none", "parameters": {}}, "clients": (4,)}
    root.mkdir(exist_ok=True)
    captured(root, None, **given | more, private="test", server="frozen", malicious=malicious)
    return read_observation(root / "capture.safetensors")[0]


def test_the_observation_and_its_words_name_the_server(tmp_path: Path) -> None:
    observation = play(tmp_path, BINS)
    assert observation.knows.malicious == "robbing-the-fed"
    assert observation.in_words()["threat model"] == "malicious server (robbing-the-fed, letter G)"
    weight = observation.weights["dense1.weight"][0]
    assert np.ptp(weight) == 0
    # The truth keeps what the closed form says: seven bins, four samples.
    assert read_facts(tmp_path / "truth.safetensors")["expected"] == {"exact": (1 - 1 / 7) ** 3}


def test_an_honest_server_sends_the_victim_as_it_is(tmp_path: Path) -> None:
    observation = play(tmp_path, None)
    assert observation.knows.malicious is None
    assert observation.in_words()["threat model"] == "honest-but-curious server"
    victim, _ = read_tensors(tmp_path / "victim.safetensors")
    assert np.array_equal(observation.weights["dense1.weight"][0], victim["epoch-0/dense1.weight"])
    assert "expected" not in read_facts(tmp_path / "truth.safetensors")


def test_rows_hold_the_closed_form_and_the_alarms(tmp_path: Path) -> None:
    observation = play(tmp_path, BINS, watched=True)
    found = attacks.run({"module": "imprint", "parameters": {}}, observation, torch.Generator())
    tensors = {name: value.numpy() for name, value in found.tensors().items()}
    tensors |= {f"null/{name}": value for name, value in tensors.items()}
    rows = rows_of(tmp_path, tensors, "images", ["exact", "pearson", *ALARMS])
    expected = rows[rows["baseline"] == EXPECTED]
    assert expected["exact"].tolist() == [(1 - 1 / 7) ** 3]
    own = rows[rows["baseline"] == ""]
    assert (own["alarm_rows_alike"] == 1).all()
    # It sounds in a round if, and only if, something came back.
    came = own.groupby("round")["exact"].max()
    assert (own.groupby("round")["alarm_isolation"].max() == came).all()


def test_clients_remember_the_honest_rounds_that_a_federation_begins_with(tmp_path: Path) -> None:
    """The server cheats in the model that these rounds end at, and the rounds here see no other images."""
    truths, weights = {}, {}
    loud = BINS | {"parameters": {"gain": 1e4}}
    for name, server, begins in (("plain", None, 0), ("honest", None, 6), ("cheat", loud, 6)):
        seen = play(tmp_path / name, server, watched=True, local=STEP, begins=begins)
        truths[name], weights[name] = read_tensors(tmp_path / name / "truth.safetensors")[0], seen.weights
    for other in ("honest", "cheat"):
        np.testing.assert_array_equal(truths[other]["images/0"], truths["plain"]["images/0"])
    assert truths["plain"]["alarm_dynamics/0"].tolist() == [0, 0, 0]
    assert truths["cheat"]["alarm_dynamics/0"].tolist() == [1, 1, 1]
    last = {name: each["dense2.weight"][0] for name, each in weights.items()}
    moved = np.abs(last["honest"] - last["plain"]).max()
    assert 0 < moved < 1


LOKI: dict[str, Any] = BINS | {"module": "loki"}
NETWORK: dict[str, Any] = {"module": "imprinted", "parameters": {"bins": 8, "clients": 3}}


def test_each_client_gets_a_model_of_its_own_and_a_sum_keeps_them_apart(tmp_path: Path) -> None:
    each, seen = (
        play(tmp_path / defence, LOKI, watched=True, clients=(2, 2, 2), network=NETWORK,
             defence={"module": defence, "parameters": {}})
        for defence in ("none", "aggregated")
    )  # fmt: skip
    kernels = seen.each["convolution.weight"]
    # One model, three clients; of each one kernel copies the single channel.
    assert kernels.shape == (1, 3, 3, 1, 3, 3)
    assert kernels.sum((1, 2, 3, 4, 5)).tolist() == [3]
    assert (seen.clients, each.clients) == ([6], [2, 2, 2])
    for name, value in seen.updates.items():
        np.testing.assert_allclose(value[:, 0], each.updates[name].mean(1), atol=1e-6)
    blocks = each.updates["dense1.weight"].reshape(3, 3, 8, 3, 16)
    for client in range(3):
        others = [other for other in range(3) if other != client]
        assert blocks[:, client, :, client].any()
        assert not blocks[:, client][:, :, others].any()
    truth, facts = read_tensors(tmp_path / "aggregated/truth.safetensors")
    assert facts["expected"] == {"exact": 1 - 1 / 8}
    assert truth["alarm_rows_alike/0"].tolist() == [1, 1, 1]


def behind(module: str, **parameters: Any) -> dict[str, Any]:
    return {"defence": {"module": module, "parameters": parameters}}


@pytest.mark.parametrize(
    ("server", "more", "says"),
    [
        (BINS | {"threat": "F", "auxiliary": None}, {}, "malicious: .*give the server auxiliary ones"),
        (LOKI, {"clients": (2,) * 4, "network": NETWORK}, "malicious: .*needs 1 kernels for each of 4"),
        (None, behind("ats", policies="3-77"), r"defence\.parameters.*there is no transform 77"),
        (None, behind("dgp", largest=0.5, smallest=0.6), r"defence\.parameters.*drop every coordinate"),
        (None, behind("dp-sgd", noise_multiplier=1.0, clip=1.0, noise="central") | {"update": "model"},
         r"defence\.parameters\.noise: central noise"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_one_line_with_the_file(
    server: dict[str, Any] | None, more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path}/spec.json: {says}") as refused:
        play(tmp_path, server, **more)
    assert not isinstance(refused.value, Unfit)
    assert not (tmp_path / "capture.safetensors").exists()


@pytest.mark.parametrize("wrong", ["name", "shape", "number"])
def test_tensors_of_each_client_that_do_not_fit_are_refused_in_one_line(tmp_path: Path, wrong: str) -> None:
    play(tmp_path, LOKI, clients=(2, 2, 2), network=NETWORK)
    path = tmp_path / "capture.safetensors"
    tensors, facts = read_tensors(path)
    kernels = tensors.pop("each/convolution.weight")
    name = "each/stem.weight" if wrong == "name" else "each/convolution.weight"
    tensors[name] = kernels[..., :2] if wrong == "shape" else kernels * (np.nan if wrong == "number" else 1)
    write_tensors(path, tensors, facts)
    with pytest.raises(UserError, match=name) as refused:
        read_observation(path)
    assert str(refused.value).startswith(str(path))


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


PLAYED, OTHERS = 40, 9
METRICS = ["membership_auc", "tpr_at_fpr_0", "members_accepted", "epsilon_low"]


def scored(
    root: Path, noise: float, labels: str = "not needed", defence: str = "dp-sgd",
    settings: dict[str, Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the table of alignment against a client that sends updates of one image each. labels: what the
    attack is said to know of them. settings: those of another defence than DP-SGD with this noise."""
    given = settings or {"noise_multiplier": noise, "clip": 0.01}
    captured(
        root, None, defence={"module": defence, "parameters": given}, clients=(1,), candidates=OTHERS,
        server="frozen", activation="tanh", rounds=PLAYED, update="model" if settings else "gradient",
    )  # fmt: skip
    tensors = guessed(root, {"module": "alignment", "parameters": {}}, 2)
    rows = rows_of(root, tensors, "candidates", METRICS, labels=labels)
    cell = Cell("made", "victim", "f", "dp-sgd", "alignment", 0)
    rows = rows.assign(**vars(cell), failed=False)
    # Rows of candidates alone have no correlation with an image, and a table that asks for it leaves it out.
    table, _ = aggregate(rows, [*METRICS, "pearson"], "quick")
    return table.set_index(["metric", "baseline"])


def test_the_bound_stands_beside_what_was_measured(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.4)
    own, bound = table.loc[("tpr_at_fpr_0", "")], table.loc[("tpr_at_fpr_0", CERTIFIED)]
    assert own["n"] == PLAYED
    # The member is one of a list of the private images of all rounds and the others.
    assert 0.3 < bound["mean"] < 0.95
    # The attack finds members through the noise, and never more of them than is certified.
    assert own["mean"] > 3 / OTHERS / 10
    check_bounds(table.reset_index())
    assert ("members_accepted", CERTIFIED) not in table.index
    assert table.loc[("membership_auc", CERTIFIED), "mean"] > table.loc[("membership_auc", ""), "mean"]


def test_an_attack_that_is_given_labels_has_no_bound(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.4, labels="given")
    there = set(table.reset_index()["baseline"])
    assert {"", "random-gradient"} <= there
    assert CERTIFIED not in there


# The noise of Flower's local DP with these settings is 0.2 times its bound, as DP-SGD's is.
FLOWER = {"clipping_norm": 0.01, "sensitivity": 0.01, "epsilon": 24.2, "delta": 1e-5}


@pytest.mark.parametrize(
    ("name", "counts", "given"),
    [("dp_sgd", "certificate", {}), ("flower_local_dp", "of_normal_noise", FLOWER)],
)
def test_too_little_noise_is_found_out(
    name: str, counts: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = importlib.import_module(f"leakbench.defences.{name}")
    honest = getattr(place, counts)
    # A defence that certifies ten times the noise that it adds.
    monkeypatch.setattr(place, counts, lambda noise, *rest: honest(10 * noise, *rest))
    table = scored(tmp_path, 0.2, defence=name.replace("_", "-"), settings=given).reset_index()
    with pytest.raises(UserError, match="the defence certifies at most"):
        check_bounds(table)
    # The lower bound of ε alone finds it out as well.
    with pytest.raises(UserError, match="epsilon_low: measured"):
        check_bounds(table[table["metric"] == "epsilon_low"])


def test_the_proven_epsilon_is_below_the_certified_one(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.2)
    own, bound = table.loc[("epsilon_low", "")], table.loc[("epsilon_low", CERTIFIED)]
    assert 1 < own["mean"] < bound["mean"]
    assert own["ci_low"] == own["mean"]


def test_signs_find_members_behind_a_cut_far_below_the_coordinates(tmp_path: Path) -> None:
    cut = {"gamma": 1e-9, "tau": 0.0, "fraction": 0.5, "noise_var": 0.4}
    captured(
        tmp_path, None, defence={"module": "nvflare-svt", "parameters": cut}, clients=(1,), candidates=OTHERS,
        server="frozen", activation="tanh", rounds=PLAYED,
    )  # fmt: skip
    found = {}
    for signs in (False, True):
        tensors = guessed(tmp_path, {"module": "alignment", "parameters": {"signs": signs}}, 2)
        rows = rows_of(tmp_path, tensors, "candidates", ["membership_auc"], labels="not needed")
        found[signs] = rows[rows["baseline"] == ""]["membership_auc"].mean()
    assert found[True] > found[False] + 0.1
