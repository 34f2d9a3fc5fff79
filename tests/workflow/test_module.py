"""This workflow as a module of another one, in a folder of that one's own."""

from pathlib import Path

import pytest
from project import CELL, Project

OUTER = """
module leakbench:
    snakefile:
        {snakefile!r}
    config:
        {{"scale": "quick"}}


use rule * from leakbench as leakbench_*


rule mine:
    default_target: True
    input:
        "results/quick/report.html",
    output:
        "mine.html",
    shell:
        "cp {{input}} {{output}}"
"""


@pytest.fixture
def other(sound: Path, tmp_path: Path) -> Project:
    """Return another workflow's folder, which takes all rules from a checkout where nothing has run."""
    (tmp_path / "Snakefile").write_text(OUTER.format(snakefile=str(sound / "Snakefile")))
    return Project(tmp_path, sound.parent / "local data")


def test_another_workflow_plans_our_rules_behind_its_own(other: Project) -> None:
    ran = other.snakemake("-n")
    assert ran.rc == 0, ran.text[-2000:]
    assert {"train", "attack", "score", "table", "figure", "scorecard", "report"} <= ran.verbs
    assert "rule mine" in ran.text


@pytest.mark.parametrize(
    "key", ['prefix:\n        "inner/"', 'replace_prefix:\n        {"results/": "ours/"}']
)
def test_a_module_with_a_prefix_is_refused_in_one_line(key: str, other: Project) -> None:
    file = other.path("Snakefile")
    file.write_text(file.read_text().replace("    config:\n", f"    {key}\n    config:\n", 1))
    ran = other.snakemake("-n")
    assert ran.rc == 2
    (line,) = (line for line in ran.text.splitlines() if line.startswith("leakbench: "))
    assert line.startswith("leakbench: module: prefix and replace_prefix are not supported (leave them out")
    assert not other.path("results").exists()


@pytest.mark.nightly
def test_another_workflow_makes_results_in_its_own_folder(other: Project, sound: Path) -> None:
    scores = f"results/quick/scores/{CELL}/0.parquet"
    ran = other.snakemake(scores)
    assert ran.rc == 0, ran.text[-2000:]
    assert other.path(scores).is_file()
    assert other.path("data/tiny.safetensors").is_file()
    for made in ("results", "data", "logs", "scratch", ".snakemake"):
        assert not (sound / made).exists(), made
    again = other.snakemake("-n", "--rerun-triggers", "mtime", "input", "--", scores)
    assert "Nothing to be done" in again.text
