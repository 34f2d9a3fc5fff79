"""A real two-client Flower simulation, what its server received as a capture, and an attack on that alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from private import CLASSES, LR, SHAPE, private

from leakbench.artefacts import open_tensors, read_facts, read_tensors

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".flower" / "bin" / "python"
ROUNDS = 2


def leakbench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", "leakbench", *arguments], cwd=folder, env=own, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a simulation's rounds."""
    if not PYTHON.exists():
        pytest.skip("no .flower environment (make flower)")
    folder = tmp_path_factory.mktemp("flower")
    path = os.pathsep.join(map(str, (ROOT / "src", Path(__file__).parent)))
    own = os.environ | {
        "PYTHONPATH": path, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_HOME": str(folder / "home"),
    }  # fmt: skip
    app = [str(PYTHON), str(Path(__file__).with_name("app.py")), str(folder / "rounds"), str(ROUNDS)]
    done = subprocess.run(app, cwd=folder, env=own, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder / "rounds"


@pytest.fixture(scope="module")
def captured(received: Path) -> Path:
    """The observation of that simulation."""
    folder = received.parent
    network = {"module": "fcnn", "parameters": {}, "shape": list(SHAPE), "classes": CLASSES}
    spec = {"network": network, "local": {"lr": LR, "batch_size": None, "epochs": 1}}
    (folder / "network.json").write_text(json.dumps(spec))
    ran = leakbench(
        folder, "capture", "--from-flower", "rounds", "--spec", "network.json", "--out", "capture.safetensors"
    )
    assert ran.returncode == 0, ran.stderr
    return folder / "capture.safetensors"


def test_every_round_is_kept_and_nothing_else(received: Path) -> None:
    assert sorted(path.name for path in received.iterdir()) == ["round-1.safetensors", "round-2.safetensors"]
    for path in received.iterdir():
        facts = read_facts(path)
        assert sorted(facts["clients"]) == [1, 2]
        assert len(set(facts["nodes"])) == 2


def test_the_next_model_is_the_mean_of_what_the_server_received(received: Path) -> None:
    """What the recorder kept is what Flower's own FedAvg worked with."""
    (first, facts), (second, _) = (
        read_tensors(received / f"round-{number}.safetensors") for number in (1, 2)
    )
    weights = np.array(facts["clients"]) / sum(facts["clients"])
    for name in (name.removeprefix("global/") for name in first if name.startswith("global/")):
        mean = sum(
            w * first[f"returned/{node}/{name}"] for w, node in zip(weights, facts["nodes"], strict=True)
        )
        np.testing.assert_allclose(second[f"global/{name}"], mean, atol=1e-6)


def test_the_attack_finds_a_clients_private_image(captured: Path) -> None:
    folder = captured.parent
    attack = {"module": "fidel", "parameters": {}, "generator": None, "labels": "none", "matching": "best"}
    spec = {"attack": attack, "attack_name": "fidel", "null_rounds": 1, "seed": 0}
    (folder / "attack.json").write_text(json.dumps(spec))
    ran = leakbench(
        folder,
        "attack",
        "--capture",
        "capture.safetensors",
        "--spec",
        "attack.json",
        "--out",
        "guesses.safetensors",
    )
    assert ran.returncode == 0, ran.stderr
    guesses, _ = open_tensors(folder / "guesses.safetensors")
    alone = read_facts(captured)["clients"].index(1)
    image = private(0)[0].ravel()
    for name, least in (("images", 0.99), ("null/images", -1.0)):
        found = guesses[name][0, alone].reshape(guesses[name].shape[2], -1)
        with np.errstate(invalid="ignore"):
            best = np.nanmax([np.corrcoef(guess, image)[0, 1] for guess in found])
        assert best > least
        # The null baseline's best of many is chance.
        assert (best < 0.9) == name.startswith("null/")


def test_the_observation_tells_the_threat_model(captured: Path) -> None:
    tensors, facts = open_tensors(captured)
    assert facts["kind"] == "model"
    assert facts["knows"]["source"] == "a Flower app"
    assert tensors["updates/dense1.weight"].shape == (ROUNDS, 2, 128, 64)
    assert tensors["origin"].tolist() == [0, 1]
