"""The seal on an attack's process: it can open only its own files and the libraries (docs/security.md).

On Linux the kernel enforces the seal: Landlock closes files, seccomp closes sockets. Both take no privilege,
nothing undoes them, and children inherit them. An audit hook of Python refuses the same with a message of one
line. The hook also refuses programs, foreign functions and the rooms of leakbench that an attack may not
import.
"""

import ctypes
import errno
import os
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.errors import raise_if_unwritable
from leakbench.base.processes.process import alive, end_with_parent, ended
from leakbench.base.whole import taken_over

Seal = Callable[[Sequence[Path], str], str]

_PACKAGE = Path(__file__).resolve().parents[2]
# The rooms in the contract "An attack cannot see the truth" that no trusted part of the job loads.
_ROOMS = tuple(f"{_PACKAGE / room}/" for room in ("datasets", "federation", "metrics", "papers"))
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc", "/sys", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
# What CUDA opens in addition.
_GPU = ("/dev", "/proc", "/run")
_OPENING = frozenset(["open", "os.listdir", "os.scandir", "os.chdir", "os.link", "os.rename"])
_REFUSED = frozenset(
    ["subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.__new__", "socket.connect",
     "ctypes.dlopen", "ctypes.dlsym"]
)  # fmt: skip

# Landlock's system calls, and its rights as linux/landlock.h numbers them.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ALL, _EXECUTE, _WRITE, _READ, _LIST, _REMOVE_FOLDER = (1 << 13) - 1, 1, 2, 4, 8, 16
_MOVE, _TRUNCATE = 1 << 13, 1 << 14
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
# Machine -> its number for seccomp, and its system call that makes a socket.
_SOCKETS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
# The system call of io_uring, which also makes sockets and does so past seccomp, and the number that 32-bit
# programs add to the numbers of their calls.
_IO_URING, _OTHER_CALLS = 425, 1 << 30

_LIBC: Any = ctypes.CDLL(None)


class Blinded(PermissionError):
    """The error of an attack that asks for a file or an operation that the seal refuses."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, "an attack sees its observation and nothing else", what)


def apart(files: Sequence[Path | None], run: Callable[[Sequence[Path | None]], int]) -> int:
    """Run `run` in a child process that writes its files to a folder of its own.

    If the exit code is 0, the files that the child wrote are moved to their places and get their digests.
    Returns the exit code. Raises UserError if the places cannot be written, and for an output that is no
    regular file.
    """
    first = Path(files[0] or "").absolute()
    inbox = first.parent / f".{first.name}.{os.getpid()}.apart"
    own = inbox / "own"
    places = [file and own / f"{number}{file.suffix}" for number, file in enumerate(files)]
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        for left in first.parent.glob(f".{first.name}.*.apart"):
            if not alive(int(left.suffixes[-2][1:])) or left == inbox:
                shutil.rmtree(left)
        own.mkdir(parents=True)
        code = _forked(lambda: run(places))
        for file, place in zip(files, places, strict=True):
            if file and place and not code and os.path.lexists(place):
                # The file is moved out of the child's folder first, which a process that the child left
                # behind may still reach.
                taken_over(place.rename(inbox / place.name), file)
        return code
    except OSError as problem:
        raise_if_unwritable(problem, first)
        raise
    finally:
        shutil.rmtree(inbox, ignore_errors=True)


def _forked(run: Callable[[], int]) -> int:
    """Return the exit code of a child that calls `run`; the child ends with this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        end_with_parent()
        ended(run)
    code = None
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return code if code >= 0 else 128 - code


def seal(own: Sequence[Path], device: str = "cpu") -> str:
    """Let this process open only the folders `own` and, for reading, the libraries.

    The seal cannot be undone. Returns in words what enforces it.
    """
    own = [folder.resolve() for folder in own]
    libraries = [
        Path(path).resolve()
        for path in (
            _PACKAGE, sys.prefix, sys.base_prefix, *_SYSTEM, *(_GPU if device != "cpu" else ()),
            *(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))),
        )
        if os.path.exists(path)
    ]  # fmt: skip
    os.chdir(own[0])
    for library in libraries:
        if any(folder.is_relative_to(library) for folder in own):
            return f"nothing: the checkout lies in {library}, with the libraries"
    kernel = {"Landlock": _landlock(own, libraries, device), "seccomp": _socketless()}
    open_to = tuple(f"{path}/" for path in (*own, *libraries))

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in _REFUSED:
            raise Blinded(f"{event} {values[0] if values else ''}")
        if event in _OPENING and not isinstance(values[0], int):
            path = os.path.realpath(os.fsdecode(values[0] or "."))
            if (not f"{path}/".startswith(open_to) and path != os.devnull) or path.startswith(_ROOMS):
                raise Blinded(path)

    sys.addaudithook(hook)
    enforced = ", ".join(name for name, held in kernel.items() if held)
    return f"{enforced} and an audit hook" if enforced else "an audit hook"


def unsealed(own: Sequence[Path], device: str = "cpu") -> str:
    """Take the place of `seal` and enforce nothing, for a test that calls the verb in its own process."""
    return "nothing"


def _landlock(own: Sequence[Path], libraries: Sequence[Path], device: str) -> bool:
    """Close all files but those that `seal` leaves open, and return whether the kernel enforces it."""
    call: Any = getattr(_LIBC, "syscall", None)
    version = call(_CREATE, None, 0, 1) if call and sys.platform == "linux" else -1
    if version < 1:
        return False
    rights = _ALL | (_MOVE if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    # The rights of files, TCP in both directions, and signals and abstract sockets to processes outside.
    handled = struct.pack("<QQQ", rights, 3, 3)[: 24 if version > 5 else 16 if version > 3 else 8]
    rules = call(_CREATE, handled, len(handled), 0)
    allowed = [(folder, rights & ~_EXECUTE) for folder in own]
    allowed += [(folder.parent, _REMOVE_FOLDER) for folder in own]
    allowed += [(path, _READ | _LIST if path.is_dir() else _READ) for path in libraries]
    allowed += [(Path(os.devnull), rights & (_READ | _WRITE | _TRUNCATE))]
    if device != "cpu":
        allowed += [(Path("/dev"), _READ | _LIST | _WRITE)]

    def allow(path: Path, right: int) -> bool:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            return bool(call(_ADD, rules, 1, struct.pack("<Qi", right, file), 0) == 0)
        finally:
            os.close(file)

    if rules < 0:
        return False
    try:
        _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return all(allow(*each) for each in allowed) and call(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _socketless() -> bool:
    """Close all sockets, and return whether the kernel enforces it.

    One of them would lead to the warm process, which is not sealed and would run any verb for an attack.
    """
    if sys.platform != "linux" or os.uname().machine not in _SOCKETS:
        return False
    machine, making = _SOCKETS[os.uname().machine]
    load, equal, above, answer = 0x20, 0x15, 0x35, 0x06
    refuse = answer, 0, 0, 0x50000 | errno.EACCES
    # The filter reads the number of a system call at offset 0 and its machine at offset 4. A jump skips a
    # number of lines.
    lines = [
        (load, 0, 0, 4), (equal, 1, 0, machine), refuse,
        (load, 0, 0, 0), (equal, 3, 0, making), (equal, 2, 0, _IO_URING), (above, 1, 0, _OTHER_CALLS),
        (answer, 0, 0, 0x7FFF0000), refuse,
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(lines), ctypes.addressof(code)))
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return bool(_LIBC.prctl(_SECCOMP, _FILTER, program, 0, 0) == 0)
