"""A cell of a malicious server, from the capture to its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from played import captured

from leakbench import attacks
from leakbench.artefacts import read_facts, read_tensors, write_tensors
from leakbench.attacks.observation import read_observation
from leakbench.attacks.threat_model import in_words
from leakbench.errors import UserError
from leakbench.metrics.baselines import EXPECTED
from leakbench.scoring.attack import attack_rows
from leakbench.scoring.hidden import Hidden

BINS: dict[str, Any] = {
    "module": "robbing-the-fed", "parameters": {}, "threat": "G",
    "auxiliary": {"split": "train", "start": 0, "stop": 60},
}  # fmt: skip
ALARMS = ["alarm_rows_alike", "alarm_one_sided_rows", "alarm_isolation"]


def play(root: Path, malicious: dict[str, Any] | None, **more: Any) -> None:
    given: dict[str, Any] = {
        "defence": {"module": "none", "parameters": {}},
        "clients": (4,),
        "private": "test",
    }
    captured(root, None, **given | more, server="frozen", malicious=malicious)


def test_the_observation_and_its_words_name_the_server(tmp_path: Path) -> None:
    play(tmp_path, BINS)
    observation, _ = read_observation(tmp_path / "capture.safetensors")
    assert observation.knows.malicious == "robbing-the-fed"
    assert in_words(observation)["threat model"] == "malicious server (robbing-the-fed)"
    weight = observation.weights["dense1.weight"][0]
    assert np.ptp(weight) == 0
    # The truth keeps what the closed form says: seven bins, four samples.
    assert read_facts(tmp_path / "truth.safetensors")["expected"] == {"exact": (1 - 1 / 7) ** 3}


def test_an_honest_server_sends_the_victim_as_it_is(tmp_path: Path) -> None:
    play(tmp_path, None)
    observation, _ = read_observation(tmp_path / "capture.safetensors")
    assert observation.knows.malicious is None
    assert in_words(observation)["threat model"] == "honest-but-curious server"
    victim, _ = read_tensors(tmp_path / "victim.safetensors")
    assert np.array_equal(observation.weights["dense1.weight"][0], victim["epoch-0/dense1.weight"])
    assert "expected" not in read_facts(tmp_path / "truth.safetensors")


def test_rows_hold_the_closed_form_and_the_alarms(tmp_path: Path) -> None:
    play(tmp_path, BINS, watched=True)
    observation, _ = read_observation(tmp_path / "capture.safetensors")
    found = attacks.run({"module": "imprint", "parameters": {}}, observation, torch.Generator())
    tensors = {name: value.numpy() for name, value in found.tensors().items()}
    tensors |= {f"null/{name}": value for name, value in tensors.items()}
    facts = {"target": "images", "knows": {}, "iterations": 0}
    write_tensors(tmp_path / "guesses.safetensors", tensors, facts)
    secret, about = read_tensors(tmp_path / "truth.safetensors")
    hidden = Hidden(
        secret, about, read_tensors(tmp_path / "data.safetensors")[0], tmp_path / "victim.safetensors"
    )
    entry = {"metrics": ["exact", "pearson", *ALARMS], "judges": [], "matching": "best", "decays": False}
    rows, _ = attack_rows(tmp_path / "guesses.safetensors", entry, 0, hidden, None, {})
    expected = rows[rows["baseline"] == EXPECTED]
    assert expected["exact"].tolist() == [(1 - 1 / 7) ** 3]
    own = rows[rows["baseline"] == ""]
    assert (own["alarm_rows_alike"] == 1).all()
    # It sounds in a round if, and only if, something came back.
    came = own.groupby("round")["exact"].max()
    assert (own.groupby("round")["alarm_isolation"].max() == came).all()


@pytest.mark.parametrize(("server", "told"), [("robbing-the-fed", "give the server auxiliary ones")])
def test_a_server_that_does_not_fit_is_one_line_with_the_file(tmp_path: Path, server: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        play(tmp_path, {"module": server, "parameters": {}, "threat": "F", "auxiliary": None})
    assert str(refused.value).startswith(str(tmp_path / "spec.json"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "capture.safetensors").exists()
