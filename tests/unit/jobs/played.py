"""A small federation that is played: what the capture verb writes of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from leakbench import attacks
from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.catalogue.spec import spec_of
from leakbench.jobs.capture import capture
from leakbench.metrics.scoring.attack import attack_rows
from leakbench.metrics.scoring.truths import Truths
from leakbench.networks import victims
from leakbench.observations.reading import read_observation

SHAPE, ROUNDS = (4, 4, 1), 3
PRUNED = {"module": "prune", "parameters": {"share": 0.5}}


def captured(
    root: Path, evaluate: int | None = 25, splits: tuple[str, ...] = ("train", "test"),
    defence: dict[str, Any] = PRUNED, clients: tuple[int, ...] = (2, 6), private: str = "train",
    activation: str = "relu", malicious: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Play clients of so many images each; return the tensors of observation, labels and truth, and the data.

    malicious: the server that writes the weights, if it does not follow the protocol. network: the victim, by
    default a small FCNN. `more` are further keys of the federation.
    """
    rng = np.random.default_rng(0)
    data: dict[str, np.ndarray] = {}
    for split in splits:
        data[f"{split}/images"] = rng.integers(0, 256, (60, *SHAPE), dtype=np.uint8)
        data[f"{split}/labels"] = rng.integers(0, 5, 60)
    write_tensors(root / "data.safetensors", data, {})
    torch.manual_seed(0)
    network = network or {"module": "fcnn", "parameters": {"width": 7, "activation": activation}}
    state = victims.build(network["module"], SHAPE, 5, network["parameters"]).state_dict()
    weights = {f"epoch-0/{name}": value.numpy() for name, value in state.items()}
    facts = {"network": network | {"shape": list(SHAPE), "classes": 5}, "checkpoints": [0]}
    write_tensors(root / "victim.safetensors", weights, facts)
    federation = {
        "clients": list(clients), "rounds": ROUNDS, "private": {"split": private, "start": 0, "stop": 60},
        "local": {"lr": 3.0, "batch_size": None, "epochs": 1}, "update": "gradient", "server": "fedavg",
        "local_set": "fresh", "distinct_labels": False, "passes": 1, "checkpoints": "last", "keep": True,
        "evaluate": evaluate, **more,
    }  # fmt: skip
    spec = {
        "federation": federation, "federation_name": "f", "victim": network, "seed": 0, "salt": 32 * "d",
        "defence": defence,
        "dataset": {"name": "made", "shape": list(SHAPE), "classes": 5},
        **({"malicious": malicious} if malicious else {}),
    }  # fmt: skip
    outs = [root / f"{name}.safetensors" for name in ("capture", "oracle", "truth")]
    (root / "spec.json").write_text(json.dumps(spec))
    asked: Any = spec_of("capture", spec, str(root / "spec.json"))
    capture(asked, root / "data.safetensors", root / "victim.safetensors", *outs, None)
    return {path.stem: read_tensors(path)[0] for path in outs} | {"data": data}


def guessed(root: Path, entry: dict[str, Any], nulls: int) -> dict[str, np.ndarray]:
    """Return the tensors of an attack on what was observed, and under `null/…` on `nulls` rounds of noise."""
    observation, _ = read_observation(root / "capture.safetensors")
    noise = observation.randomised(nulls, torch.Generator().manual_seed(0))
    found, null = (attacks.run(entry, seen, torch.Generator()).tensors() for seen in (observation, noise))
    tensors = found | {f"null/{name}": value for name, value in null.items()}
    return {name: value.numpy() for name, value in tensors.items()}


def rows_of(
    root: Path, tensors: dict[str, np.ndarray], target: str, metrics: list[str], **knows: str
) -> pd.DataFrame:
    """Return the score rows of guesses of the kind `target` at what was captured."""
    facts = {"target": target, "knows": knows, "iterations": 0}
    write_tensors(root / "guesses.safetensors", tensors, facts)
    secret, about = read_tensors(root / "truth.safetensors")
    data, _ = read_tensors(root / "data.safetensors")
    truths = Truths(secret, about, data, root / "victim.safetensors")
    entry = {"metrics": metrics, "judges": [], "matching": "best", "decays": False}
    return attack_rows(root / "guesses.safetensors", entry, 0, truths, None, {})[0]
