"""Networks and records as people bring them, audited from the first stage to the page; and the tutorial."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apps
import papermill
import pytest
import torch
from project import ROOT
from torch import nn

import leakbench
from leakbench import datasets
from leakbench.base.artefacts import open_tensors
from leakbench.catalogue.load import load_kind
from leakbench.datasets import local


def test_a_network_with_dropout_is_audited_to_the_page() -> None:
    torch.manual_seed(1)
    batch = torch.rand(4, 3, 8, 8), torch.randint(0, 10, (4,))
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 400), nn.ReLU(), nn.Dropout(), nn.Linear(400, 64), nn.ReLU(),
        nn.Dropout(), nn.Linear(64, 10),
    )  # fmt: skip
    found = leakbench.audit(network, nn.CrossEntropyLoss(), batch, 1, "6s", tell=lambda line: None)
    assert (found.about["dropout"], found.about["batch norm by"]) == ("yes", "none")
    assert [each.attack for each in found.found] in (
        ["fidel", "peel", "spear", "invg", "agic"], ["fidel", "peel", "spear"],
    )  # fmt: skip
    assert all(len(each.levels) == 4 for each in found.found)
    assert found.exposed() > 0
    assert found.headline() in found.page()


@pytest.mark.nightly
def test_a_residual_network_of_45_megabytes_stays_within_memory_and_budget(tmp_path: Path) -> None:
    """The command itself ends the audit at 4 GB, or a minute after the budget."""
    pytest.importorskip("torchvision")
    (tmp_path / "my_app.py").write_text(apps.RESNET)
    command = [sys.executable, "-m", "leakbench", "audit", "my_app.py:client", "--out", "out"]
    done = subprocess.run(
        [*command, "--budget", "30s", "--memory", "4g", "--local-steps", "1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    value = json.loads((tmp_path / "out/audit.json").read_text())
    assert value["about"]["parameters"] == 11_181_642
    assert {each["attack"] for each in value["found"]} == {"fidel", "peel", "spear", "invg", "agic"}
    assert all(each["why_not"] or each["trials"] >= 3 for each in value["found"])


def test_people_of_the_census_are_read(tmp_path: Path) -> None:
    """16 people of ADULT, in the numbers that a network reads."""
    search = [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]
    spec = {"name": "adult"} | load_kind(ROOT / "config", "datasets")["adult"].model_dump()
    if not local.available(spec["sources"], search):
        pytest.skip("no folder of LEAKBENCH_DATA holds adult")
    datasets.fetch(spec, tmp_path / "adult.safetensors", search, tmp_path / "scratch")
    tensors, _ = open_tensors(tmp_path / "adult.safetensors")
    people = torch.tensor(tensors["train/images"][:16].reshape(16, -1)).float()
    earns = torch.tensor(tensors["train/labels"][:16]).long()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(people.shape[1], 400), nn.ReLU(), nn.Linear(400, 2))
    found = leakbench.audit(network, nn.CrossEntropyLoss(), (people, earns), 1, "20s", tell=lambda line: None)
    by = {each.attack: each for each in found.found}
    assert by["peel"].count(2) == by["peel"].proven == found.look.predicted["peel"] == 16
    assert found.headline().startswith("Exposed: 16 of 16 records")


def run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[dict[str, Any]]]:
    """Run a notebook in its folder; return what it printed and what it showed."""
    monkeypatch.chdir(ROOT / "notebooks")
    path, out = ROOT / f"notebooks/{name}.ipynb", tmp_path / f"{name}.ipynb"
    done = papermill.execute_notebook(path, out, kernel_name="python3", progress_bar=False)
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = "".join(str(output.get("text", "")) for output in outputs)
    return printed, [output["data"] for output in outputs if "data" in output]


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, shown = run("audit", tmp_path, monkeypatch)
    assert "16 of 16 records are read" in printed
    assert any("<iframe srcdoc=" in each.get("text/html", "") for each in shown)


def test_numpy_alone_reads_sixteen_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, shown = run("numpy-leak", tmp_path, monkeypatch)
    assert "16 of 16 digits came back in every bit, with their labels" in printed
    assert "0 digits are read behind noise" in printed
    assert sum("image/png" in each for each in shown) == 2
    cells = papermill.iorw.load_notebook_node(str(ROOT / "notebooks/numpy-leak.ipynb")).cells
    code = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    used = {alias.name for node in ast.walk(code) if isinstance(node, ast.Import) for alias in node.names}
    # The second draws.
    assert used == {"numpy", "matplotlib.pyplot"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(code))
