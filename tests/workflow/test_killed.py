"""Jobs that are killed, terminated or fail: what they leave, and what the next run makes of it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from nightly import daily
from project import CELL, Project


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
