"""Each kind of part is added by what `leakbench new` writes: planned, run, and nothing else rerun."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from nightly import daily
from project import EXPERIMENT, FEDERATION, Project

from leakbench.__main__ import main
from leakbench.jobs.new import kinds

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


PRIOR = '''"""Brightness: pictures are not black."""

from leakbench.attacks.matching.terms import Prior, differentiated


def brightness(*, weight: float) -> Prior:
    """Return the prior of bright pictures. weight: of the prior in the objective."""
    return Prior(weight, lambda group: differentiated(lambda images: -images.flatten(1).mean(1)))
'''


@pytest.mark.nightly
def test_new_parts_of_every_kind_are_rows_of_the_matrix_within_the_budget(composed: Project) -> None:
    """A term, a prior, an optimiser and a defence with its adaptive attacker, with no line in any scale."""
    add(composed, "objective", "my-term")
    add(composed, "optimiser", "my-optimiser")
    add(composed, "defence", "my-defence")
    composed.path("src/leakbench/attacks/matching/objectives/brightness.py").write_text(PRIOR)
    composed.write("attacks/bright", MATCHING | {"objective": ["cosine", {"brightness": {"weight": 0.1}}]})
    # As long as the default, which no budget of seconds pays for.
    composed.write("attacks/long", MATCHING | {"parameters": {}})
    composed.write("attacks/adaptive", MATCHING | {"adaptive": True})
    budget = {"length": 0.5, "trials": {5: 8}, "training": 8, "total": 2}
    composed.write("scales/quick", {"summary": "tiny", "null_rounds": 1, "budget": budget})
    composed.write("federations/five", FEDERATION | {"clients": [1], "rounds": 9})
    own = {path.stem for path in composed.path("config/attacks").glob("*.yaml")} - {
        "matching", "adaptive", "long", "bright", "my-term", "my-optimiser",
    }  # fmt: skip
    others = {path.stem for path in composed.path("config/defences").glob("*.yaml")} - {"none", "my-defence"}
    (product,) = EXPERIMENT["cells"]
    cells = {"federation": ["five"], "defence": ["all"], "attack": ["all"], "but": sorted(own | others)}
    drawing = {"drawing": "squares", "metrics": ["pearson"], "down": ["attack"], "across": ["defence"]}
    matrix = EXPERIMENT | {"cells": [product | cells], "metrics": ["pearson"], "figure": drawing}
    matrix.pop("exhibit")
    composed.write("experiments/matrix", matrix)
    ran = composed.snakemake("results/quick/figures/matrix.png")
    assert ran.rc == 0, ran.text[-3000:]
    frame = pd.read_csv(composed.path("results/quick/tables/matrix.csv"), keep_default_na=False)
    rows = frame[(frame["baseline"] == "") & (frame["metric"] == "pearson")]
    attacks = {"matching", "adaptive", "bright", "my-term", "my-optimiser"}
    found = set(zip(rows["defence"], rows["attack"], strict=True))
    # Without a defence there is nothing to adapt to.
    assert found == {(d, a) for d in ("none", "my-defence") for a in attacks} - {("none", "adaptive")}
    assert set(rows["n"]) == {5}
    assert composed.path("results/quick/figures/matrix.png").stat().st_size > 5000
    (spec,) = composed.path("results/quick/specs/table").glob("matrix.json")
    left = json.loads(spec.read_text())["cells_left_out"]
    assert {stem.split("/")[4] for stem in left} == {"adaptive", "long"}
    assert "scale quick gives a cell 8 core-seconds" in left["tiny/tiny/five/none/long/0"]
    records = composed.path("results/quick/records").rglob("*.json")
    seconds = sum(json.loads(path.read_text())["seconds"] for path in records if "five" in path.parts)
    assert seconds < 60 * budget["total"]


def test_what_new_writes_of_a_data_set_is_planned(composed: Project) -> None:
    add(composed, "dataset", "my-part")
    # In the project's own code, which knows the part.
    ran = composed.snakemake("-n", "data/my-part.safetensors")
    assert ran.rc == 0, ran.text[-3000:]


def test_there_is_a_template_of_each_kind() -> None:
    assert kinds() == ["attack", "dataset", "defence", "objective", "optimiser", "victim"]
    for path in (Path(__file__).parents[2] / "src/leakbench/templates").rglob("*.txt"):
        assert "NAME" in path.read_text() or "STEM" in path.read_text()
