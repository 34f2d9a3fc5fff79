"""Two programs that run the same sample: the same contents if they compute the same, and others if not."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from played import captured

from leakbench.artefacts import read_json
from leakbench.catalogue import program
from leakbench.catalogue.code import PACKAGE
from leakbench.errors import UserError
from leakbench.verbs import both_programs
from leakbench.verbs.both_programs import differing, inputs_of, specs_of

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
        root=tmp_path, results="results/quick", specs=specs, plan=SimpleNamespace(spec=specs.__getitem__),
        generator=lambda cell: [], oracle=lambda cell: [], backbones=lambda capture: [],
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


def test_what_is_missing_or_fails_is_one_line(flow: Any, package: Path) -> None:
    (package / "verbs/capture.py").write_text("import no_such")
    with pytest.raises(UserError, match=r"the capture ended with an error by the code below .*no_such"):
        differing(flow, "x", [[CELL]], "HEAD", 3)
    (flow.root / "data/made.safetensors").unlink()
    with pytest.raises(UserError, match=r"made\.safetensors: missing"):
        differing(flow, "x", [[CELL]], "HEAD", 3)


def test_both_programs_read_the_networks_that_the_sampled_attacks_need(flow: Any) -> None:
    flow.generator = lambda cell: ["results/quick/generators/g.safetensors"]
    flow.backbones = lambda capture: ["data/lpips.safetensors"]
    score = flow.specs[f"score/{CAPTURE}"]
    score["judges"] = ["asked", "of-others"]
    score["attacks"] = {"other": SCORED | {"judges": ["of-others"]}, "a": SCORED | {"judges": ["asked"]}}
    flow.specs["train/made/asked/0"] = flow.specs[f"train/{VICTIM}"]
    assert inputs_of(flow, [CELL]) == [
        "data/made.safetensors", f"results/quick/victims/{VICTIM}.safetensors",
        "results/quick/victims/made/asked/0.safetensors", "data/lpips.safetensors",
        "results/quick/generators/g.safetensors",
    ]  # fmt: skip
    own = specs_of(flow, [CELL])[f"score/{CAPTURE}"]
    assert (own["judges"], list(own["attacks"])) == (["asked"], ["a"])


def test_a_sample_runs_for_no_longer_than_it_would() -> None:
    short = both_programs._shortened
    assert short(ATTACK, 3)["attack"]["parameters"]["iterations"] == 3
    assert short(ATTACK, 9000)["attack"]["parameters"]["iterations"] == 5000
    assert short(ATTACK, 3)["null_rounds"] == 2
    whole = ATTACK | {"attack": {"parameters": {"delta": 1}}}
    assert short(whole, 3)["attack"] == whole["attack"]
    assert short({"victim": {"training": TRAINING}}, 3)["victim"]["training"]["epochs"] == 1
    assert short({"victim": {"training": None}}, 3) == {"victim": {"training": None}}
