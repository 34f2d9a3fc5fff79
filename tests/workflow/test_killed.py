"""Jobs that are killed, fail or meet a limit: what they leave, and what the next run makes of it."""

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nightly import daily
from project import CELL, Project, Ran, tiny_project


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


R = "results/quick"
FILES = (
    r"file too large \(raise the limit on the size of files \(ulimit -f\), then run the same command again\)"
)
OUT = {
    "fetch": ("/tiny", "data/tiny.safetensors"), "train": ("/tiny/", f"{R}/victims/tiny/tiny/0.safetensors"),
    "capture": ("/tiny/", f"{R}/captures/{CELL}/0.safetensors"),
    "attack": ("/fidel/", f"{R}/guesses/{CELL}/fidel/0.safetensors"),
    "score": ("/fidel/", f"{R}/scores/{CELL}/0.parquet"), "figure": ("/tiny", f"{R}/figures/tiny.png"),
    "report": ("/tiny", f"{R}/report.html"),
}  # fmt: skip
LIMITS = [
    *((verb, "-f 1", FILES) for verb in OUT),
    *((verb, "-v 600000", r"too little memory(: .*)? \(.*ulimit -v\)") for verb in ("train", "attack")),
    ("score", "-n 6", r"too many open files \(.*ulimit -n\)"),
]
# By day each limit once.
DAILY = {("attack", "-f 1"), ("attack", "-v 600000"), ("score", "-n 6")}
CASES = [pytest.param(*case, marks=[pytest.mark.nightly] * (case[:2] not in DAILY)) for case in LIMITS]


@pytest.mark.parametrize(("verb", "limit", "told"), CASES)
def test_a_job_beyond_a_limit_leaves_nothing(verb: str, limit: str, told: str, copied: Project) -> None:
    part, name = OUT[verb]
    command = copied.logged(verb, part).split(" 2> ")[0]
    assert name in shlex.split(command)
    copied.path(name).unlink()
    before = files(copied)
    ran = copied.shell(f"ulimit {limit}; {command}")
    assert ran.rc == 2, ran.text[-2000:]
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"leakbench {verb}: ")
    assert re.search(told, line)
    assert files(copied) == before


def files(project: Project) -> set[Path]:
    return {p for top in ("results", "data", "scratch") for p in project.path(top).rglob("*") if p.is_file()}


VICTIM, MEND = "results/quick/victims/tiny/tiny/0.safetensors", "then run the same command again)"


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    apart = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    if apart.returncode:
        pytest.skip("file systems of a test's own need user namespaces, which this machine does not allow")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return tiny_project(tmp_path_factory.mktemp("disk"))


def on_its_own(project: Project, options: str, command: str, folder: str = "results") -> Ran:
    """Run a command where a folder is a small file system of its own, in memory."""
    project.path(folder).mkdir(exist_ok=True)
    mounted = f"mount -t tmpfs -o {options} none {folder} && {command}"
    return project.run("unshare", "-rm", "sh", "-c", mounted)


def test_a_full_disk_ends_the_run_with_one_line_and_no_half_written_file(project: Project) -> None:
    ran = on_its_own(
        project,
        "size=400k",
        f"{{ python -m snakemake --cores 2 {VICTIM}; echo rc $?; find results -name '*.part'; }}",
    )
    assert "rc 1" in ran.stdout
    assert f"no space left on device (free some space, {MEND}" in ran.text
    assert "Traceback" not in ran.text
    assert ".part" not in ran.stdout


@pytest.mark.parametrize(
    ("folder", "told"),
    [pytest.param("results", "read-only file system", marks=pytest.mark.nightly),
     ("scratch", "scratch: may not be written"),
     pytest.param("logs", "logs: may not be written", marks=pytest.mark.nightly)],
)  # fmt: skip
def test_a_closed_folder_is_said_before_any_job(folder: str, told: str, project: Project) -> None:
    ran = on_its_own(project, "ro", "python -m snakemake --cores 2", folder)
    assert ran.rc == 2
    assert f"{told} (make the folder writable, {MEND}" in ran.text
    assert [line for line in ran.text.splitlines() if "leakbench" in line] == ran.text.splitlines()[-1:]
    assert "Traceback" not in ran.text


def test_a_verb_whose_scratch_may_not_be_written_is_one_line(copied: Project) -> None:
    command = copied.logged("attack", "/fidel/").split(" 2> ")[0]
    ran = on_its_own(copied, "ro", command, "scratch")
    assert ran.rc == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("leakbench attack: ")
    assert line.endswith(f"read-only file system (make the folder writable, {MEND}")
