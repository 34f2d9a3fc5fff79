"""What an attack's process can open: its own folder and the libraries, whatever way it tries."""

import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakbench.base.processes import blinding
from leakbench.base.processes.blinding import _forked, apart, seal
from leakbench.base.processes.process import alive
from leakbench.base.processes.warm import LENGTH, receive
from leakbench.base.processes.workers import side_by_side
from leakbench.jobs.warm_process import serve

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.open, LIBC.syscall  # noqa: B018 - looked up beforehand, as an attack's file could not


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
    "open": lambda path: path.read_bytes(), "os.open": lambda path: os.open(path, os.O_RDONLY),
    "climb": lambda path: Path(os.path.relpath(path)).read_bytes(),
    "proc": lambda path: Path(f"/proc/self/root{path}").read_bytes(),
    "list": lambda path: os.listdir(path.parent), "scan": lambda path: list(os.scandir(path.parent)),
    "numpy": lambda path: np.fromfile(path, np.uint8), "map": lambda path: np.memmap(path, np.uint8, "r"),
    "torch": lambda path: torch.from_file(str(path), size=64, dtype=torch.uint8),
    "program": lambda path: subprocess.check_output(["cat", path]),
    "shell": lambda path: os.system(f"cat '{path}' > copy") and [][1], "foreign": by_foreign_function,
    "fork": by_a_fork, "link": by_another_name, "warm": by_the_warm_process, "move": by_another_place,
}  # fmt: skip
# What the kernel alone can refuse: Python has no part in it.
KERNEL = {"torch", "foreign"}


# What a sealed process could do to others, and what it could leave for a sibling, without a file being open.
MARKS: dict[str, Callable[[Path], Any]] = {
    "chmod": lambda path: os.chmod(path, 0o600),
    "chown": lambda path: os.chown(path, os.getuid(), -1),
    "utime": lambda path: os.utime(path, (1, 1)),
    "xattr": lambda path: os.setxattr(path, "user.x", b"1"),
    "xattr, read": lambda path: os.getxattr(path, "user.x"),
    "truncate": lambda path: os.truncate(path, 0),
    "truncated by opening": lambda path: os.open(blinding.__file__, os.O_RDONLY | os.O_TRUNC) and [][1],
    "lock": lambda path: fcntl.flock(os.open(blinding.__file__, os.O_RDONLY), fcntl.LOCK_SH),
    "lock of a region": lambda path: fcntl.lockf(os.open("own", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX),
    "symlink": lambda path: os.symlink(path, "link"),
    "pipe": lambda path: os.mkfifo("pipe"),
    "device": lambda path: os.mknod("disk", stat.S_IFBLK | 0o600, os.stat(".").st_dev),
    "rmdir": lambda path: os.rmdir(path.parents[1] / "empty"),
    "kill": lambda path: os.kill(os.getppid(), 0),
    "limit": lambda path: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
    "own limit": lambda path: resource.setrlimit(resource.RLIMIT_CPU, (9, 9)),
    "priority": lambda path: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "affinity": lambda path: os.sched_setaffinity(os.getppid(), {0}),
    "session": lambda path: os.setsid(),
    "terminal": lambda path: fcntl.ioctl(0, termios.TIOCSTI, b"x"),
    "chroot": lambda path: os.chroot("."),
    **{
        name: (lambda path, call=call, rest=rest: called(call, *rest))
        for name, (call, rest) in {
            "shared memory": (29, (7, 4096, 0o1600)),
            "queue": (68, (7, 0o1600)), "semaphore": (64, (7, 1, 0o1600)),
            "key": (248, (b"user", b"x", b"1", 1, -3)), "bpf": (321, (0, bytes(72), 72)),
            "perf": (298, (bytes(128), 0, -1, -1, 0)), "user namespace": (272, (0x10000000,)),
            "ptrace": (101, (16, 1, 0, 0)), "mount": (165, (b"a", b"/", b"tmpfs", 0, 0)),
            "io_uring": (425, (1, bytes(120))), "signal by pidfd": (434, (1, 0)),
        }.items()
    },
}  # fmt: skip
# What Python tells no hook of. It takes the kernel to refuse it.
UNTOLD = frozenset([
    "pipe", "device", "own limit", "priority", "affinity", "session", "chroot", "shared memory", "queue",
    "semaphore", "key", "bpf", "perf", "user namespace", "ptrace", "mount", "io_uring", "signal by pidfd",
])  # fmt: skip


def called(number: int, *rest: Any) -> None:
    """Make a system call of x86-64 by its number."""
    if LIBC.syscall(number, *rest) < 0:
        raise OSError(ctypes.get_errno(), "refused")


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


def tried(
    truth: Path, closed: Callable[[], object], ways: Mapping[str, Callable[[Path], object]] = WAYS
) -> dict[str, str]:
    """Return way → "" or the error that it met, in a child in which `closed` was called."""
    own = truth.parents[1] / "own"

    def attempt() -> int:
        found = {}
        closed()
        for name, way in ways.items():
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


# What enforces the seal → what is laid aside: the hook, the kernel, or what is new since Linux 5.19.
MODES: dict[str, tuple[str, ...]] = {
    "all": (), "kernel": ("hook",), "hook": ("kernel",), "of Linux 5.19": ("new",),
    "kernel of Linux 5.19": ("new", "hook"),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_no_way_is_open_and_no_mark_is_left(mode: str, truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither kernel nor hook leans on the other; only what bypasses Python takes the kernel."""
    aside = {
        "hook": lambda: monkeypatch.setattr(blinding.sys, "addaudithook", lambda hook: None),
        "kernel": lambda: monkeypatch.setattr(blinding, "_kernel", lambda *_: {}),
        "new": lambda: monkeypatch.setattr(blinding, "_NEWEST", 2),
    }
    if mode != "hook" and not landlocked():
        pytest.skip("this kernel has no Landlock")
    for name in MODES[mode]:
        aside[name]()
    (truth.parents[1] / "empty").mkdir()
    # The numbers of system calls are those of x86-64.
    marks = MARKS if os.uname().machine == "x86_64" else {}
    ways = {name: way for name, way in (WAYS | marks).items() if mode != "hook" or name not in UNTOLD}
    found = tried(truth, lambda: seal([truth.parents[1] / "own"]), ways)
    ways_open = {name for name, problem in found.items() if not problem}
    assert ways_open <= (KERNEL if mode == "hook" else set()), found
    if "hook" not in MODES[mode]:
        assert "an attack sees its observation and nothing else" in found["open"]
    # A refusal, and not a mistake of the test's.
    refusals = [problem for name, problem in found.items() if name in MARKS]
    assert all(any(w in p for w in ("[Errno 13]", "[Errno 1]", "refused")) for p in refusals), found


DEV = [f"/dev/{name}" for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm",
       "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "nvidia-nvswitch0", "sda", "kmsg")]  # fmt: skip


@pytest.mark.parametrize(("card", "number"), [(1, {"nvidia1"}), (None, {"nvidia0", "nvidia1", "nvidia10"})])
def test_the_seal_on_a_gpu_opens_the_cards_own_devices(card: int | None, number: set[str]) -> None:
    found = {path.removeprefix("/dev/") for path in blinding.card_devices(DEV, card)}
    assert found == {"nvidiactl", "nvidia-uvm"} | number


def test_the_seal_of_a_gpu_opens_no_more_than_others(truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's card is a file, which stands for it. Others' memory and devices stay closed."""
    if not landlocked():
        pytest.skip("this kernel has no Landlock")
    card = truth.with_name("card")
    card.write_bytes(b"")
    monkeypatch.setattr(blinding, "card_devices", lambda *_: [str(card)])
    ways = {
        "card": lambda _: os.close(os.open(card, os.O_RDWR)),
        **{f"read {each}": (lambda _, path=each: os.open(path, os.O_RDONLY))
           for each in ("/dev/zero", "/dev/kmsg", "/dev/tty", f"/proc/{os.getppid()}/environ")},
        "write to memory": lambda _: os.open("/dev/shm/x", os.O_WRONLY | os.O_CREAT),
        **{name: WAYS[name] for name in ("open", "foreign", "warm")},
    }  # fmt: skip
    monkeypatch.setattr(blinding.sys, "addaudithook", lambda hook: None)
    found = tried(truth, lambda: seal([truth.parents[1] / "own"], "cuda:0"), ways)
    assert [name for name, problem in found.items() if not problem] == ["card"], found


def test_words_say_what_enforces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(words: str) -> bool:
        return _forked(lambda: int(seal([tmp_path]) != words)) == 0

    assert said("Landlock, seccomp and an audit hook") == landlocked()
    monkeypatch.setattr(blinding, "filtered", lambda *_: False)
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


def written(out: Path, run: Callable[[Path], int]) -> tuple[list[str], bytes, int]:
    """Return the files that a child left in its folder, what it sent and its exit code."""

    def child(own: Path, send: Callable[[bytes], None]) -> int:
        send(b"known")
        return run(own)

    with apart(out, child) as (own, sent, code):
        return sorted(path.name for path in own.iterdir()), sent, code


def test_a_child_leaves_files_a_word_and_its_end(tmp_path: Path) -> None:
    out = tmp_path / "new/guesses.bin"
    assert written(out, lambda own: int((own / "a").write_text("x") != 1)) == (["a"], b"known", 0)
    assert written(out, lambda own: 3) == ([], b"known", 3)
    assert written(out, lambda own: os.kill(os.getpid(), signal.SIGKILL) or 0) == ([], b"known", -9)
    with apart(out, lambda own, send: 4) as (_, sent, code):
        assert (sent, code) == (b"", 4)
    assert not [*out.parent.iterdir()]


def test_a_killed_ones_folder_goes_with_the_next(tmp_path: Path) -> None:
    out = tmp_path / "guesses.bin"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, living = (tmp_path / f".guesses.bin.{pid}.apart" for pid in (dead.pid, os.getppid()))
    for folder in (left, living):
        folder.mkdir()
    assert written(out, lambda own: 0) == ([], b"known", 0)
    assert not left.exists()
    assert living.exists()


def test_a_child_ends_with_whoever_waits_for_it(tmp_path: Path) -> None:
    def wait() -> int:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return 0

    parent = os.fork()
    if parent == 0:
        written(tmp_path / "out", lambda own: wait())
        os._exit(0)
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    ends(int((tmp_path / "pid").read_text()))


def left_running(own: Path) -> int:
    if os.fork() == 0:
        (own / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        os._exit(0)
    while not (own / "pid").exists() or not (own / "pid").read_text():
        time.sleep(0.01)
    return 0


def test_what_a_child_leaves_running_ends_with_it(tmp_path: Path) -> None:
    def child(own: Path, send: Callable[[bytes], None]) -> int:
        return left_running(own)

    with apart(tmp_path / "out", child) as (own, _, code):
        assert code == 0
        ends(int((own / "pid").read_text()))


def ends(pid: int) -> None:
    for _ in range(200):
        if not alive(pid):
            return
        time.sleep(0.02)
    raise AssertionError("it runs on")


def test_a_child_has_no_input_no_terminal_and_no_descriptor(tmp_path: Path, capfd: Any) -> None:
    secret = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(secret, True)

    def look() -> int:
        there = [n for n in range(3, 200) if os.path.exists(f"/proc/self/fd/{n}")]
        os.write(1, b"\x1b]0;odd\x07 \xff word\n")
        return int(bool(sys.stdin.read() if False else os.read(0, 1)) or secret in there or os.isatty(2))

    assert _forked(look) == 0
    os.close(secret)
    assert capfd.readouterr().err == "\\x1b]0;odd\\x07 \\xff word\n"


def test_no_assignment_undoes_the_hook(truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blinding, "_kernel", lambda *_: {})

    def attempt() -> int:
        seal([truth.parents[1] / "own"])
        os.path.realpath = lambda path: os.devnull  # type: ignore[assignment]
        os.fspath = os.fsdecode = lambda path: os.devnull  # type: ignore[assignment]
        os.readlink = os.getcwd = lambda *_: "/dev"  # type: ignore[assignment]
        blinding._OPENING = blinding._REFUSED = blinding._ROOMS = frozenset()  # type: ignore[assignment]
        blinding.Blinded = lambda *_: SystemExit(0)  # type: ignore[assignment,misc]
        for way in (lambda: truth.read_bytes(), lambda: subprocess.call(["true"]), lambda: gc.get_objects()):
            try:
                way()
            except PermissionError:
                continue
            return 1
        return 0

    assert _forked(attempt) == 0


def test_root_keeps_no_capability(tmp_path: Path) -> None:
    def look() -> int:
        with open("/proc/self/status") as status:
            seal([tmp_path])
            lines = status.readlines()
        held = [line for line in lines if line.startswith(("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))]
        return int(any(int(line.split()[1], 16) for line in held if os.getuid() == 0 or "Bnd" not in line))

    assert _forked(look) == 0
