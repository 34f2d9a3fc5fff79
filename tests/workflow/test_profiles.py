"""The profiles for clusters: every rule has its requests, and Snakemake plans a run by them."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project, Ran

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
