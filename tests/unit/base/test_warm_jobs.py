"""Jobs forked from a warm process do what cold ones do, by the command line's own words too."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import specs
from warm_runs import CLIENT, SERVER, SOURCE, Run, until

from leakbench.base.artefacts import read_facts, write_tensors
from leakbench.base.parts import dotted
from leakbench.base.processes.process import OWNER, alive
from leakbench.catalogue.signature import SIGNATURES, part_names
from leakbench.jobs.cli import APART
from leakbench.jobs.warm_process import MANY, of_leakbench


def test_environment_folder_arguments_and_streams_are_the_callers(served: Run, tmp_path: Path) -> None:
    look = (
        "import json, os, sys\n"
        "print(json.dumps({'folder': os.getcwd(), 'environment': dict(os.environ), 'argv': argv[1:],"
        " 'read': sys.stdin.read()}))\n"
        "print('aside', file=sys.stderr)\n"
    )
    environment = served.environment | {"ONLY": "here\udcff", "EMPTY": ""}
    del environment["PATH"]
    words = ("a word", "é", "")
    job = served.client(look, *words, env=environment, cwd=tmp_path)
    out, err = job.communicate("what is read")
    assert (job.returncode, err) == (0, "aside\n")
    seen = json.loads(out)
    assert seen["folder"] == str(tmp_path)
    assert seen["argv"] == list(words)
    assert seen["read"] == "what is read"
    ours = {name: value for name, value in seen["environment"].items() if name != "LC_CTYPE"}
    assert ours == {name: value for name, value in environment.items() if name != "LC_CTYPE"}


def test_each_job_has_a_process_of_its_own_and_sees_nothing_that_another_did(served: Run) -> None:
    assert served.server is not None
    everyone = {served.server.pid}
    for _ in range(2):
        job = served.client("import os, sys; print(os.getpid(), os.getppid(), 'mark' in os.environ, "
                            "hasattr(sys, 'mark')); os.environ['mark'] = '1'; sys.mark = 1")  # fmt: skip
        own, parent, *marked = job.communicate()[0].split()
        assert marked == ["False", "False"]
        everyone |= {job.pid, int(own), int(parent)}
    assert len(everyone) == 7


def test_jobs_run_side_by_side(served: Run, tmp_path: Path) -> None:
    """Each waits for the other's sign, so one after the other they would wait for ever."""
    code = (
        "import time; from pathlib import Path\n"
        "Path(argv[1]).touch()\n"
        "while not Path(argv[2]).exists(): time.sleep(0.01)\n"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    jobs = [served.client(code, one, two), served.client(code, two, one)]
    assert [job.wait(timeout=30) for job in jobs] == [0, 0]
    for job in jobs:
        job.communicate()


ENDS = [
    ("", 0, ""), ("raise SystemExit", 0, ""), ("raise SystemExit(7)", 7, ""),
    ("raise SystemExit('a word')", 1, "a word"), ("1 / 0", 1, "ZeroDivisionError: division by zero"),
]  # fmt: skip
# A job that works apart and is killed is run again (test_warm_ends.py).
KILLED = ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, "")


@pytest.mark.parametrize(
    ("verb", "code", "expected", "last"),
    [*(([], *end) for end in (*ENDS, KILLED)), *(([APART], *end) for end in ENDS)],
)
def test_exit_codes_are_those_of_a_process_of_its_own(
    served: Run, verb: list[str], code: str, expected: int, last: str
) -> None:
    job = served.client(*verb, code)
    out, err = job.communicate(timeout=30)
    assert (job.returncode, out) == (expected, "")
    assert (err.splitlines() or [""])[-1] == last


def test_jobs_of_a_long_run_fork_from_a_process_with_more_loaded(run: Run, tmp_path: Path) -> None:
    """An attack's does not: it has only what it may import."""
    (tmp_path / "extra_library.py").write_text("")
    code = SERVER.replace("run, [])", "run, ['no_such_library'], ['extra_library'])")
    run.folder.mkdir(mode=0o700)
    paths = {"PYTHONPATH": f"{tmp_path}:{run.environment['PYTHONPATH']}"}
    command = [sys.executable, "-c", code, str(run.owner.pid), str(run.folder / "socket")]
    run.server = subprocess.Popen(command, env=run.environment | paths, stderr=subprocess.DEVNULL)
    until(run.ready)
    assert not (run.folder / "loaded").exists()
    for _ in range(MANY):
        run.peer()
    until((run.folder / "loaded").exists)
    asks = "import sys; print('extra_library' in sys.modules)"
    for blind, found in ((True, "False\n"), (False, "True\n")):
        client = CLIENT.replace("sys.argv[1:]", f"sys.argv[1:], blind={blind}")
        words = [sys.executable, "-c", client, asks]
        done = subprocess.run(words, env=run.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, found)
    run.server.kill()
    run.server.wait()

    def gone() -> bool:
        with socket.socket(socket.AF_UNIX) as door:
            return door.connect_ex(str(run.folder / "loaded")) == errno.ECONNREFUSED

    until(gone)


def test_no_room_that_an_attack_may_not_import_is_loaded_before_it() -> None:
    code = (
        "import sys; from leakbench.jobs.warm_process import LIBRARIES\n"
        "from leakbench.base.processes.blinding import _ROOMS\n"
        "for name in LIBRARIES:\n"
        "    if name.startswith('leakbench'): __import__(name)\n"
        "files = [m.__file__ or '' for n, m in sys.modules.items() if n.startswith('leakbench')]\n"
        "print(len(files), [file for file in files if file.startswith(_ROOMS)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, _, rooms = done.stdout.partition(" ")
    assert int(count) > 10
    assert rooms == "[]\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fetch", "--spec", "no such spec.json", "--out", "x"), 2), (("attack", "--help"), 0),
        (("atack",), 2), (("plan", "--scale"), 2),
    ],
)  # fmt: skip
def test_help_and_mistakes_read_the_same(real: Run, words: tuple[str, ...], code: int) -> None:
    cold, hot = real.leakbench(*words, **{OWNER: ""}), real.leakbench(*words)
    assert (hot.returncode, hot.stdout, hot.stderr) == (code, cold.stdout, cold.stderr)
    assert cold.stderr.startswith("leakbench") == bool(code)


def training(folder: Path) -> list[str]:
    """Write what a small training needs; return its words but for the output."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (200, 8, 8, 1), dtype=np.uint8)
    arrays = {"train/images": images, "train/labels": np.arange(200) % 10}
    write_tensors(folder / "data.safetensors", arrays, {"dataset": "made"})
    spec = specs.altered("victim", ("victim.module", "fcnn"), ("victim.parameters", {"dropout": 0.5}))
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


def test_a_killed_warm_process_is_followed_by_another_which_goes_with_its_owner(real: Run) -> None:
    """The last that has this run, since it ends it. The other is gone while it still loads."""
    first, marker = real.peer(), real.folder / "starting"
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first))
    assert (real.folder / "socket").exists()
    cold = real.leakbench("fetch", "--spec", "no such spec.json", "--out", "x")
    assert cold.returncode == 2
    second = int(marker.read_text())
    assert second != first
    assert alive(second)
    real.owner.communicate(b"\n")
    until(lambda: not alive(second), 60)
    until(lambda: not real.folder.exists())


def test_no_file_that_users_add_is_loaded_before_a_job_asks_for_it() -> None:
    loaded = of_leakbench()
    assert len(loaded) > 200
    parts = {dotted(room, name) for room in SIGNATURES for name in part_names(room)}
    assert not parts & {*loaded}
    assert not [name for name in loaded if name.startswith("leakbench.attacks.")]


CALLS = (
    "import leakbench.attacks.class_mean",
    "import_module('leakbench.attacks.label_inference.idlg')",
    "runpy.run_path(os.path.relpath(PACKAGE / 'attacks/class_mean.py'))",
    "path = PACKAGE / 'attacks/class_mean.py'; exec(compile(path.read_text(), path, 'exec'))",
    "os.waitpid(os.fork() or os._exit(0), 0); import leakbench.attacks.matching.unknowns.latent",
)


def test_an_unsealed_process_executes_no_attack() -> None:
    """Each call is refused, and would go through without the guard."""
    code = (
        "import os, runpy\nfrom importlib import import_module\n"
        "from leakbench.base.code import PACKAGE\n"
        "from leakbench.base.processes.blinding import allow_attacks, refuse_attacks\n"
        f"for guard in (refuse_attacks, allow_attacks):\n    for call in {CALLS!r}:\n"
        "        guard()\n"
        "        try: exec(call); print('went through', flush=True)\n"
        "        except PermissionError as refused: print(refused, flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(CALLS), done.stderr
    assert all("runs in no process without a seal" in line for line in lines[: len(CALLS)])
    assert lines[len(CALLS) :] == ["went through"] * len(CALLS)
