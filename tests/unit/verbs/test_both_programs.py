"""Two programs that run the same sample: the same contents if they compute the same, and others if not."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from played import captured
from project import blobs

from leakbench.artefacts import read_json, write_tensors
from leakbench.catalogue import program
from leakbench.catalogue.code import PACKAGE
from leakbench.errors import UserError
from leakbench.verbs import both_programs
from leakbench.verbs.both_programs import differing
from leakbench.verbs.sampled import Run, inputs_of, shortened, specs_of

ATTACK: dict[str, Any] = {
    "attack": {
        "module": "gradient-matching", "objective": {"cosine": {}}, "unknowns": {"dummies": {}},
        "optimiser": {"adam": {"lr": 0.1}}, "parameters": {"iterations": 5000}, "adaptive": False,
        "epochs": {}, "generator": None, "labels": "row-minimum", "matching": "hungarian",
    },
    "attack_name": "a", "seed": 0, "null_rounds": 20,
}  # fmt: skip
TRAINING = {
    "optimiser": "sgd", "lr": 0.05, "batch_size": 20, "epochs": 100, "checkpoints": [50, 100], "images": None,
    "options": {}, "settled": None,
}  # fmt: skip
CELL, CAPTURE, VICTIM = "made/victim/fed/none/a/0", "made/victim/fed/none/0", "made/victim/0"
GENERATOR = "generator/made/_any/g/0"
STUDY = "made/victim/regime/key-lock/0"
STUDIED: dict[str, Any] = {
    "training": {
        "optimiser": "sgd", "lr": 0.05, "options": {"momentum": 0.9}, "batch_size": 16, "rounds": 200,
        "decay": {"factor": 0.2, "rounds": [60, 120, 160]}, "local_epochs": 1, "clients": 2, "split": "iid",
        "alpha": None, "validation": 0.2, "images": None, "evaluate": 50, "size": None,
        "augmentation": "none", "task": "classification", "beside": [], "tested_on": [],
    },
    "victim": {"module": "lenet-dlg", "parameters": {"norm": "batch"}},
    "defence": {"module": "key-lock", "parameters": {"key_length": 32}},
    "dataset": {"name": "made", "shape": [28, 28, 1], "classes": 10},
    "study": {"dataset": "made", "victim": "victim", "training": "regime", "defence": "key-lock"},
    "seed": 0,
}  # fmt: skip
SCORED = {"metrics": ["mse"], "matching": "best", "judges": [], "decays": False}


def git(folder: Path, *words: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the package in a git repository of its own, committed as it is."""
    folder = tmp_path / "checkout/leakbench"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    git(tmp_path, "init", "--quiet", "checkout")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a")
    for module in (both_programs, program):
        monkeypatch.setattr(module, "PACKAGE", folder)
    return folder


@pytest.fixture
def flow(tmp_path: Path) -> Any:
    """Return a workflow of one cell, whose data set and victim are on disk."""
    captured(tmp_path, clients=(1,))
    played = read_json(tmp_path / "spec.json", "", "") | {"salt": "0" * 32}
    names = {"dataset": "made", "victim": "victim", "federation": "fed", "defence": "none", "seed": 0}
    asked = {"seeds": [0], "metrics": ["mse"], "success": [], "client": None, "exhibit": {"rule": "matched"}}
    network = {"victim": played["victim"] | {"training": None}, "dataset": played["dataset"], "seed": 0}
    specs = {
        f"train/{VICTIM}": network,
        f"capture/{CAPTURE}": played,
        f"attack/{CELL}": ATTACK,
        f"score/{CAPTURE}": {"cell": names, "attacks": {"other": SCORED, "a": SCORED}, "judges": []},
        "table/x": {
            "cells": [CELL, "another"], "scale": "quick", "left_out": "", "cells_left_out": {}, "shares": {},
            "experiment": asked,
        },
    }  # fmt: skip
    for source, path in (("data", "data/made"), ("victim", f"results/quick/victims/{VICTIM}")):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copyfile(tmp_path / f"{source}.safetensors", tmp_path / f"{path}.safetensors")
    return SimpleNamespace(
        root=tmp_path, results="results/quick", specs=specs,
        plan=SimpleNamespace(spec=specs.__getitem__, generator=lambda cell: ""), generator=lambda cell: [],
        oracle=lambda cell: [], backbones=lambda capture: [],
    )  # fmt: skip


def change(package: Path, name: str, before: str, after: str) -> None:
    text = (package / name).read_text()
    assert before in text
    (package / name).write_text(text.replace(before, after))


def test_a_change_of_code_that_changes_no_bit_is_told_from_one_that_does(flow: Any, package: Path) -> None:
    flow.specs[f"train/{VICTIM}"]["victim"]["training"] = TRAINING
    change(package, "training/fit.py", "found.backward()", "(1.0 * found).backward()")
    change(package, "optimisers/adam.py", "lr = self.lr * 0.1 **", "lr = 1.001 * self.lr * 0.1 **")
    assert differing(flow, "x", [[CELL]], "HEAD", 3) == [f"attack/{CELL}", "table", "trials"]


def generated(flow: Any) -> None:
    """Let the attack have a generator, which keeps images of the data set."""
    image = flow.specs[f"train/{VICTIM}"]["dataset"]
    flow.specs[GENERATOR] = {
        "generator": {
            "module": "samples", "parameters": {"each": 2}, "reads": "nothing", "validation": 0.15,
            "auxiliary": {"split": "train", "start": 0, "stop": 40, "dataset": "made"}, "training": None,
            "weights": None,
        },
        "dataset": image, "seed": 0,
    }  # fmt: skip
    flow.plan.generator = lambda cell: GENERATOR
    flow.auxiliary = lambda name: "data/made.safetensors"
    flow.private = flow.served = lambda name: []


def test_both_programs_train_the_generators_of_attacks(flow: Any, package: Path) -> None:
    generated(flow)
    change(package, "generators/samples.py", "nonzero()[:each, 0]", "nonzero()[-each:, 0]")
    assert differing(flow, "x", [[CELL]], "HEAD", 3) == [GENERATOR]


def test_a_generator_of_two_samples_is_trained_once_and_a_table_asks_for_no_absent_score(
    flow: Any, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated(flow)
    flow.specs["table/x"]["experiment"]["metrics"] = ["mse", "psnr"]
    change(package, "tables/attacked.py", '!= "models" and metric in group and', '!= "models" and')
    job = Run.job
    ran: list[str] = []

    def noted(run: Run, name: str, spec: dict[str, Any], given: dict[str, Any]) -> None:
        ran.append(name)
        job(run, name, spec, given)

    monkeypatch.setattr(Run, "job", noted)
    assert differing(flow, "x", [[CELL], [CELL]], "HEAD", 3) == []
    assert (ran.count(GENERATOR), ran.count(f"attack/{CELL}")) == (2, 4)


def test_a_few_rounds_of_a_study_tell_another_program(flow: Any, package: Path) -> None:
    table = flow.specs["table/x"]
    table |= {"studies": [STUDY], "cells": [], "experiment": table["experiment"] | {"exhibit": None}}
    flow.specs[f"study/{STUDY}"] = STUDIED
    flow.further = lambda stem: []
    tensors = {}
    for split, count, seed in (("train", 200, 1), ("test", 80, 2)):
        images, labels = blobs(count, seed)
        tensors |= {f"{split}/images": images[..., None], f"{split}/labels": labels.astype(np.int64)}
    write_tensors(flow.root / "data/made.safetensors", tensors, {})
    falls = '* decay["factor"] ** '
    change(package, "training/federated.py", falls, f"* 1.0 {falls}")
    assert differing(flow, "x", [[STUDY]], "HEAD", 3) == []
    # The published learning rate falls after 60 rounds, and that of the sample at once.
    change(package, "training/federated.py", falls, f"{falls} 1.1 * ")
    apart = differing(flow, "x", [[STUDY]], "HEAD", 3)
    assert {f"study/{STUDY}", "table", "trials"} <= {*apart}


def test_what_is_missing_or_fails_is_one_line(flow: Any, package: Path) -> None:
    (package / "verbs/capture.py").write_text("import no_such")
    with pytest.raises(UserError, match=r"the capture ended with an error by the code below .*no_such"):
        differing(flow, "x", [[CELL]], "HEAD", 3)
    (flow.root / "data/made.safetensors").unlink()
    with pytest.raises(UserError, match=r"made\.safetensors: missing"):
        differing(flow, "x", [[CELL]], "HEAD", 3)


def test_both_programs_read_the_networks_that_the_sampled_attacks_need(flow: Any) -> None:
    generated(flow)
    flow.generator = lambda cell: ["results/quick/generators/g.safetensors"]
    flow.private = lambda name: ["data/private.safetensors"]
    flow.backbones = lambda capture: ["data/lpips.safetensors"]
    score = flow.specs[f"score/{CAPTURE}"]
    score["judges"] = ["asked", "of-others"]
    score["attacks"] = {"other": SCORED | {"judges": ["of-others"]}, "a": SCORED | {"judges": ["asked"]}}
    flow.specs["train/made/asked/0"] = flow.specs[f"train/{VICTIM}"]
    assert inputs_of(flow, "x", [CELL]) == [
        "data/made.safetensors", f"results/quick/victims/{VICTIM}.safetensors",
        "results/quick/victims/made/asked/0.safetensors", "data/lpips.safetensors",
        "data/private.safetensors", "results/quick/generators/g.safetensors",
    ]  # fmt: skip
    assert GENERATOR in specs_of(flow, [CELL])
    own = specs_of(flow, [CELL])[f"score/{CAPTURE}"]
    assert (own["judges"], list(own["attacks"])) == (["asked"], ["a"])


def test_a_study_reads_all_its_data_sets(flow: Any) -> None:
    flow.specs["table/x"]["studies"] = [STUDY]
    flow.further = lambda stem: [f"data/beside-{stem.split('/')[1]}.safetensors"]
    assert inputs_of(flow, "x", [STUDY]) == ["data/made.safetensors", "data/beside-victim.safetensors"]


def test_a_sample_runs_for_no_longer_than_it_would() -> None:
    assert shortened(ATTACK, 3)["attack"]["parameters"]["iterations"] == 3
    assert shortened(ATTACK, 9000)["attack"]["parameters"]["iterations"] == 5000
    assert shortened(ATTACK, 3)["null_rounds"] == 2
    whole = ATTACK | {"attack": {"parameters": {"delta": 1}}}
    assert shortened(whole, 3)["attack"] == whole["attack"]
    assert shortened({"victim": {"training": TRAINING}}, 3)["victim"]["training"]["epochs"] == 1
    assert shortened({"victim": {"training": None}}, 3) == {"victim": {"training": None}}
    of_generator = {"generator": {"module": "cvae", "training": TRAINING}}
    assert shortened(of_generator, 3)["generator"]["training"]["epochs"] == 1
    training = shortened(STUDIED, 3)["training"]
    assert (training["rounds"], training["decay"]["rounds"]) == (4, [1, 2, 3])
    two = STUDIED | {"training": STUDIED["training"] | {"rounds": 2, "decay": None}}
    assert shortened(two, 3) == two
