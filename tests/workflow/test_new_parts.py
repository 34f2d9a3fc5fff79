"""Each kind of part is added by what `leakbench new` writes: planned, run, and nothing else rerun."""

from typing import Any

import pandas as pd
import pytest
from nightly import daily
from project import EXPERIMENT, Project

from leakbench.__main__ import main
from leakbench.jobs.new import TEMPLATES, kinds

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


def test_a_new_defence_is_met_by_all_attackers_and_a_new_victim_is_trained_and_attacked(
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
