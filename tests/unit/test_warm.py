"""Jobs forked from a warm process do what cold ones do, end when they are to end, and leave nothing behind."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbench import cli, warm
from leakbench.artefacts import read_facts, write_tensors
from leakbench.warm import OWNER, run_warm

SOURCE = Path(warm.__file__).parents[1]
# What a job does is the Python that it is given, so that a test can look out of one. `touch` says that it is there.
SERVER = """
import sys
from pathlib import Path
from leakbench.warm import serve
def run(argv):
    exec(argv[0], {"argv": argv})
    return 0
serve(int(sys.argv[1]), Path(sys.argv[2]), run, [])
"""
CLIENT = """
import sys
from leakbench.warm import run_warm
code = run_warm(sys.argv[1:])
if code is None:
    print("cold")
    code = 99
sys.exit(code)
"""


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # Whoever is dead but not yet taken note of is dead.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


class Run:
    """A run of jobs: a process that owns it, a short folder for its socket, and clients of it."""

    def __init__(self) -> None:
        # A socket's address has room for some hundred letters, which a test's own folder may exceed.
        self.temporary = Path(tempfile.mkdtemp(prefix="lb"))
        self.owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.server: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return self.temporary / f"leakbench-{os.getuid()}-{self.owner.pid}"

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in warm._CONTAINERS}
        paths = {"TMPDIR": str(self.temporary), "PYTHONPATH": str(SOURCE)}
        return own | paths | {OWNER: str(self.owner.pid)}

    def serve(self) -> None:
        """Start a warm process whose jobs are Python."""
        self.folder.mkdir(mode=0o700)
        command = [sys.executable, "-c", SERVER, str(self.owner.pid), str(self.folder / "socket")]
        self.server = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        until(self.ready)

    def ready(self) -> bool:
        return self.peer() is not None

    def peer(self) -> int | None:
        """Return the process that listens, if any does."""
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.connect(str(self.folder / "socket"))
            except OSError:
                return None
            credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def client(self, code: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        options = {
            "env": self.environment,
            "stdin": pipe,
            "stdout": pipe,
            "stderr": pipe,
            "text": True,
        } | options
        return subprocess.Popen([sys.executable, "-c", CLIENT, code, *words], **options)

    def leakbench(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "leakbench", *words]
        environment = {n: v for n, v in (self.environment | changes).items() if v}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def end(self) -> None:
        if self.owner.poll() is None:
            self.owner.communicate(b"\n")
        if self.server is not None:
            self.server.wait(timeout=30)
        until(lambda: self.peer() is None)
        shutil.rmtree(self.temporary)


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def warmed(run: Run) -> Run:
    run.serve()
    return run


@pytest.fixture(scope="module")
def real() -> Iterator[Run]:
    """Return a run whose first job has left the real warm process behind."""
    made = Run()
    try:
        first = made.leakbench("fetch", "--spec", "no such spec.json", "--out", "x")
        assert first.returncode == 2
        until(made.ready, 120)
        yield made
    finally:
        made.end()


def test_environment_folder_arguments_and_streams_are_the_callers(warmed: Run, tmp_path: Path) -> None:
    look = (
        "import json, os, sys\n"
        "print(json.dumps({'folder': os.getcwd(), 'environment': dict(os.environ), 'argv': argv[1:],"
        " 'read': sys.stdin.read()}))\n"
        "print('aside', file=sys.stderr)\n"
    )
    environment = warmed.environment | {"ONLY": "here\udcff", "EMPTY": ""}
    del environment["PATH"]
    words = ("a word", "é", "")
    job = warmed.client(look, *words, env=environment, cwd=tmp_path)
    out, err = job.communicate("what is read")
    assert (job.returncode, err) == (0, "aside\n")
    seen = json.loads(out)
    assert seen["folder"] == str(tmp_path)
    assert seen["argv"] == list(words)
    assert seen["read"] == "what is read"
    ours = {name: value for name, value in seen["environment"].items() if name != "LC_CTYPE"}
    assert ours == {name: value for name, value in environment.items() if name != "LC_CTYPE"}


def test_a_jobs_process_is_neither_the_callers_nor_the_warm_one(warmed: Run) -> None:
    jobs = [warmed.client("import os; print(os.getpid(), os.getppid())") for _ in range(2)]
    found = [[int(word) for word in job.communicate()[0].split()] for job in jobs]
    assert warmed.server is not None
    everyone = {warmed.server.pid, *(job.pid for job in jobs), *found[0], *found[1]}
    assert len(everyone) == 7


def test_one_job_does_not_see_what_another_did(warmed: Run) -> None:
    for _ in range(2):
        job = warmed.client("import os, sys; print('mark' in os.environ, hasattr(sys, 'mark'));"
                            "os.environ['mark'] = '1'; sys.mark = 1; os.chdir('/')")  # fmt: skip
        assert job.communicate()[0] == "False False\n"


def test_jobs_run_side_by_side(warmed: Run, tmp_path: Path) -> None:
    """Each waits for the other's sign, so one after the other they would wait for ever."""
    code = (
        "import time; from pathlib import Path\n"
        "Path(argv[1]).touch()\n"
        "while not Path(argv[2]).exists(): time.sleep(0.01)\n"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    jobs = [warmed.client(code, one, two), warmed.client(code, two, one)]
    assert [job.wait(timeout=30) for job in jobs] == [0, 0]
    for job in jobs:
        job.communicate()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('a word')", 1),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_exit_codes_are_those_of_a_process_of_its_own(warmed: Run, code: str, expected: int) -> None:
    job = warmed.client(code)
    out, err = job.communicate()
    assert job.returncode == expected
    assert out == ""
    if "word" in code:
        assert err == "a word\n"
    elif "1 / 0" in code:
        assert err.endswith("ZeroDivisionError: division by zero\n")
    else:
        assert err == ""


DAWDLE = (
    "import os, time; from pathlib import Path\nPath(argv[1]).write_text(str(os.getpid()))\ntime.sleep(600)\n"
)
TIDY = (
    "import signal, sys\nfor n in (signal.SIGTERM, signal.SIGINT): signal.signal(n, lambda n, _: sys.exit(128 + n))\n"
    "try:\n" + "".join(f"    {line}\n" for line in DAWDLE.splitlines()) + "finally:\n    print('cleaned')\n"
)


def begun(path: Path) -> int:
    """Wait for a dawdling job and return its process."""
    until(lambda: path.is_file() and path.read_text())
    return int(path.read_text())


def passes_on(caller: int) -> bool:
    """Return whether a caller has come to pass signals on: the last of them is one that Python leaves alone."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{caller}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (signal.SIGHUP - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_caller_ends_the_job(warmed: Run, number: signal.Signals, tmp_path: Path) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever runs the tests (nohup) has them ignore it, and so do all jobs")
    code = DAWDLE if number == signal.SIGHUP else TIDY
    job = warmed.client(code, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    assert worker != job.pid
    # Before it passes signals on, the caller ends by them itself, and the job with it.
    until(lambda: passes_on(job.pid))
    job.send_signal(number)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 128 + number
    assert out == ("" if number == signal.SIGHUP else "cleaned\n")
    assert err == ""
    until(lambda: not alive(worker), 5)


def test_a_job_that_has_no_handler_yet_ends_with_15_too(warmed: Run, tmp_path: Path) -> None:
    job = warmed.client(DAWDLE, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    until(lambda: passes_on(job.pid))
    job.terminate()
    job.communicate(timeout=30)
    assert job.returncode == 128 + signal.SIGTERM
    until(lambda: not alive(worker), 5)


def test_a_killed_caller_takes_its_job_along(warmed: Run, tmp_path: Path) -> None:
    job = warmed.client(TIDY, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    job.kill()
    # What the job prints last, it prints as one that was terminated.
    assert job.communicate(timeout=30)[0] == "cleaned\n"
    until(lambda: not alive(worker), 5)
    assert warmed.ready()


def test_a_job_whose_keeper_is_killed_is_ended_before_it_is_run_again(warmed: Run, tmp_path: Path) -> None:
    """Two processes must not write one file."""
    job = warmed.client(DAWDLE, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    keeper = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert job.communicate(timeout=30)[0] == "cold\n"
    assert not alive(worker)


def test_the_warm_process_is_gone_soon_after_its_owner(run: Run) -> None:
    run.serve()
    assert run.server is not None
    run.owner.communicate(b"\n")
    assert run.server.wait(timeout=5) == 0
    assert not run.folder.exists()


def test_a_job_outlives_nobody_but_its_caller(warmed: Run, tmp_path: Path) -> None:
    """The owner's end does not break off what still runs."""
    job = warmed.client("import time; from pathlib import Path\nPath(argv[1]).write_text('1')\ntime.sleep(3)\nprint('done')",
                        str(tmp_path / "pid"))  # fmt: skip
    begun(tmp_path / "pid")
    warmed.owner.communicate(b"\n")
    assert warmed.server is not None
    warmed.server.wait(timeout=5)
    assert job.communicate(timeout=30)[0] == "done\n"
    assert job.returncode == 0


@pytest.mark.parametrize("value", ["", "no number", "-1", None])
def test_without_an_owner_nothing_is_started(run: Run, value: str | None) -> None:
    done = run.leakbench("fetch", "--spec", "no such spec.json", "--out", "x", **{OWNER: value or ""})
    assert done.returncode == 2
    assert list(run.temporary.iterdir()) == []


@pytest.mark.parametrize("name", warm._CONTAINERS)
def test_a_container_has_libraries_of_its_own(run: Run, name: str) -> None:
    done = run.leakbench("fetch", "--spec", "no such spec.json", "--out", "x", **{name: "image.sif"})
    assert done.returncode == 2
    assert list(run.temporary.iterdir()) == []


def inside(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process stand where the run's clients stand."""
    monkeypatch.setenv(OWNER, str(run.owner.pid))
    monkeypatch.setattr(tempfile, "tempdir", str(run.temporary))
    for name in warm._CONTAINERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(warm, "_leave_behind", lambda *_: pytest.fail("a refused folder was used"))


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o777])
def test_a_folder_that_others_may_enter_is_refused(
    run: Run, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.folder.mkdir()
    run.folder.chmod(mode)
    inside(run, monkeypatch)
    assert run_warm(["plan"]) is None
    assert list(run.folder.iterdir()) == []


def test_a_folder_of_another_user_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    (run.temporary / f"leakbench-{other}-{run.owner.pid}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: other)
    inside(run, monkeypatch)
    assert run_warm(["plan"]) is None


@pytest.mark.parametrize("what", ["link", "file"])
def test_what_is_no_folder_is_refused(run: Run, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "link":
        (run.temporary / "elsewhere").mkdir(mode=0o700)
        run.folder.symlink_to("elsewhere")
    else:
        run.folder.touch(mode=0o600)
    inside(run, monkeypatch)
    assert run_warm(["plan"]) is None


def test_the_folder_is_closed_to_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(run, monkeypatch)
    before = os.umask(0)
    try:
        warm._address(run.owner.pid)
    finally:
        os.umask(before)
    assert run.folder.stat().st_mode & 0o777 == 0o700


def test_an_address_that_is_too_long_leaves_the_job_cold(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(run, monkeypatch)
    deep = run.temporary / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert run_warm(["plan"]) is None


def test_of_jobs_that_start_together_one_leaves_a_process_behind(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = warm._leave_behind
    inside(run, monkeypatch)
    started: list[list[str]] = []
    monkeypatch.setattr(warm, "_leave_behind", leave)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    assert [run_warm(["plan"]) for _ in range(3)] == [None] * 3
    assert len(started) == 1


def test_a_job_that_asks_for_threads_runs_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(cli, "run_warm", lambda argv: asked.append(list(argv)) or 0)
    monkeypatch.setattr(cli, "_run", lambda _: None)
    for words in (["--threads", "1"], ["--threads=1"]):
        assert cli.main(["plan", *words]) == 0
    assert asked == []
    assert cli.main(["plan"]) == 0
    assert asked == [["plan"]]


def test_a_users_mistake_reads_the_same(real: Run) -> None:
    words = ("fetch", "--spec", "no such spec.json", "--out", "x")
    cold, hot = real.leakbench(*words, **{OWNER: ""}), real.leakbench(*words)
    assert (hot.returncode, hot.stdout, hot.stderr) == (2, "", cold.stderr)
    assert cold.stderr.startswith("leakbench fetch: no such spec.json: no such spec")


@pytest.mark.parametrize("words", [("attack", "--help"), ("atack",), ("plan", "--scale")])
def test_help_and_wrong_command_lines_read_the_same(real: Run, words: tuple[str, ...]) -> None:
    cold, hot = real.leakbench(*words, **{OWNER: ""}), real.leakbench(*words)
    assert (hot.returncode, hot.stdout, hot.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def training(folder: Path) -> list[str]:
    """Write what a small training needs; return its words but for the output."""
    rng = np.random.default_rng(0)
    arrays = {
        "train/images": rng.integers(0, 256, (200, 8, 8, 1), dtype=np.uint8),
        "train/labels": np.arange(200) % 10,
    }
    write_tensors(folder / "data.safetensors", arrays, {"dataset": "made"})
    spec = {
        "victim": {
            "module": "fcnn",
            "parameters": {"dropout": 0.5},
            "training": {
                "optimiser": "adam", "lr": 0.01, "options": {}, "batch_size": 20, "epochs": 2, "checkpoints": [0, 2],
                "images": None,
            },
        },
        "dataset": {"name": "made", "shape": [8, 8, 1], "classes": 10},
        "seed": 0,
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    return ["train", "--spec", str(folder / "spec.json"), "--data", str(folder / "data.safetensors"),
            "--root", str(folder)]  # fmt: skip


def test_a_warm_job_writes_the_bytes_of_a_cold_one(real: Run, tmp_path: Path) -> None:
    words = training(tmp_path)
    cold = real.leakbench(*words, "--out", str(tmp_path / "cold.safetensors"), **{OWNER: ""})
    assert (cold.returncode, cold.stdout) == (0, ""), cold.stderr
    # Where this torch comes first, a process that loads it anew fails.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise RuntimeError('loaded anew')")
    paths = f"{tmp_path / 'broken'}:{SOURCE}"
    hot = real.leakbench(*words, "--out", str(tmp_path / "hot.safetensors"), PYTHONPATH=paths)
    assert (hot.returncode, hot.stdout, hot.stderr) == (0, "", cold.stderr)
    assert (tmp_path / "hot.safetensors").read_bytes() == (tmp_path / "cold.safetensors").read_bytes()
    assert read_facts(tmp_path / "hot.safetensors")["checkpoints"] == [0, 2]
    again = real.leakbench(*words, "--out", str(tmp_path / "x"), PYTHONPATH=paths, **{OWNER: ""})
    assert "loaded anew" in again.stderr


def test_the_real_warm_process_goes_with_its_owner() -> None:
    made = Run()
    try:
        made.leakbench("fetch", "--spec", "no such spec.json", "--out", "x")
        until(made.ready, 120)
        server = made.peer()
        assert server is not None
        made.owner.communicate(b"\n")
        until(lambda: not alive(server), 5)
        assert not made.folder.exists()
    finally:
        made.end()
