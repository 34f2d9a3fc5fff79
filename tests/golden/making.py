"""How a golden cell is made: the jobs of one capture or study of a recorded experiment, cut short."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from golden import ROOT, Spec

from leakbench.catalogue.cell import Cell
from leakbench.catalogue.workflow import Workflow
from leakbench.papers.reference import read_record, recorded, run_of

# How long everything runs: iterations of an attack, rounds of a federation and of a study, epochs of a
# network.
ITERATIONS, ROUNDS, STUDIED, EPOCHS = 8, 2, 4, 2
# The most samples of a batch, of a step's batch, and of candidates; images of a split; memory of L-BFGS.
BATCH, STEP, CANDIDATES, IMAGES, MEMORY = 12, 6, 40, 240, 12
# The most clients of a sweep of sizes, and the width of AGIC's network.
SWEEP, WIDTH = 3, 8


def made(flow: Workflow, experiment: str, sample: Sequence[str]) -> Spec:
    """Return a golden cell that has not run yet.

    flow: the workflow of a recorded run.
    experiment: the experiment.
    sample: the path stems of cells that attack one capture, or that of a study.
    """
    trains = bool(flow.plan.specs[f"table/{experiment}"].get("studies"))
    jobs = (_of_study if trains else _of_attacks)(flow, experiment, sample)
    for job in jobs:
        job["spec"] = shortened(job["spec"])
        if "dataset" in job["spec"]:
            job["spec"]["dataset"] = _small(job["spec"]["dataset"])
    paths = [Path(path) for job in jobs for path in _listed(job["in"]) if path.startswith("data/")]
    data = {path.stem: _form(flow, path.stem) for path in paths}
    run = flow.plan.run
    return {"run": run, "experiment": experiment, "sample": list(sample), "data": data, "jobs": jobs}


def kinds() -> Iterator[Spec]:
    """Yield cells that together have every kind of job that a recorded table follows from.

    Two jobs are of one kind if their specs differ in names and in numbers other than 0 and 1 alone, and
    attacks of one kind also have updates of one form and one kind of network.
    """
    seen: set[str] = set()
    for run in sorted(path.name for path in (ROOT / "reference").glob("*/") if run_of(path.name)[1] is None):
        with tempfile.TemporaryDirectory() as home:
            flow = Workflow(ROOT, run, home=Path(home))
        for table in recorded(ROOT / "reference" / run):
            absent, spec = read_record(table)["absent"], flow.plan.specs[f"table/{table.stem}"]
            samples = {stem: [stem] for stem in spec.get("studies", ())}
            for cell in spec["cells"]:
                samples.setdefault(Cell.parse(cell).capture, []).append(cell)
            for sample in samples.values():
                if kept := [stem for stem in sample if stem not in absent]:
                    cell = made(flow, table.stem, kept)
                    if new := {_kind(cell, job) for job in cell["jobs"]} - seen:
                        seen |= new
                        yield cell


_NAMES = [
    "seed", "salt", "federation_name", "attack_name", "cell", "cells", "studies", "shares", "left_out",
    "scale",
]  # fmt: skip


def _kind(cell: Spec, job: Spec) -> str:
    spec = {key: value for key, value in job["spec"].items() if key not in _NAMES}
    if "dataset" in spec:
        rows, _, channels = spec["dataset"]["shape"]
        spec["dataset"] = [rows == 1, channels]
    if job["verb"] == "attack":
        played = next(each["spec"] for each in cell["jobs"] if each["verb"] == "capture")
        federation, local = played["federation"], played["federation"]["local"]
        several = bool(local["batch_size"] or local["epochs"] > 1)
        batches = [len(federation["clients"]) > 1, max(federation["clients"]) > 1]
        spec["on"] = [played["victim"]["module"], federation["update"], several, batches]
    if job["verb"] == "score":
        spec = {"metrics": sorted({name for each in spec["attacks"].values() for name in each["metrics"]})}
    return json.dumps(_coarse(spec), sort_keys=True)


def _coarse(value: Any) -> Any:
    """Return a value with the type of each number other than 0 and 1 in its place."""
    if isinstance(value, dict):
        return {key: _coarse(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(_coarse(each), sort_keys=True) for each in value}), len(value) > 1
    if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
        return type(value).__name__
    return value


def _listed(given: Spec) -> list[str]:
    return [path for value in given.values() for path in (value if isinstance(value, list) else [value])]


def _form(flow: Workflow, name: str) -> Spec:
    entry = flow.plan.specs[f"fetch/{name}"]
    if name == "lpips-backbones":
        channels = {0: (64, 3, 11), 3: (192, 64, 5), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}
        weights = {}
        for number, (out, into, side) in channels.items():
            weights[f"alex/features.{number}.weight"] = [out, into, side, side]
            weights[f"alex/features.{number}.bias"] = [out]
        return {"weights": weights}
    classes = entry["classes"]
    per = max(IMAGES, 3 * min(classes, 120))
    return _small({"shape": entry["shape"], "classes": classes}) | {"train": per, "test": per}


def _small(dataset: Spec) -> Spec:
    rows, columns, channels = dataset["shape"]
    return dataset | {"shape": [min(rows, 64), columns if rows == 1 else min(columns, 64), channels]}


def _of_attacks(flow: Workflow, experiment: str, cells: Sequence[str]) -> list[Spec]:
    plan, capture = flow.plan, Cell.parse(cells[0]).capture
    dataset, victim, *_, seed = capture.split("/")
    data = f"data/{dataset}.safetensors"
    score = plan.specs[f"score/{capture}"]
    asked = plan.specs[f"table/{experiment}"]["experiment"]
    # The weights of VGG take 60 MB, and unit tests hold that distance to its definition.
    asked = asked | {"metrics": [name for name in asked["metrics"] if "vgg" not in name]}
    meant = {cell.split("/")[-2] for cell in cells}
    metrics = set(asked["metrics"])
    attacks = {
        name: entry | {"metrics": [m for m in entry["metrics"] if m in metrics]}
        for name, entry in score["attacks"].items()
        if name in meant
    }
    judges = [name for name in score["judges"] if any(name in each["judges"] for each in attacks.values())]
    jobs: list[Spec] = []

    def job(verb: str, name: str, spec: Spec, given: Spec, out: Spec) -> None:
        jobs.append({"verb": verb, "name": name, "spec": spec, "in": given, "out": out})

    networks = {}
    for name in (victim, *judges):
        networks[name] = f"victims/{dataset}/{name}.safetensors"
        spec = plan.specs[f"train/{dataset}/{name}/{seed}"]
        job("train", f"train/{name}", spec, {"data": data}, {"out": networks[name]})
    generators: dict[str, str] = {}
    for cell in cells:
        name = plan.generator(cell)
        if name and name not in generators:
            short = name.removeprefix("generator/")
            generators[name] = f"generators/{short.split('/')[-2]}.safetensors"
            served = [networks[victim]] if flow.served(short) else []
            given = {"data": flow.auxiliary(short), "further": flow.private(short), "victim": served}
            out = {"out": generators[name]}
            job("train", f"generator/{short.split('/')[-2]}", plan.specs[name], given, out)
    files = {name: f"{name}.safetensors" for name in ("capture", "oracle", "truth")}
    out = {"out": files["capture"], "oracle": files["oracle"], "truth": files["truth"]}
    given = {"data": data, "victim": networks[victim]}
    job("capture", "capture", plan.specs[f"capture/{capture}"], given, out)
    guesses = {}
    for cell in cells:
        attack = cell.split("/")[-2]
        guesses[attack] = f"guesses/{attack}.safetensors"
        generator = plan.generator(cell)
        given = {"capture": files["capture"], "generator": [generators[generator]] if generator else []}
        given["labels"] = [files["oracle"]] if flow.oracle(cell) else []
        job("attack", f"attack/{attack}", plan.specs[f"attack/{cell}"], given, {"out": guesses[attack]})
    given = {"guesses": [guesses[name] for name in attacks], "truth": files["truth"], "data": data}
    given |= {"victim": networks[victim], "judges": [networks[name] for name in judges]}
    perceptual = any("lpips" in metric for each in attacks.values() for metric in each["metrics"])
    given |= {"backbones": flow.backbones(capture) if perceptual else []}
    job("score", "score", score | {"attacks": attacks, "judges": judges}, given, {"out": "scores.parquet"})
    table = plan.specs[f"table/{experiment}"] | {
        "cells": list(cells),
        "experiment": asked | {"exhibit": None},
    }
    job("table", "table", _bare(table, cells), {"scores": ["scores.parquet"]}, _tables())
    return jobs


def _tables() -> Spec:
    return {"out": "table.csv", "trials": "trials.parquet", "exhibit": "exhibit.safetensors"}


def _bare(table: Spec, stems: Sequence[str]) -> Spec:
    """Return the spec of a table without what it says of other cells."""
    shares = {name: value for name, value in table["shares"].items() if name in stems}
    return table | {"shares": shares, "cells_left_out": {}}


def _of_study(flow: Workflow, experiment: str, sample: Sequence[str]) -> list[Spec]:
    (stem,) = sample
    data = f"data/{stem.partition('/')[0]}.safetensors"
    given = {"data": data, "further": flow.further(stem)}
    study = {"verb": "train", "name": "study", "spec": flow.plan.specs[f"study/{stem}"], "in": given}
    table = flow.plan.specs[f"table/{experiment}"] | {"studies": [stem]}
    given = {"scores": ["study.parquet"], "costs": ["cost.json"]}
    shown = {"verb": "table", "name": "table", "spec": _bare(table, sample), "in": given, "out": _tables()}
    return [study | {"out": {"out": "study.parquet"}}, shown]


def shortened(spec: Spec) -> Spec:
    """Return a spec whose every schedule is scaled to a short length; shares of a length stay as they are."""
    spec = dict(spec)
    if spec.get("victim", {}).get("module") == "resnet20-4":
        parameters = spec["victim"]["parameters"] | {"width": WIDTH}
        spec["victim"] = spec["victim"] | {"parameters": parameters}
    if "attack" in spec:
        spec["attack"] = _attack(spec["attack"])
        spec["null_rounds"] = 1
    if "federation" in spec:
        spec["federation"] = _federation(spec["federation"])
        if spec.get("malicious", {}).get("auxiliary"):
            spec["malicious"] = spec["malicious"] | {"auxiliary": _part(spec["malicious"]["auxiliary"], 100)}
    if "study" in spec:
        training = dict(spec["training"])
        training["rounds"] = min(STUDIED, training["rounds"])
        training["batch_size"] = min(16, training["batch_size"])
        if training["images"]:
            training["images"] = min(training["images"], 120)
        if decay := training["decay"]:
            training["decay"] = decay | {"rounds": [1 + turn for turn in range(len(decay["rounds"]))]}
        spec["training"] = training
        return spec
    for kind in ("victim", "generator"):
        if training := spec.get(kind, {}).get("training"):
            epochs = training["epochs"]
            marks = sorted({_mark(mark, epochs) for mark in training["checkpoints"]})
            training = training | {"epochs": EPOCHS, "checkpoints": marks}
            if kind == "victim":
                training["images"] = 48
            spec[kind] = spec[kind] | {"training": training}
    if "generator" in spec:
        generator = dict(spec["generator"])
        if generator["auxiliary"]:
            most = 100 if generator["module"] == "samples" else 48
            generator["auxiliary"] = _part(generator["auxiliary"], most)
        if generator["module"] == "samples":
            generator["parameters"] = generator["parameters"] | {"each": 4}
        spec["generator"] = generator
    return spec


def _mark(mark: int, epochs: int) -> int:
    """Return the epoch of a short training that stands for one of a long training."""
    return 0 if mark == 0 else EPOCHS if mark >= epochs else 1


def _part(part: Spec, most: int) -> Spec:
    start = min(part["start"], IMAGES // 2)
    return part | {"start": start, "stop": min(part["stop"], start + most)}


def _federation(federation: Spec) -> Spec:
    found = dict(federation)
    step = min(found["local"]["batch_size"] or BATCH, STEP)
    most = 3 * step if found["local"]["batch_size"] else BATCH
    sizes = [min(each, most) for each in found["clients"]]
    # Clients of different sizes are a sweep.
    found["clients"] = [*dict.fromkeys(sizes)][:SWEEP] if len(set(found["clients"])) > 1 else sizes
    found["rounds"] = min(ROUNDS, found["rounds"])
    found["private"] = found["private"] | {"start": 0, "stop": IMAGES}
    local = dict(found["local"])
    if local["batch_size"]:
        local["batch_size"] = step
    local["epochs"] = min(local["epochs"], 2)
    found["local"] = local
    for key, most in (("candidates", CANDIDATES), ("evaluate", 40), ("begins", 1)):
        if found.get(key):
            found[key] = min(found[key], most)
    if isinstance(found["checkpoints"], list):
        last = max(found["checkpoints"])
        found["checkpoints"] = sorted({_mark(mark, last) for mark in found["checkpoints"]})
    return found


def _attack(attack: Spec) -> Spec:
    parameters = dict(attack["parameters"])
    if "iterations" in parameters:
        whole = parameters["iterations"]
        parameters["iterations"] = min(ITERATIONS, whole)
        if parameters.get("decay_over"):
            parameters["decay_over"] = max(round(parameters["decay_over"] / whole * ITERATIONS), 1)
        if "snapshots" in parameters:
            parameters["snapshots"] = min(parameters["snapshots"], 2)
    longest = {
        "epochs": 2, "pairs": 24, "hidden": 40, "batch": 16, "starts": 12, "patience": 4, "samples": 64,
    }  # fmt: skip
    for key, most in longest.items():
        if isinstance(parameters.get(key), int):
            parameters[key] = min(parameters[key], most)
    optimiser = dict(attack["optimiser"])
    for name, most in (("lbfgs", {"memory": MEMORY, "inner": 5}), ("cma-es", {"population": 8})):
        if name in optimiser:
            optimiser[name] = optimiser[name] | {k: min(optimiser[name][k], v) for k, v in most.items()}
    return attack | {"parameters": parameters, "optimiser": optimiser}
