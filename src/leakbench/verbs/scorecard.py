"""scorecard: every published number and claim beside ours, with a verdict."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbench.artefacts import open_tensors, read_csv, read_facts, write_text
from leakbench.drawing import printed_trainings
from leakbench.metrics.pearson import THRESHOLD
from leakbench.provenance import read_spec
from leakbench.reference import recorded
from leakbench.scorecard import agic, fedboosting, fedkl_accuracy, fedkl_leakage, fidel, grnn
from leakbench.scorecard.fedboosting_evidence import boundary_length
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
RESNET20 = "cifar10/resnet20-4"
LOOK = "cifar100/resnet20-4-cifar100/agic-passes/none/agic-joint-matching/0"


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


def gather_agic(results: Path, catalogue: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that AGIC's findings look at: the catalogue, what this scale made of it, and what that cost."""
    from leakbench.matching.update_matching import KERNEL

    settled = f"{RESNET20}/agic-gradient/none"
    asked = {
        "iterations": (f"attack/{settled}/agic-single/0", ("attack", "parameters", "iterations")),
        "rounds": (f"capture/{settled}/0", ("federation", "rounds")),
        "pre_iterations": (f"attack/{LOOK}", ("attack", "parameters", "pre_iterations")),
    }
    out: dict[str, Any] = {
        **catalogue,
        "agic_run": {},
        "iterations": {},
        "agic_seconds": {},
        "pooling": f"{KERNEL}x{KERNEL},{KERNEL}",
    }
    for key, (stem, parts) in asked.items():
        spec = results / "specs" / f"{stem}.json"
        value: Any = read_spec(spec) if spec.is_file() else {}
        for part in parts:
            value = value.get(part, {})
        out["agic_run"][key] = value or None
    tables = (results / "specs" / "table").glob
    for path in sorted([*tables("agic-*.json"), *tables("thesis-*.json")]):
        specs = [results / "specs" / "attack" / f"{stem}.json" for stem in read_spec(path)["cells"]]
        lengths = [_steps(read_spec(spec)["attack"]["parameters"]) for spec in specs if spec.is_file()]
        # An analytic attack takes no steps.
        if known := [length for length in lengths if length is not None]:
            out["iterations"][path.stem] = min(known)
    for attack in ("invg", "agic"):
        for steps in (1, 2, 4, 8):
            record = results / f"records/attack/{RESNET20}/agic-fedavg-steps-{steps}/none/{attack}/0.json"
            cost = read_spec(record) if record.is_file() else {}
            # An attack on a data set that is absent takes time too, but has worked on no updates.
            if "updates" in cost:
                out["agic_seconds"].setdefault(attack, {})[str(steps)] = cost["seconds"]
    network = results / f"victims/{RESNET20}/0.safetensors"
    if network.is_file() and "absent" not in read_facts(network):
        tensors, _ = open_tensors(network)
        out["convolutions"] = sum(value.ndim == 4 for value in tensors.values())
    return out


def lock_shares(catalogue: dict[str, Any]) -> dict[str, float]:
    """Return the share of the lock in each network of Table 5.3 with 100 classes, among all its tensors but the key.

    Networks without memory are enough to count.
    """
    import torch

    from leakbench import victims
    from leakbench.defences.key_lock import first_norms

    length = catalogue["defences"]["key-lock"]["key_length"]
    found = {}
    for model, (name, _) in printed_trainings.NETWORKS.items():
        size = 224 if model in printed_trainings.LARGE else 32
        entry = catalogue["networks"].get(name)
        if entry is None:
            continue
        with torch.device("meta"):
            network = victims.build(entry["module"], (size, size, 3), 100, entry["parameters"])
        channels = network.state_dict()[f"{first_norms(network)[0]}.weight"].numel()
        locked = 2 * channels * (length + 1)
        every = sum(value.numel() for value in network.state_dict().values())
        found[model] = locked / (every - 2 * channels + locked)
    return found


def gather_fedboosting(exhibits: Mapping[str, Path], catalogue: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that FedBoosting's findings look at: boundaries out of the exhibits of Figure 4.2, words read out of that of
    Table 4.2, the units of the network in the plane, and the pieces of a quantised update. Exhibits by experiment; any may lack.
    """
    from inspect import signature

    from leakbench import victims
    from leakbench.encryption.paillier import paillier

    out: dict[str, Any] = {"units": {}, "boundaries": {}}
    out["pieces"] = signature(paillier).parameters["pieces"].default
    if entry := catalogue["networks"].get("perceptron"):
        network = victims.build(entry["module"], (1, 2, 1), 2, entry["parameters"])
        out["units"]["perceptron"] = [
            layer.out_features for layer in network.modules() if hasattr(layer, "out_features")
        ]
    if words := exhibits.get("thesis-table-4-2"):
        out["examples"] = read_facts(words).get("examples", [])
    for exhibit in (
        exhibits[name] for name in ("thesis-figure-4-2", "thesis-figure-4-2-seeds") if name in exhibits
    ):
        tensors, told = open_tensors(exhibit)
        for place, about in enumerate(told.get("boundaries", [])):
            length = boundary_length(tensors[f"{place}/surface"], about["extent"])
            of_seed = out["boundaries"].setdefault(about["training"], {})
            of_seed[str(about["seed"])] = {"length": length, "apart": about["apart"]}
    return out


def _steps(parameters: dict[str, Any]) -> int | None:
    """Return how many steps the images had that an attack's rows are about; matching alone ends with the first look."""
    return parameters.get("pre_iterations" if parameters.get("steps") == "matching" else "iterations")


def _ranges(auxiliary: dict[str, Any], private: dict[str, Any]) -> dict[str, int]:
    """Return the sizes of the auxiliary and the private range and how many images are in both."""
    shared = min(auxiliary["stop"], private["stop"]) - max(auxiliary["start"], private["start"])
    return {
        "auxiliary_samples": auxiliary["stop"] - auxiliary["start"],
        "private_pool": private["stop"] - private["start"],
        "auxiliary_private_overlap": max(0, shared) if auxiliary["split"] == private["split"] else 0,
    }


def scorecard(tables: list[Path], exhibits: list[Path], spec: Path, out: Path, root: Path) -> None:
    """Write scorecard.csv beside the tables' folder: one row for every published number and every claim."""
    frames, absent = {}, {}
    for table, exhibit in zip(tables, exhibits, strict=True):
        frame = read_csv(table)
        frame["baseline"] = frame["baseline"].fillna("")
        reasons = read_facts(exhibit)["absent_cells"]
        if len(frame):
            frames[table.stem] = frame
        if reasons:
            absent[table.stem] = reasons
    results = tables[0].parents[1]
    found = fidel.findings(frames, gather(results), absent)
    longer = {
        name: rows
        for name in (table.stem for table in tables)
        if len(rows := recorded(root, name, results.name))
    }
    published = read_published(root / "published")
    facts = gather_agic(results, read_spec(spec))
    facts["printed"] = dict(zip(published["id"], published["value"], strict=True))
    found |= agic.findings(frames, facts, absent, longer) | grnn.findings(frames, facts, absent)
    facts["lock_shares"] = lock_shares(facts)
    found |= fedkl_leakage.findings(frames, facts, absent)
    found |= fedkl_accuracy.findings(frames, facts, absent)
    facts["print"] = dict(zip(published["id"], published["published"], strict=True))
    drawn = {path.stem: path for path in exhibits}
    found |= fedboosting.findings(frames, facts | gather_fedboosting(drawn, facts), absent)
    write_text(out, judge(published, found).to_csv(index=False, float_format="%.6g"))
