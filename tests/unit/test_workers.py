"""Workers: they end with the process that asked for them, and do not touch what it computes with."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from leakbench.base.processes.workers import Work, one_thread, side_by_side

SLEEPING = """
import os, pathlib, sys, time
from leakbench.base.processes.workers import side_by_side
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

def sleep():
    pathlib.Path(str(os.getpid())).touch()
    time.sleep(60)

side_by_side([sleep, sleep], 2)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_process(number: signal.Signals, tmp_path: Path) -> None:
    job = subprocess.Popen([sys.executable, "-c", SLEEPING], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while len(found := [int(path.name) for path in tmp_path.iterdir()]) < 2:
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    job.send_signal(number)
    job.wait(30)
    for process in found:
        while Path(f"/proc/{process}").exists():
            assert time.monotonic() < deadline, "a worker outlived its process"
            time.sleep(0.02)


def test_a_signal_within_a_fork_is_not_lost(tmp_path: Path) -> None:
    struck = SLEEPING.replace(
        "side_by_side(",
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), 15))\nside_by_side(",
    )
    job = subprocess.run([sys.executable, "-c", struck], cwd=tmp_path, timeout=60)
    assert job.returncode == 143


def test_one_worker_or_one_task_is_left_to_the_caller(tmp_path: Path) -> None:
    def touch() -> None:
        (tmp_path / str(os.getpid())).touch()

    side_by_side([touch, touch], 1)
    side_by_side([touch], 4)
    side_by_side([], 4)
    assert list(tmp_path.iterdir()) == []


def test_only_the_first_worker_shows_progress(capfd: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    side_by_side([lambda: say("one"), lambda: say("two"), lambda: say("three")], 2)
    assert capfd.readouterr().err == "one\nthree\n"


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_parts_of_a_work_have_folders_of_their_own(tmp_path: Path) -> None:
    work = Work(scratch=tmp_path, workers=3)
    one, two = work.part("match client 0, model 1"), work.part("null").part("match client 0, model 1")
    assert one.scratch == tmp_path / "match-client-0-model-1"
    assert two.scratch == tmp_path / "null" / "match-client-0-model-1"
    assert one.workers == two.workers == 3
    assert Work().part("null").scratch is None
