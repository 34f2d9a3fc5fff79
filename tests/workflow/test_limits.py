"""Limits on a job's files and memory: one line, and nothing half-written is taken for whole."""

import re
import shlex
from pathlib import Path

import pytest
from project import CELL, Project

R = "results/quick"
FILES = (
    r"file too large \(raise the limit on the size of files \(ulimit -f\), then run the same command again\)"
)
OUT = {
    "fetch": ("/tiny", "data/tiny.safetensors"),
    "train": ("/tiny/", f"{R}/victims/tiny/tiny/0.safetensors"),
    "capture": ("/tiny/", f"{R}/captures/{CELL}/0.safetensors"),
    "attack": ("/fidel/", f"{R}/guesses/{CELL}/fidel/0.safetensors"),
    "score": ("/fidel/", f"{R}/scores/{CELL}/0.parquet"),
    "figure": ("/tiny", f"{R}/figures/tiny.png"),
    "report": ("/tiny", f"{R}/report.html"),
}
LIMITS = [
    *((verb, "-f 1", FILES) for verb in OUT),
    *((verb, "-v 600000", r"too little memory(: .*)? \(.*ulimit -v\)") for verb in ("train", "attack")),
    ("score", "-n 6", r"too many open files \(.*ulimit -n\)"),
]
# By day each limit once.
DAILY = {("attack", "-f 1"), ("attack", "-v 600000"), ("score", "-n 6")}
CASES = [pytest.param(*case, marks=[pytest.mark.nightly] * (case[:2] not in DAILY)) for case in LIMITS]


@pytest.mark.parametrize(("verb", "limit", "told"), CASES)
def test_a_job_beyond_a_limit_is_one_line_and_leaves_nothing(
    verb: str, limit: str, told: str, copied: Project
) -> None:
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
    """Return what lies where jobs write."""
    return {p for top in ("results", "data", "scratch") for p in project.path(top).rglob("*") if p.is_file()}
