"""Real Flower, simulated and deployed: what its server received as a capture, and an attack on that."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from nightly import daily

import leakbench
from leakbench.base.artefacts import open_tensors, read_facts
from leakbench.observations.rounds import Rounds, read_rounds

HERE = Path(__file__).parent
STRATEGIES = ("FedAvg", "FedProx", "FedAdam")
# The client that raises an error in the second round of the simulation.
FAILS = 2


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


network, task = module(HERE / "network.py"), module(HERE / "app/quickstart/task.py")


def played(folder: Path, clients: int, simulated: bool, config: str) -> Path:
    if not (network.BIN / "python").exists():
        pytest.skip("no .flower environment (make flower)")
    for attempt in ("first", "second", "third"):
        place = folder / attempt
        place.mkdir()
        rounds = place / "rounds"
        done = network.play(place, clients, f'folder="{rounds}" {config}', simulated)
        # Ray gives itself 30 seconds to start, whatever else the machine does.
        if "timed out during startup" not in done.stdout:
            break
    logs = "".join(path.read_text()[-2000:] for path in place.glob("process-*.log"))
    assert rounds.is_dir(), (done.stdout + done.stderr)[-3000:] + logs
    return rounds


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = f'strategies="{" ".join(STRATEGIES)}" fails={FAILS}'
    return played(tmp_path_factory.mktemp("simulated"), 3, True, config)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("deployed"), 2, False, "fails=-1") / "FedAvg"


def captured(rounds: Path, folder: Path) -> tuple[Path, str]:
    """Return the observation of rounds, and what was said on the way."""
    victim = {"module": "perceptron", "parameters": {"activation": "relu", "width": task.WIDTH},
              "shape": list(task.SHAPE), "classes": task.CLASSES}  # fmt: skip
    facts = {"network": victim, "local": {"lr": 0.1, "batch_size": None, "epochs": 1}, "mode": "train"}
    (folder / "network.json").write_text(json.dumps(facts))
    out = folder / "capture.safetensors"
    words = ["capture", "--from-flower", str(rounds), "--spec", str(folder / "network.json")]
    return out, command(*words, "--out", str(out)).stderr


def command(*words: str) -> subprocess.CompletedProcess[str]:
    own = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "src")}
    whole = [sys.executable, "-m", "leakbench", *words]
    ran = subprocess.run(whole, env=own, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def mean_returned(rounds: Rounds, name: str, number: int) -> np.ndarray:
    """Return the mean of the models that came back, weighted by the clients' samples."""
    weights = np.array(rounds.clients, np.float32) / sum(rounds.clients)
    return rounds.sent[name][number] + np.tensordot(weights, rounds.updates[name][number], 1)


@pytest.mark.nightly
def test_a_deployed_apps_next_model_is_the_mean_of_what_was_recorded(deployment: Path) -> None:
    """What the recorder kept is what Flower's own FedAvg worked with."""
    rounds = read_rounds(deployment)
    assert sorted(rounds.clients) == [1, 2]
    assert len(set(rounds.nodes)) == 2
    assert not rounds.left_out
    assert rounds.config == {"lr": 0.1, "server-round": 2}
    for name, sent in rounds.sent.items():
        np.testing.assert_allclose(sent[1], mean_returned(rounds, name, 0), atol=1e-6)


def test_every_round_of_every_strategy_is_kept(simulation: Path) -> None:
    assert sorted(path.name for path in simulation.iterdir()) == sorted(STRATEGIES)
    for name in STRATEGIES:
        files = sorted((simulation / name).iterdir())
        assert [path.name for path in files] == ["round-1.safetensors", "round-2.safetensors"]
        first, second = map(read_facts, files)
        assert sorted(first["clients"]) == [1, 2, 3]
        assert sorted(second["clients"]) == [1, 2]
        assert set(first["asked"]) == set(second["asked"]) == set(first["nodes"])
        assert ("proximal-mu" in first["config"]) == (name == "FedProx")


def test_the_next_model_follows_from_what_was_recorded(simulation: Path) -> None:
    """Of all three clients in the first round, by each strategy's rule: FedAdam moves to the mean's side."""
    for strategy in STRATEGIES:
        first, facts = open_tensors(simulation / strategy / "round-1.safetensors")
        second, _ = open_tensors(simulation / strategy / "round-2.safetensors")
        weights = np.array(facts["clients"]) / sum(facts["clients"])
        for name in (key.removeprefix("global/") for key in first if key.startswith("global/")):
            sent, after = first[f"global/{name}"], second[f"global/{name}"]
            back = [first[f"returned/{node}/{name}"] for node in facts["nodes"]]
            mean = sum(weight * value for weight, value in zip(weights, back, strict=True))
            if strategy == "FedAdam":
                moved = np.abs(mean - sent) > 1e-5
                assert moved.any()
                assert (np.sign(after - sent) == np.sign(mean - sent))[moved].all()
            else:
                np.testing.assert_allclose(after, mean, atol=1e-6)


def test_a_failed_client_is_said_to_have_failed(simulation: Path, tmp_path: Path) -> None:
    capture, said = captured(simulation / "FedAvg", tmp_path)
    assert sorted(read_facts(capture)["clients"]) == [1, 2]
    (line,) = said.splitlines()
    assert "left out: the client of node " in line
    assert " failed (" in line
    assert "no data on this device" in line
    assert line.endswith(" in round 2")
    assert "\x1b" not in line


@pytest.mark.parametrize("where", daily([*STRATEGIES, "deployed"], STRATEGIES))
def test_an_attack_finds_a_private_image(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In both rounds, from what the server received alone."""
    deployed = where == "deployed"
    rounds = request.getfixturevalue("deployment" if deployed else "simulation")
    capture, _ = captured(rounds if deployed else rounds / where, tmp_path)
    alone = read_facts(capture)["clients"].index(1)
    image = task.load_data(0)[0].flatten()
    found = leakbench.attack("fidel", capture)
    assert found.images.shape[:2] == (2, 2)
    for number in range(2):
        candidates = found.images[number, alone][found.usable[number, alone]].flatten(1)
        assert (candidates - image).abs().amax(1).min() < 1e-2


@pytest.mark.nightly
def test_an_audit_reads_the_rounds_with_the_apps_own_file(deployment: Path, tmp_path: Path) -> None:
    """Every record of both clients is proven, in both rounds, and counts once."""
    own = str(HERE / "app/quickstart/task.py")
    words = ["--lr", "0.1", "--local-steps", "1", "--budget", "30s", "--repeats"]
    out = ["--out", str(tmp_path / "audit")]
    said = command("audit", str(deployment), "--model", f"{own}:Net", *words, *out).stdout
    assert "Exposed: 3 of 3 records" in said
    assert (tmp_path / "audit/report.html").is_file()
