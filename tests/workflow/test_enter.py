"""What a user adds: `leakbench enter` of one file, and each kind of part that `leakbench new` writes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from nightly import daily
from project import EXPERIMENT, Project, tiny_project

from leakbench.base.artefacts import write_json
from leakbench.jobs.cli import main
from leakbench.jobs.new import TEMPLATES, kinds

HALVE = '''"""Send half of every coordinate."""

from leakbench.defences import Defence, per_tensor


def halve() -> Defence:
    """Send every coordinate halved."""
    return per_tensor(lambda value, rng: value * 0.5)
'''


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = tiny_project(tmp_path_factory.mktemp("entered"))
    cells = [{"dataset": ["tiny"], "victim": ["tiny"], "federation": ["tiny"], "defence": ["none"],
              "attack": ["fidel"]}]  # fmt: skip
    agreed = {key: EXPERIMENT[key] for key in ("item", "title", "shows", "figure")}
    project.write("experiments/leakbench-entries", agreed | {"cells": cells, "metrics": ["ssim"]})
    project.path("halve.py").write_text(HALVE)
    ran = project.leakbench("enter", "halve.py", "--scale", "quick", "--cores", "2")
    assert ran.rc == 0, ran.text[-3000:]
    assert ran.stdout.splitlines() == ["entries/halve.json"]
    return project


def test_an_entry_has_the_defence_and_its_numbers(entered: Project) -> None:
    entry = json.loads(entered.path("entries/halve.json").read_text())
    assert (entry["name"], entry["summary"]) == ("halve", "Send half of every coordinate.")
    assert entry["source"] == HALVE
    assert {line["defence"] for line in entry["lines"]} == {"none", "halve"}
    assert all(0 <= line["mean"] <= 1 and line["n"] for line in entry["lines"])
    assert (
        "[halve](halve.json): Send half of every coordinate." in entered.path("entries/README.md").read_text()
    )
    # Nothing of the run is left, and the catalogue has no further defence.
    assert not list(entered.path("scratch/enter").iterdir())
    assert not entered.path("config/defences/halve.yaml").exists()


GREY = '''"""Guess mid-grey."""

import torch

from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def grey(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Return one grey image for each update."""
    places = (observation.rounds, len(observation.clients), 1)
    grey = torch.full((*places, *observation.pixels), 0.5)
    return Reconstruction(grey, torch.ones(places, dtype=torch.bool))
'''


def test_an_attack_stands_beside_the_best_recorded_one(entered: Project) -> None:
    table = entered.path("reference/quick/leakbench-entries.csv")
    table.parent.mkdir(parents=True)
    table.write_text(
        "dataset,victim,defence,attack,client,local_samples,baseline,metric,mean,ci_low,ci_high,n,failure_rate\n"
        "tiny,tiny,none,fidel,0,1,,ssim,0.99,0.98,1,5,0\n"
    )
    entered.path("grey.py").write_text(GREY)
    ran = entered.leakbench("enter", "grey.py", "--scale", "quick", "--cores", "2", "--networks", "2")
    assert ran.stdout.splitlines() == ["entries/grey.json"], ran.text[-3000:]
    entry = json.loads(entered.path("entries/grey.json").read_text())
    assert (entry["kind"], {line["attack"] for line in entry["lines"]}) == ("attack", {"grey"})
    board = entered.path("entries/README.md").read_text()
    assert "| fidel 0.990 (0.980 to 1.000) |" in board
    assert f"| {entry['lines'][0]['n']} of 2 networks |" in board
    ran = entered.leakbench("enter", "grey.py", "--attacker", "halve.py", "--scale", "quick")
    assert (ran.rc, ran.text) == (
        2,
        "leakbench enter: --attacker halve.py: grey.py is an attack itself (leave it out)\n",
    )
    entered.path("entries/grey.json").unlink()


@pytest.mark.nightly
def test_an_entry_that_is_run_again_gives_its_numbers_or_fails(entered: Project, tmp_path: Path) -> None:
    ran = entered.leakbench("enter", "--check", "entries/halve.json", "--cores", "2")
    entry = json.loads(entered.path("entries/halve.json").read_text())
    assert (ran.rc, ran.stdout) == (0, f"halve: {len(entry['lines'])} identical\n"), ran.text[-2000:]
    own = next(line for line in entry["lines"] if line["defence"] == "halve")
    own |= {"mean": 0.9 - own["mean"], "ci_low": None, "ci_high": None}
    del entry["leakbench-sha256"]
    write_json(tmp_path / "halve.json", entry)
    ran = entered.leakbench("enter", "--check", str(tmp_path / "halve.json"), "--cores", "2")
    assert (ran.rc, "1 different" in ran.stdout) == (1, True), ran.text[-2000:]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("halve.py", "def halve(:", "halve.py: is no Python file"), ("Halve.py", HALVE, "is no name of a part"),
     ("clip.py", HALVE.replace("halve", "clip"), "clip: leakbench has another defence of this name"),
     ("fail.py", HALVE, "fail.py: has no function 'fail'"),
     ("large.py", "#" * 100_001, "larger than 100000 bytes")],
)  # fmt: skip
def test_a_file_that_is_no_defence_is_one_line(
    entered: Project, tmp_path: Path, name: str, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    before = entered.path("entries/halve.json").read_bytes()
    assert main(["enter", str(tmp_path / name), "--scale", "quick", "--root", str(entered.root)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert [path.name for path in entered.path("entries").glob("*.json")] == ["halve.json"]
    assert entered.path("entries/halve.json").read_bytes() == before


MATCHING: dict[str, Any] = {
    "summary": "gradient matching, in five steps", "module": "gradient-matching", "labels": "counted",
    "objective": ["cosine"], "unknowns": "dummies", "optimiser": "adam", "parameters": {"iterations": 5},
}  # fmt: skip


@pytest.fixture
def composed(copied: Project) -> Project:
    """Return a finished project with an attack that is composed of parts, not yet run."""
    copied.write("attacks/matching", MATCHING)
    return copied


def table(project: Project, *cells: dict[str, list[str]]) -> pd.DataFrame:
    """Run an experiment of these cells and return its table."""
    (product,) = EXPERIMENT["cells"]
    products = [product | own for own in cells]
    project.write("experiments/added", EXPERIMENT | {"cells": products, "metrics": ["mse"]})
    ran = project.snakemake("results/quick/tables/added.csv")
    assert ran.rc == 0, ran.text[-3000:]
    return pd.read_csv(project.path("results/quick/tables/added.csv"), keep_default_na=False)


def add(project: Project, kind: str, name: str) -> None:
    assert main(["new", kind, name, "--root", str(project.root)]) == 0


@pytest.mark.parametrize("kind", daily(["objective", "optimiser", "attack"], ["attack"]))
def test_a_new_part_of_an_attack_runs_alone(kind: str, composed: Project) -> None:
    table(composed, {"attack": ["matching"]})
    add(composed, kind, "my-part")
    frame = table(composed, {"attack": ["matching", "my-part"]})
    assert set(frame["attack"]) == {"matching", "my-part"}
    guesses = "results/quick/guesses/tiny/tiny/tiny/none"
    # A finished attack that does not name the part is not run again.
    own, other = (
        composed.path(f"{guesses}/{name}/0.safetensors").stat().st_mtime for name in ("matching", "my-part")
    )
    assert own < other


def test_a_new_defence_meets_all_attackers_and_a_new_victim_is_attacked(
    composed: Project,
) -> None:
    composed.write("attacks/adaptive", MATCHING | {"adaptive": True})
    add(composed, "defence", "my-part")
    add(composed, "victim", "my-victim")
    defended = {"defence": ["none", "my-part"], "attack": ["matching", "adaptive"]}
    frame = table(composed, defended, {"victim": ["my-victim"], "attack": ["fidel"]})
    # Without a defence there is nothing to adapt to.
    cells = {("tiny", "none", "matching"), ("tiny", "my-part", "matching"), ("tiny", "my-part", "adaptive")}
    cells |= {("my-victim", "none", "fidel")}
    assert {*zip(frame["victim"], frame["defence"], frame["attack"], strict=True)} == cells


def test_what_new_writes_of_a_data_set_is_planned(composed: Project) -> None:
    add(composed, "dataset", "my-part")
    # In the project's own code, which knows the part.
    ran = composed.snakemake("-n", "data/my-part.safetensors")
    assert ran.rc == 0, ran.text[-3000:]


def test_there_is_a_template_of_each_kind() -> None:
    assert kinds() == ["attack", "dataset", "defence", "objective", "optimiser", "victim"]
    for path in TEMPLATES.rglob("*.txt"):
        assert "NAME" in path.read_text() or "STEM" in path.read_text()
