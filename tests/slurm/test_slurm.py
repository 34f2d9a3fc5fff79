"""The tiny pipeline on a real Slurm: GPU requests, a job that fails, one that is cancelled, and the run that
takes it up again.

The node, its processors and its GPUs are this machine's on paper (cluster.py); everything between Snakemake
and a job's own process is real.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import slurm, why_not
from project import CELL, EXPERIMENT, FEDERATION, Project, tiny_project

# The plugin asks what became of jobs after as many seconds as a job takes, then ten later each time. A run
# ends with the timespan of its limit, which is a minute in the profile.
SHORT = ["--slurm-init-seconds-before-status-checks", "12", "--latency-wait", "5", "--retries", "0",
         "--max-jobs-per-timespan", "1000/1s"]  # fmt: skip
LIMIT = 400
OTHER = "tiny/tiny/other/none"
SLOW = '''"""Waits to be cancelled."""

import os
import pathlib
import time

import torch

from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def slow(observation: Observation, rng: torch.Generator) -> Reconstruction:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    # In the attack's own folder, for it can open no other.
    pathlib.Path("slow-runs").write_text(gpus)
    time.sleep(60)
    raise TimeoutError("nobody cancelled it")
'''
BROKEN = '''"""Fails."""

import torch

from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def broken(observation: Observation, rng: torch.Generator) -> Reconstruction:
    raise MemoryError("broken on purpose")
'''
MENDED = '''"""Works."""

import torch

from leakbench.attacks.fidel import fidel
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def {}(observation: Observation, rng: torch.Generator) -> Reconstruction:
    return fidel(observation, rng)
'''


@pytest.fixture
def cluster() -> Iterator[Path]:
    if reason := why_not():
        pytest.skip(reason)
    with slurm() as folder:
        yield folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = tiny_project(tmp_path)
    for name, text in (("slow", SLOW), ("broken", BROKEN)):
        made.path(f"src/leakbench/attacks/{name}.py").write_text(text)
        made.write(f"attacks/{name}", {"summary": name, "matching": "best"})
    (product,) = EXPERIMENT["cells"]
    # All attacks on a capture are scored together, so that what fails has a capture of its own.
    made.write("federations/other", FEDERATION)
    cells = [
        product | {"attack": ["fidel"]},
        product | {"federation": ["other"], "attack": ["slow", "broken"]},
    ]
    made.write("experiments/tiny", EXPERIMENT | {"cells": cells})
    return made


def submit(project: Project, log: Path, *targets: str) -> subprocess.Popen[bytes]:
    """Start Snakemake on profiles/slurm, as docs/cluster.md says; its output goes to `log`."""
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm", *SHORT]
    command += ["--set-resources", "attack:gpu=1", "attack:tasks=1", "--", *targets]
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=project.root, env=project.variables(), stdout=out, stderr=out)


def ended(run: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the run's end and return its output; kill it after LIMIT, as SIGTERM would wait for jobs."""
    try:
        run.wait(LIMIT)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        pytest.fail(f"the run hung:\n{log.read_text()[-5000:]}")
    return log.read_text()


def until(condition: Callable[[], object], run: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        if run.poll() is not None or time.monotonic() > end:
            run.kill()
            pytest.fail(log.read_text()[-5000:])
        time.sleep(0.2)


def queue() -> list[tuple[str, str, str, str]]:
    """Return (number, state, GPUs asked for, comment) of every job that Slurm knows of."""
    columns = "JobID:10,State:12,tres-per-job:20,Comment:200"
    told = subprocess.run(
        ["squeue", "--noheader", "--states=all", f"--Format={columns}"], capture_output=True, text=True,
        timeout=20, check=True,
    )  # fmt: skip
    return [tuple(line.split()[:4]) for line in told.stdout.splitlines()]  # type: ignore[misc]


def test_a_job_of_the_pipeline_runs_on_the_cluster(cluster: Path, project: Project, tmp_path: Path) -> None:
    # Data are fetched on this machine.
    victim = "results/quick/victims/tiny/tiny/0.safetensors"
    assert project.snakemake("data/tiny.safetensors").rc == 0
    log = tmp_path / "log"
    run = submit(project, log, victim)
    text = ended(run, log)
    assert run.returncode == 0, text[-3000:]
    assert {state for _, state, *_ in queue()} == {"COMPLETED"}
    assert project.path(victim).is_file()


@pytest.mark.nightly
def test_a_broken_and_cancelled_pipeline_goes_on(cluster: Path, project: Project, tmp_path: Path) -> None:
    guesses = [
        f"results/quick/guesses/{cell}/{name}/0.safetensors"
        for cell, name in ((CELL, "fidel"), (OTHER, "slow"), (OTHER, "broken"))
    ]
    wanted = [f"results/quick/scores/{CELL}/0.parquet", *guesses[1:]]
    # Begun on this machine, for the time it saves.
    begun = project.snakemake("results/quick/victims/tiny/tiny/0.safetensors")
    assert begun.rc == 0, begun.text[-3000:]
    log = tmp_path / "first.log"
    run = submit(project, log, *wanted)
    try:
        until(lambda: list(project.root.rglob("slow-runs")), run, log)
        ((number, state, gpus, _),) = [job for job in queue() if "none_slow" in job[3]]
        assert state == "RUNNING"
        assert gpus in ("gres:gpu:1", "gpu:1")
        (runs,) = project.root.rglob("slow-runs")
        assert runs.read_text() in ("0", "1")
        subprocess.run(["scancel", number], check=True, timeout=20)
        text = ended(run, log)
    finally:
        run.kill()
    # One is cancelled and one fails, whose own log is shown; all that needs neither is there.
    assert run.returncode == 1, text[-3000:]
    assert "too little memory: broken on purpose" in text, text[-9000:]
    assert "CANCELLED" in text
    states = {comment: state for _, state, _, comment in queue()}
    assert len(states) == 6, states
    assert states[f"rule_attack_wildcards_{OTHER.replace('/', '_')}_slow_0"] == "CANCELLED"
    assert states[f"rule_attack_wildcards_{OTHER.replace('/', '_')}_broken_0"] == "FAILED"
    assert sorted(states.values()) == ["CANCELLED", *["COMPLETED"] * 4, "FAILED"]
    assert [project.path(file).exists() for file in wanted] == [True, False, False]
    assert project.leftovers() == []

    for name in ("broken", "slow"):
        project.path(f"src/leakbench/attacks/{name}.py").write_text(MENDED.format(name))
    log = tmp_path / "second.log"
    text = ended(submit(project, log, *guesses), log)
    assert "2 of 2 steps (100%) done" in text, text[-3000:]
    done = re.findall(r"^Job \d+: (.*)$", text, re.MULTILINE)
    assert sorted(line.split()[-1] for line in done) == ["broken", "slow"]
    assert all(project.path(guess).exists() for guess in guesses)
