"""Jobs that are killed, terminated or fail: what they leave, and what the next run makes of it."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pandas as pd
import pytest
from nightly import daily
from project import CELL, Project

from leakbench.base.artefacts import read_table


def until(condition: Callable[[], object], job: subprocess.Popen[str]) -> None:
    """Wait until `condition()` holds while `job` runs."""
    while not condition():
        assert job.poll() is None, job.communicate()
        time.sleep(0.02)


def start(project: Project, *command: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=project.root, env=project.variables(), stdout=pipe, stderr=pipe, text=True
    )


def dawdle(project: Project) -> str:
    """Make the capture wait, while its output is open, after it has written `waiting`; return its command."""
    source = project.path("src/leakbench/federation/play.py")
    text = source.read_text()
    begin = "    local, rounds = federation["
    assert text.count(begin) == 1
    wait = "    import pathlib, time\n    pathlib.Path('waiting').touch()\n    time.sleep(60)\n"
    source.write_text(text.replace(begin, wait + begin))
    return project.logged("capture", "/tiny/").split(" 2> ")[0]


@pytest.mark.parametrize("number", daily([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_a_terminated_job_leaves_nothing_half_written(number: signal.Signals, copied: Project) -> None:
    capture = copied.path(f"results/quick/captures/{CELL}/0.safetensors")
    capture.unlink()
    job = start(copied, sys.executable, *dawdle(copied).split()[1:])
    until(copied.path("waiting").exists, job)
    assert len(copied.leftovers()) == 1
    job.send_signal(number)
    job.communicate(timeout=60)
    assert job.returncode not in (0, 2)
    assert copied.leftovers() == []
    assert not capture.exists()


def test_a_killed_job_leaves_nothing_that_the_next_run_does_not_clear(copied: Project) -> None:
    capture = copied.path(f"results/quick/captures/{CELL}/0.safetensors")
    whole = capture.read_bytes()
    play = copied.path("src/leakbench/federation/play.py")
    text = play.read_text()
    job = start(copied, sys.executable, *dawdle(copied).split()[1:])
    until(copied.path("waiting").exists, job)
    job.kill()
    job.communicate()
    assert len(copied.leftovers()) == 1
    # The old file stands until a whole new one replaces it.
    assert capture.read_bytes() == whole
    play.write_text(text)
    ran = copied.leakbench(*copied.words("capture", "/tiny/"))
    assert ran.rc == 0, ran.text
    assert copied.leftovers() == []
    assert capture.read_bytes() == whole


def scored(project: Project) -> pd.DataFrame:
    """Return the cell's scores without what a clock tells."""
    rows, _ = read_table(project.path(f"results/quick/scores/{CELL}/0.parquet"))
    return rows.drop(columns="seconds")


def whole_run(project: Project) -> subprocess.Popen[str]:
    return start(project, sys.executable, "-m", "snakemake", "--cores", "2")


@pytest.mark.nightly
def test_a_second_run_is_refused_and_a_killed_one_leaves_nothing_but_its_locks(copied: Project) -> None:
    """Kill -9 of Snakemake: its jobs end, `--unlock` opens its locks, and the bytes are the same."""
    capture = copied.path(f"results/quick/captures/{CELL}/0.safetensors")
    whole, scores = capture.read_bytes(), scored(copied)
    capture.unlink()
    play = copied.path("src/leakbench/federation/play.py")
    text = play.read_text()
    dawdle(copied)
    first = whole_run(copied)
    until(copied.path("waiting").exists, first)
    (part,) = copied.leftovers()
    second = copied.snakemake()
    assert second.rc == 1
    assert "no other Snakemake process is trying to create the same files" in second.text
    assert "Traceback" not in second.text
    # Nor does a look at another plan change the specs that the first goes by.
    scale = copied.path("config/scales/quick.yaml")
    settings = scale.read_text()
    scale.write_text(re.sub("null_rounds: [0-9]+", "null_rounds: 7", settings))
    specs = {path: path.read_bytes() for path in copied.path("results/quick/specs").rglob("*.json")}
    other = copied.snakemake("-n")
    assert other.rc == 2
    assert "results/quick/specs: a run with other settings goes on here" in other.text
    assert {path: path.read_bytes() for path in copied.path("results/quick/specs").rglob("*.json")} == specs
    scale.write_text(settings)
    assert first.poll() is None
    assert part.exists()

    assert list(copied.path(".snakemake/locks").glob("*.lock"))
    first.kill()
    first.communicate()
    # The job's own end, by SIGTERM, removes what it was writing.
    end = time.monotonic() + 30
    while part.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    play.write_text(text)
    locked = copied.snakemake()
    assert locked.rc == 1
    assert "--unlock" in locked.text
    assert copied.snakemake("--unlock").rc == 0
    # The code is as it was, so the report asks for nothing. A capture that is asked for has the same bytes.
    third = copied.snakemake("results/quick/report.html", f"results/quick/captures/{CELL}/0.safetensors")
    assert third.rc == 0, third.text[-3000:]
    assert capture.read_bytes() == whole
    pd.testing.assert_frame_equal(scored(copied), scores)
    assert copied.leftovers() == []


def test_a_failing_job_fails_the_run_and_leaves_no_output(copied: Project) -> None:
    source = copied.path("src/leakbench/jobs/score.py")
    source.write_text(
        source.read_text().replace(
            "        made = provenance(", "        raise ZeroDivisionError\n        made = provenance("
        )
    )
    assert "raise ZeroDivisionError" in source.read_text()
    ran = copied.snakemake(f"results/quick/scores/{CELL}/0.parquet")
    assert ran.rc == 1
    assert "ZeroDivisionError" in ran.text
    assert not copied.path(f"results/quick/scores/{CELL}/0.parquet").exists()
    assert copied.leftovers() == []
