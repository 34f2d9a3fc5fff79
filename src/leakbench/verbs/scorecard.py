"""scorecard: every published number and claim beside ours, with a verdict."""

from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.artefacts import read_facts, write_text
from leakbench.metrics.pearson import THRESHOLD
from leakbench.provenance import read_spec
from leakbench.scorecard import fidel
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard as judge

# Which trained network stands for which published architecture: results path → name in the findings.
NETWORKS = {
    "victims/mnist/fcnn-relu/": "FCNN",
    "victims/mnist/cnn-relu/": "CNN",
    "generators/mnist/cnn-relu/fidel-mnist/": "generator-mnist",
    "generators/cifar10/cnn-relu/fidel-cifar10/": "generator-cifar10",
}


def architecture(facts: dict[str, Any]) -> dict[str, Any]:
    """Return layers and training of a network's file in the words of the papers' tables."""
    victim = "network" in facts
    layers = [{"layer": "input"}, *(dict(layer) for layer in facts["layers"])]
    if not victim:
        channels, rows, columns = facts["features"]
        layers[0]["size"] = f"{rows},{columns},{channels}"
    for layer in layers:
        if layer["layer"].startswith(("dense", "conv")):
            layer.setdefault("activation", "none")
    if victim:
        # Softmax is part of the cross-entropy that trained it.
        layers[-1]["activation"] = "softmax"
    training = facts["training"]
    hyper = {
        "learning_rate": training["lr"],
        "optimizer": {"sgd": "SGD", "adam": "Adam", "adadelta": "Adadelta"}[training["optimiser"]],
        "loss": "categorical crossentropy" if victim else "mean squared error",
        "batch_size": training["batch_size"],
    }
    return {"layers": layers, "hyper": hyper | ({"rho": training["options"]["rho"]} if "rho" in training["options"] else {})}


def gather(root: Path, networks: list[Path]) -> dict[str, Any]:
    """Return the facts that findings look at, read from the files of the networks and the costs of making them."""
    out: dict[str, Any] = {"architectures": {}, "correlation_threshold": THRESHOLD, "generator_minutes": {}}
    attacked = networks[0].parents[3] / "records/attack/mnist/fcnn-relu-dropout/fidel-reveal/none/fidel/0.json"
    if attacked.is_file():
        cost = read_spec(attacked)
        out["attack_seconds"] = cost["seconds"] / cost["updates"]
    for path in networks:
        facts = read_facts(path)
        for place, name in NETWORKS.items():
            if f"/{place}" not in f"/{path.as_posix()}" or "absent" in facts:
                continue
            out["architectures"][name] = architecture(facts)
            if name.startswith("generator"):
                auxiliary = facts["auxiliary"]
                out["auxiliary_samples"] = auxiliary["stop"] - auxiliary["start"]
                record = Path(path.as_posix().replace("/generators/", "/records/generator/")).with_suffix(".json")
                out["generator_minutes"][name.removeprefix("generator-")] = read_spec(record)["seconds"] / 60
                scale = path.parents[4]
                demo = read_spec(scale / "specs" / "capture" / path.parents[2].name / "cnn-relu" / "fidel-demo" / "none" / "0.json")
                private = demo["federation"]["private"]
                out["private_pool"] = private["stop"] - private["start"]
                same = auxiliary["split"] == private["split"]
                shared = min(auxiliary["stop"], private["stop"]) - max(auxiliary["start"], private["start"])
                out["auxiliary_private_overlap"] = max(0, shared) if same else 0
    return out


def scorecard(tables: list[Path], exhibits: list[Path], networks: list[Path], out: Path, root: Path) -> None:
    """Write scorecard.csv: one row for every published number and every claim."""
    frames, absent = {}, {}
    for table, exhibit in zip(tables, exhibits, strict=True):
        frame = pd.read_csv(table, keep_default_na=True, na_filter=True)
        frame["baseline"] = frame["baseline"].fillna("")
        reasons = read_facts(exhibit)["absent_cells"]
        if len(frame):
            frames[table.stem] = frame
        if reasons:
            absent[table.stem] = "; ".join(sorted(set(reasons.values())))
    found = fidel.findings(frames, gather(root, networks), absent)
    write_text(out, judge(read_published(root / "published"), found).to_csv(index=False, float_format="%.6g"))
