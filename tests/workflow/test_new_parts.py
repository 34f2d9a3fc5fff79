"""Each kind of part is added by the files that `leakbench new` writes: planned, run, and nothing else
rerun."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from project import EXPERIMENT, Project

from leakbench.__main__ import main
from leakbench.verbs.new import kinds

MATCHING: dict[str, Any] = {
    "summary": "gradient matching, in five steps",
    "module": "gradient-matching",
    "labels": "counted",
    "objective": ["cosine"],
    "unknowns": "dummies",
    "optimiser": "adam",
    "parameters": {"iterations": 5},
}


@pytest.fixture
def composed(copied: Project) -> Project:
    """Return a finished project with an attack that is composed of parts, not yet run."""
    copied.write("attacks/matching", MATCHING)
    return copied


def table(project: Project, **cells: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Run an experiment of these cells; return its table and the attacks that ran."""
    (product,) = EXPERIMENT["cells"]
    project.write("experiments/added", EXPERIMENT | {"cells": [product | cells], "metrics": ["mse"]})
    ran = project.snakemake("results/quick/tables/added.csv")
    assert ran.rc == 0, ran.text[-3000:]
    frame = pd.read_csv(project.path("results/quick/tables/added.csv"), keep_default_na=False)
    started = [
        line.split()[3] for line in ran.text.splitlines() if line.startswith("Job ") and ": attack " in line
    ]
    return frame, started


def add(project: Project, kind: str, name: str) -> None:
    assert main(["new", kind, name, "--root", str(project.root)]) == 0


@pytest.mark.parametrize("kind", ["objective", "optimiser", "attack"])
def test_a_new_part_of_an_attack_runs_alone(kind: str, composed: Project) -> None:
    table(composed, attack=["matching"])
    add(composed, kind, "my-part")
    frame, _ = table(composed, attack=["matching", "my-part"])
    assert set(frame["attack"]) == {"matching", "my-part"}
    guesses = "results/quick/guesses/tiny/tiny/tiny/none"
    # A finished attack that does not name the part is not run again.
    own, other = (
        composed.path(f"{guesses}/{name}/0.safetensors").stat().st_mtime for name in ("matching", "my-part")
    )
    assert own < other


def test_a_new_defence_is_met_by_plain_and_adaptive_attackers(composed: Project) -> None:
    composed.write("attacks/adaptive", MATCHING | {"adaptive": True})
    add(composed, "defence", "my-part")
    frame, _ = table(composed, defence=["none", "my-part"], attack=["matching", "adaptive"])
    assert set(zip(frame["defence"], frame["attack"], strict=True)) == {
        (defence, attack) for defence in ("none", "my-part") for attack in ("matching", "adaptive")
    }


def test_a_new_victim_is_trained_and_attacked(composed: Project) -> None:
    add(composed, "victim", "my-part")
    frame, _ = table(composed, victim=["my-part"], attack=["fidel"])
    assert set(frame["victim"]) == {"my-part"}


def test_what_new_writes_of_a_data_set_is_planned(composed: Project) -> None:
    add(composed, "dataset", "my-part")
    # In the project's own code, which knows the part.
    ran = composed.snakemake("-n", "data/my-part.safetensors")
    assert ran.rc == 0, ran.text[-3000:]


def test_the_prior_of_batch_norm_statistics_changes_what_is_reconstructed(composed: Project) -> None:
    """A network with running statistics; the prior alone is added."""
    composed.write(
        "victims/normed", {"summary": "batch norm", "module": "lenet-dlg", "parameters": {"norm": "batch"}}
    )
    prior = {"batch-norm-statistics": {"weight": 0.1}}
    composed.write("attacks/statistics", MATCHING | {"objective": ["cosine", prior]})
    frame, _ = table(composed, victim=["normed"], attack=["matching", "statistics"])
    means = frame[frame["baseline"] == ""].groupby("attack")["mean"].first()
    assert means["matching"] != means["statistics"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["atack", "x"], "no kind of part is called 'atack' (did you mean 'attack'"),
        (["attack", "My_Part"], "'My_Part' is no name of a part"),
        (["attack", "../x"], "'../x' is no name of a part"),
        (["attack", "fidel"], "exists already"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    arguments: list[str], says: str, copied: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(copied.root.rglob("*.py"))
    assert main(["new", *arguments, "--root", str(copied.root)]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert sorted(copied.root.rglob("*.py")) == before


def test_there_is_a_template_of_each_kind() -> None:
    assert kinds() == ["attack", "dataset", "defence", "objective", "optimiser", "victim"]
    for path in (Path(__file__).parents[2] / "src/leakbench/templates").rglob("*.txt"):
        assert "NAME" in path.read_text() or "STEM" in path.read_text()
