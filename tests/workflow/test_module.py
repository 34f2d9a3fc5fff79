"""This workflow as a module of another one, and by the profiles for clusters."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import CELL, ROOT, Project, Ran

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


PROFILES = ROOT / "profiles"


@pytest.fixture(scope="module")
def project(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(sound, sound.parent / "local data").copy(tmp_path_factory.mktemp("profiles"))
    made.environment["HOME"] = str(made.root)
    return made


def planned(project: Project, profile: str, *more: str) -> Ran:
    return project.run("snakemake", "--workflow-profile", profile, "--dry-run", *more)


@pytest.mark.parametrize("name", ["slurm", "kubernetes", "container"])
def test_a_profile_is_complete_without_the_default_one(name: str) -> None:
    own, default = (
        yaml.safe_load((PROFILES / profile / "config.yaml").read_text()) for profile in (name, "default")
    )
    assert {key: own[key] for key in default} == default


def test_every_rule_asks_for_memory_and_time() -> None:
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    found = re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", rules, re.MULTILINE | re.DOTALL)
    assert len(found) >= 10
    for name, body in found:
        assert "mem_mb=" in body, name
        assert "runtime=" in body, name


def test_the_profile_for_slurm_is_planned_and_a_device_asks_for_a_gpu(project: Project) -> None:
    # A rule without a message has its resources printed.
    rule = project.path("workflow/rules/attack.smk")
    text = re.sub(r"    message:\n.*\n", "", rule.read_text(), count=1)
    assert text != rule.read_text()
    rule.write_text(text)
    both = [planned(project, "profiles/slurm", *more) for more in ((), ("--config", "device=cuda"))]
    assert [ran.rc for ran in both] == [0, 0], both[1].text[-3000:]
    assert {"train", "score", "report"} <= both[0].verbs
    asked = [re.findall(r"gpu=(\d+)", ran.text) for ran in both]
    assert asked == [["0", "0"], ["1", "1"]], both[1].text[-3000:]


def test_the_profile_for_kubernetes_is_planned(project: Project) -> None:
    """With its plugin where that is installed; without, all but what the plugin itself reads."""
    told: dict[str, Any] = yaml.safe_load((PROFILES / "kubernetes" / "config.yaml").read_text())
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(need.startswith("snakemake-executor-plugin-kubernetes") for need in extra[told["executor"]])
    profile = "profiles/kubernetes"
    if importlib.util.find_spec("snakemake_executor_plugin_kubernetes") is None:
        kept = {k: v for k, v in told.items() if k != "executor" and not k.startswith("kubernetes-")}
        assert len(kept) == len(told) - 3
        profile = "profiles/without-plugin"
        project.path(profile).mkdir()
        (project.path(profile) / "config.yaml").write_text(yaml.safe_dump(kept))
    project.environment["LEAKBENCH_DATA"] = str(project.data)
    ran = planned(project, profile)
    assert ran.rc == 0, ran.text[-3000:]
    assert {"train", "score", "report"} <= ran.verbs


def test_the_profile_for_a_container_is_planned(project: Project) -> None:
    """Beside an apptainer that only says its version: jobs run in the image, so planning does without."""
    found = project.path("bin/apptainer")
    for path in (found, found.with_name("singularity")):
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\necho apptainer version 1.3.4\n")
        path.chmod(0o755)
    project.environment["PATH"] = f"{found.parent}:{project.environment.get('PATH', os.environ['PATH'])}"
    project.path("leakbench.sif").touch()
    ran = planned(project, "profiles/container")
    assert ran.rc == 0, ran.text[-3000:]
    assert {"train", "score", "report"} <= ran.verbs
