"""What an attack's process can open: its own folder and the libraries, whatever way it tries."""

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.artefacts import creating, read_json, read_tensors, write_json
from leakbench.base.errors import Altered, UserError
from leakbench.base.processes import blinding
from leakbench.base.processes.blinding import _forked, apart, seal
from leakbench.base.processes.warm import LENGTH, receive
from leakbench.base.processes.workers import side_by_side
from leakbench.base.whole import UNSEALED
from leakbench.jobs.warm_process import serve

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.open  # noqa: B018 - looked up beforehand, as an attack's file could not


def by_foreign_function(path: Path) -> None:
    file = LIBC.open(str(path).encode(), os.O_RDONLY)
    if file < 0:
        raise OSError(ctypes.get_errno(), "foreign")
    os.close(file)


def by_a_fork(path: Path) -> None:
    """Read in a worker, which hands over by its folder what it found."""
    side_by_side([lambda: Path("found").write_bytes(path.read_bytes()), lambda: None], 2)
    Path("found").read_bytes()


def by_another_name(path: Path) -> None:
    os.link(path, "linked")
    Path("linked").read_bytes()


def by_another_place(path: Path) -> None:
    os.rename(path, "moved")
    Path("moved").rename(path)


def by_the_warm_process(path: Path) -> None:
    """Have the process that jobs fork from read it: it is not sealed, and answers where it is told to."""
    with socket.socket(socket.AF_UNIX) as stream, open("answer", "w+b") as answer:
        stream.connect(str(path.with_name("socket")))
        order = {"argv": [str(path)], "folder": str(path.parent), "environment": {}}
        text = json.dumps(order).encode()
        socket.send_fds(stream, [LENGTH.pack(len(text))], [answer.fileno()] * 3)
        stream.sendall(text)
        receive(stream, 2 * LENGTH.size)
        assert answer.seek(0, os.SEEK_END) == 64


# The truth is a folder's file of 64 bytes; each way raises where it is refused.
WAYS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: path.read_bytes(),
    "os.open": lambda path: os.open(path, os.O_RDONLY),
    "climb": lambda path: Path(os.path.relpath(path)).read_bytes(),
    "proc": lambda path: Path(f"/proc/self/root{path}").read_bytes(),
    "list": lambda path: os.listdir(path.parent),
    "scan": lambda path: list(os.scandir(path.parent)),
    "numpy": lambda path: np.fromfile(path, np.uint8),
    "map": lambda path: np.memmap(path, np.uint8, "r"),
    "torch": lambda path: torch.from_file(str(path), size=64, dtype=torch.uint8),
    "program": lambda path: subprocess.check_output(["cat", path]),
    "shell": lambda path: os.system(f"cat '{path}' > copy") and [][1],
    "foreign": by_foreign_function,
    "fork": by_a_fork,
    "link": by_another_name,
    "warm": by_the_warm_process,
    "move": by_another_place,
}
# What the kernel alone can refuse: Python has no part in it.
KERNEL = {"torch", "foreign"}


def shown(argv: Sequence[str]) -> int:
    """Stands for a verb that prints a file."""
    os.write(1, Path(argv[0]).read_bytes())
    return 0


@pytest.fixture
def truth(tmp_path: Path) -> Iterator[Path]:
    """Return a file; a warm process's socket lies beside it."""
    (tmp_path / "truth").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "truth/0").write_bytes(bytes(64))
    warm = os.fork()
    if warm == 0:
        serve(os.getppid(), tmp_path / "truth/socket", shown, [])
        os._exit(0)
    while not (tmp_path / "truth/socket").exists():
        time.sleep(0.01)
    yield tmp_path / "truth/0"
    os.kill(warm, signal.SIGKILL)
    os.waitpid(warm, 0)


def tried(truth: Path, closed: Callable[[], object]) -> dict[str, str]:
    """Return way → "" or the error that it met, in a child in which `closed` was called."""
    own = truth.parents[1] / "own"

    def attempt() -> int:
        found = {}
        closed()
        for name, way in WAYS.items():
            try:
                way(truth)
                found[name] = ""
            except Exception as problem:  # noqa: BLE001
                found[name] = f"{type(problem).__name__}: {problem}"
        (own / "found.json").write_text(json.dumps(found))
        return 0

    assert _forked(attempt) == 0
    return dict(json.loads((own / "found.json").read_text()))


def landlocked() -> bool:
    return _forked(lambda: int("Landlock" not in seal([Path.cwd()]))) == 0


def test_every_way_is_open_without_the_seal(truth: Path) -> None:
    """Guards the tests below: a way that never works proves nothing."""
    own = truth.parents[1] / "own"
    assert set(tried(truth, lambda: os.chdir(own)).values()) == {""}


def test_no_way_is_open_where_the_kernel_enforces_it(truth: Path) -> None:
    if not landlocked():
        pytest.skip("this kernel has no Landlock")
    found = tried(truth, lambda: seal([truth.parents[1] / "own"]))
    assert "" not in found.values(), found
    assert "an attack sees its observation and nothing else" in found["open"]


def test_the_kernel_alone_refuses_all_but_the_program_that_reads_nothing(
    truth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the hook, that is: neither of the two leans on the other."""
    if not landlocked():
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(blinding.sys, "addaudithook", lambda hook: None)
    found = tried(truth, lambda: seal([truth.parents[1] / "own"]))
    assert "" not in found.values(), found


def test_the_hook_alone_refuses_what_goes_through_python(
    truth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_landlock", "_socketless"):
        monkeypatch.setattr(blinding, name, lambda *_: False)
    found = tried(truth, lambda: seal([truth.parents[1] / "own"]))
    assert {name for name, problem in found.items() if not problem} <= KERNEL


def test_words_say_what_enforces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(words: str) -> bool:
        return _forked(lambda: int(seal([tmp_path]) != words)) == 0

    assert said("Landlock, seccomp and an audit hook") == landlocked()
    monkeypatch.setattr(blinding, "_socketless", lambda: False)
    assert said("Landlock and an audit hook") == landlocked()
    monkeypatch.setattr(blinding, "_landlock", lambda *_: False)
    assert said("an audit hook")
    monkeypatch.setattr(blinding.sys, "prefix", str(tmp_path.parent))
    assert said(f"nothing: the checkout lies in {tmp_path.parent.resolve()}, with the libraries")


def test_sealed_it_works_in_its_own_folder_and_imports_what_an_attack_may(truth: Path) -> None:
    own = truth.parents[1] / "own"

    def work() -> int:
        seal([own])
        (own / "a/b").mkdir(parents=True)
        (own / "a/b/c").write_text("kept")
        os.replace(own / "a/b/c", own / "d")
        importlib.import_module("leakbench.attacks.class_mean")
        importlib.import_module("colorsys")
        with open(os.devnull, "w") as nothing:
            nothing.write("x")
        for refused in (
            lambda: importlib.import_module("leakbench.federation.play"),
            lambda: socket.socket(),
            lambda: ctypes.CDLL("libm.so.6"),
            lambda: os.chdir(truth.parent),
        ):
            try:
                refused()
            except PermissionError:
                continue
            return 3
        return 0 if (own / "d").read_text() == "kept" else 4

    sys.modules.pop("leakbench.federation.play", None)
    assert _forked(work) == 0


def test_what_was_written_apart_comes_to_its_place_if_it_went_well(tmp_path: Path) -> None:
    out, record = tmp_path / "new/guesses.bin", tmp_path / "records/cost.json"

    def write(code: int) -> Callable[[Any], int]:
        def run(files: list[Path]) -> int:
            files[0].write_text(f"of {code}")
            files[1].write_text("cost")
            return code

        return run

    assert apart([out, record], write(3)) == 3
    assert not out.exists()
    assert apart([out, record], write(0)) == 0
    assert (out.read_text(), record.read_text()) == ("of 0", "cost")
    assert apart([out, None], lambda files: int(files[1] is not None)) == 0
    assert out.read_text() == "of 0"
    assert sorted(path.name for path in out.parent.iterdir()) == ["guesses.bin"]


def test_a_killed_ones_folder_goes_with_the_next(tmp_path: Path) -> None:
    out = tmp_path / "guesses.bin"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, alive = (tmp_path / f".guesses.bin.{pid}.apart" for pid in (dead.pid, os.getppid()))
    for folder in (left, alive):
        folder.mkdir()
    assert apart([out], lambda files: int(files[0].write_text("x") != 1)) == 0
    assert not left.exists()
    assert alive.exists()


def test_a_child_ends_with_whoever_waits_for_it(tmp_path: Path) -> None:
    def wait() -> int:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return 0

    parent = os.fork()
    if parent == 0:
        apart([tmp_path / "out"], lambda files: wait())
        os._exit(0)
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    child = int((tmp_path / "pid").read_text())
    for _ in range(200):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    raise AssertionError("the child lives on")


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_file_is_not_moved(what: str, tmp_path: Path) -> None:
    """A link to another attack's guesses would be scored as one's own."""
    out, others = tmp_path / "guesses.bin", tmp_path / "others.bin"
    others.write_text("of another attack")

    def write(files: Sequence[Path | None]) -> int:
        assert files[0] is not None
        ways = {"link": lambda file: file.symlink_to(others), "folder": Path.mkdir, "pipe": os.mkfifo}
        ways[what](files[0])
        return 0

    with pytest.raises(UserError, match="no file of its own"):
        apart([out], write)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others.bin"]
    assert others.read_text() == "of another attack"


def test_what_was_written_apart_has_its_digest_from_who_moves_it(tmp_path: Path) -> None:
    out, record = tmp_path / "guesses.safetensors", tmp_path / "cost.json"
    layout = {"a": ((3,), "float32")}

    def write(files: Sequence[Path | None]) -> int:
        assert files[0] is not None
        assert files[1] is not None
        with creating(files[0], layout, {}, digested=False) as arrays:
            arrays["a"][...] = np.arange(3)
        write_json(files[1], {"seconds": 1})
        return int(UNSEALED.encode() not in files[0].read_bytes())

    assert apart([out, record], write) == 0
    assert read_tensors(out)[0]["a"].tolist() == [0, 1, 2]
    out.write_bytes(out.read_bytes()[:-1] + b"\1")
    with pytest.raises(Altered, match="as written"):
        read_tensors(out)
    assert read_json(record, "a record", "") == {"seconds": 1}
