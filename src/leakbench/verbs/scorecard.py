"""scorecard: every published number and claim beside ours, with a verdict."""

from pathlib import Path
from typing import Any

from leakbench.artefacts import read_csv, read_facts, write_text
from leakbench.metrics.pearson import THRESHOLD
from leakbench.provenance import read_spec
from leakbench.scorecard import fidel
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard as judge

# Which trained network stands for which published architecture, below results/<scale>.
NETWORKS = {
    "FCNN": "victims/mnist/fcnn-relu/0",
    "CNN": "victims/mnist/cnn-relu/0",
    "generator-mnist": "generators/mnist/cnn-relu/fidel-mnist/0",
    "generator-cifar10": "generators/cifar10/cnn-relu/fidel-cifar10/0",
}
PRIVATE = "specs/capture/mnist/cnn-relu/fidel-demo/none/0.json"
ATTACKED = "records/attack/mnist/fcnn-relu-dropout/fidel-reveal/none/fidel/0.json"


def architecture(facts: dict[str, Any]) -> dict[str, Any]:
    """Return layers and training of a network's file in the words of the papers' tables."""
    victim = "network" in facts
    layers = [{"layer": "input"}, *(dict(layer) for layer in facts["layers"])]
    if layers[1]["layer"] == "flatten":
        # A fully connected network reads its images flat; the papers do not count that as a layer.
        del layers[1]
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
    return {
        "layers": layers,
        "hyper": hyper | ({"rho": training["options"]["rho"]} if "rho" in training["options"] else {}),
    }


def gather(results: Path) -> dict[str, Any]:
    """Return the facts that findings look at, from the networks' files and the records of what things cost."""
    out: dict[str, Any] = {"architectures": {}, "correlation_threshold": THRESHOLD, "generator_minutes": {}}
    if (results / ATTACKED).is_file():
        cost = read_spec(results / ATTACKED)
        out["attack_seconds"] = cost["seconds"] / cost["updates"]
    for name, stem in NETWORKS.items():
        path = results / f"{stem}.safetensors"
        facts: dict[str, Any] = read_facts(path) if path.is_file() else {"absent": "not trained"}
        if "absent" in facts:
            continue
        out["architectures"][name] = architecture(facts)
        if name.startswith("generator"):
            cost = read_spec(results / "records" / f"{stem.replace('generators', 'generator', 1)}.json")
            out["generator_minutes"][name.removeprefix("generator-")] = cost["seconds"] / 60
            out |= _ranges(facts["auxiliary"], read_spec(results / PRIVATE)["federation"]["private"])
    return out


def _ranges(auxiliary: dict[str, Any], private: dict[str, Any]) -> dict[str, int]:
    """Return the sizes of the auxiliary and the private range and how many images are in both."""
    shared = min(auxiliary["stop"], private["stop"]) - max(auxiliary["start"], private["start"])
    return {
        "auxiliary_samples": auxiliary["stop"] - auxiliary["start"],
        "private_pool": private["stop"] - private["start"],
        "auxiliary_private_overlap": max(0, shared) if auxiliary["split"] == private["split"] else 0,
    }


def scorecard(tables: list[Path], exhibits: list[Path], out: Path, root: Path) -> None:
    """Write scorecard.csv beside the tables' folder: one row for every published number and every claim."""
    frames, absent = {}, {}
    for table, exhibit in zip(tables, exhibits, strict=True):
        frame = read_csv(table)
        frame["baseline"] = frame["baseline"].fillna("")
        reasons = read_facts(exhibit)["absent_cells"]
        if len(frame):
            frames[table.stem] = frame
        if reasons:
            absent[table.stem] = "; ".join(sorted(set(reasons.values())))
    found = fidel.findings(frames, gather(tables[0].parents[1]), absent)
    write_text(out, judge(read_published(root / "published"), found).to_csv(index=False, float_format="%.6g"))
