"""Workers and leases of GPUs: they end with who asked, and are held by one."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from leakbench.base.errors import UserError
from leakbench.base.processes.gpu_lease import leased
from leakbench.base.processes.workers import Crew, one_thread, side_by_side

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
    work = Crew(scratch=tmp_path, workers=3)
    one, two = work.part("match client 0, model 1"), work.part("null").part("match client 0, model 1")
    assert one.scratch == tmp_path / "match-client-0-model-1"
    assert two.scratch == tmp_path / "null" / "match-client-0-model-1"
    assert one.workers == two.workers == 3
    assert Crew().part("null").scratch is None


FORK = multiprocessing.get_context("fork")


def two() -> list[str]:
    return ["GPU-one", "GPU-two"]


def hold(folder: Path, place: Path, done: Path) -> None:
    with leased("cuda", two, folder / "leases") as own:
        place.write_text(own)
        for _ in range(300):
            if done.exists():
                return
            time.sleep(0.05)


def start(folder: Path, count: int) -> tuple[list[multiprocessing.Process], list[Path], Path]:
    # A file and no multiprocessing.Event, which hangs once one who waited for it was killed.
    done = folder / os.urandom(4).hex()
    places = [folder / f"{os.urandom(4).hex()}-{number}" for number in range(count)]
    jobs = [FORK.Process(target=hold, args=(folder, place, done)) for place in places]
    for job in jobs:
        job.start()
    return jobs, places, done


def told(places: list[Path], count: int) -> list[str]:
    """Wait until `count` of the jobs have a device; return theirs."""
    for _ in range(200):
        found = [place.read_text() for place in places if place.exists()]
        if len(found) >= count and all(found):
            return sorted(found)
        time.sleep(0.05)
    raise AssertionError(places)


def test_jobs_never_share_a_device(tmp_path: Path) -> None:
    jobs, places, done = start(tmp_path, 2)
    assert told(places, 2) == ["cuda:0", "cuda:1"]
    # A third waits, and is served when one of them ends, here because it is killed.
    (late,), (place,), own = start(tmp_path, 1)
    time.sleep(0.7)
    assert not place.exists()
    jobs[0].kill()
    assert told([place], 1) == [places[0].read_text()]
    for sign in (done, own):
        sign.touch()
    for job in (*jobs, late):
        job.join(10)
    assert [job.exitcode for job in (*jobs, late)] == [-signal.SIGKILL, 0, 0]


def test_a_named_device_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "leases"
    with leased("cuda:0", two, folder) as named:
        assert named == "cuda:0"
        with leased("cuda", two, folder) as other:
            assert other == "cuda:1"
            with leased("cuda:1", two, folder) as shared:
                assert shared == "cuda:1"
    assert "another job computes there too" in capsys.readouterr().err


def test_devices_are_told_apart_by_name_not_by_number_and_an_error_lets_go(tmp_path: Path) -> None:
    """What one job sees as its first device can be another's second, by CUDA_VISIBLE_DEVICES."""
    with pytest.raises(ValueError, match="stop"), leased("cuda", two, tmp_path / "leases"):
        raise ValueError("stop")
    with leased("cuda", two, tmp_path / "leases") as first:
        assert first == "cuda:0"
        with leased("cuda", lambda: ["GPU-two", "GPU-one"], tmp_path / "leases") as other:
            assert other == "cuda:0"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:2"])
def test_absent_devices_are_one_line(device: str, tmp_path: Path) -> None:
    names = two if device == "cuda:2" else list
    with pytest.raises(UserError, match=f"--device {device}: torch finds (no|2) CUDA device"):
        leased(device, names, tmp_path / "leases").__enter__()


def test_other_users_can_lease_whatever_the_umask_of_the_first(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with leased("cuda", lambda: ["GPU-1"], tmp_path / "leases"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "leases" / "GPU-1").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "leases").stat().st_mode & 0o7777 == 0o1777


def test_a_processor_needs_no_lease(tmp_path: Path) -> None:
    with leased("cpu", two, tmp_path / "leases") as own:
        assert own == "cpu"
    assert not (tmp_path / "leases").exists()
