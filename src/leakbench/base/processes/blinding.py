"""The seal on an attack's process: it can open only its own files and the libraries (docs/security.md).

On Linux the kernel enforces the seal. Landlock closes files, seccomp leaves a list of system calls, and the
process gives up its capabilities. None of this takes a privilege, nothing undoes it, and children inherit it.
An audit hook of Python refuses the same with a message of one line. The hook also refuses programs, foreign
functions and the rooms of leakbench that an attack may not import.
"""

import codecs
import ctypes
import errno
import glob
import os
import re
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

from leakbench.base.errors import escaped, raise_if_unwritable
from leakbench.base.parts import place
from leakbench.base.processes.process import alive, end_with_parent, ended
from leakbench.base.processes.syscalls import filtered

Seal = Callable[[Sequence[Path], str], str]

_PACKAGE = Path(__file__).resolve().parents[2]
# The rooms in the contract "An attack cannot see the truth" that no trusted part of the job loads.
_ROOMS = tuple(f"{_PACKAGE / room}/" for room in ("datasets", "federation", "metrics", "papers"))
# The rooms of attacks and their parts, and the attacks that the detectors of clients consist of.
_ATTACKS = frozenset(
    str(_PACKAGE / place(room))
    for room in ("attacks", "adaptive", "labels", "objectives", "unknowns", "optimisers", "epochs")
)
_DETECTING = frozenset(["fidel.py", "imprint.py", "peel.py"])
_SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
    "/etc/group", "/sys/devices/system", "/sys/kernel/mm/transparent_hugepage", "/proc/cpuinfo",
    "/proc/meminfo", "/proc/stat",
)  # fmt: skip
# What CUDA opens in addition.
_GPU = ("/proc/driver/nvidia", "/proc/self", "/proc/devices", "/proc/sys/vm")
_DRIVER = "/proc/driver/nvidia/gpus/{:04x}:{:02x}:{:02x}.0/information"
_OPENING = frozenset(["open", "os.listdir", "os.scandir", "os.chdir", "os.link", "os.rename"])
_CHANGING = frozenset(
    ["os.truncate", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.chmod", "os.chown", "os.utime",
     "os.setxattr", "os.removexattr", "shutil.rmtree"]
)  # fmt: skip
_REFUSED = frozenset(
    ["subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.forkpty", "os.kill", "os.killpg",
     "signal.pthread_kill", "resource.prlimit", "socket.__new__", "socket.connect", "ctypes.dlopen",
     "ctypes.dlsym", "gc.get_objects", "gc.get_referrers", "gc.get_referents", "fcntl.ioctl", "fcntl.flock",
     "fcntl.lockf", "os.getxattr", "os.listxattr"]
)  # fmt: skip

# Landlock's system calls, and its rights as linux/landlock.h numbers them.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE, _READ, _LIST, _MOVE, _TRUNCATE, _DEVICE = 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
# An attack's own folders: regular files and folders, which it may write, remove and move, and nothing else.
_OWN = _WRITE | _READ | _LIST | _MOVE | _TRUNCATE | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8
_ALL = (1 << 13) - 1
# The newest version of Landlock that the seal knows.
_NEWEST = 7
# Options of prctl, and the system call capset by machine.
_NO_NEW_PRIVILEGES, _DROP = 38, 24
_CAPSET = {"x86_64": 126, "aarch64": 91}


class Blinded(PermissionError):
    """The error of an attack that asks for a file or an operation that the seal refuses."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, "an attack sees its observation and nothing else", what)


@contextmanager
def apart(
    out: Path, run: Callable[[Path, Callable[[bytes], None]], int]
) -> Iterator[tuple[Path, bytes, int]]:
    """Run `run` in a child process that writes to a folder of its own, and yield what it left there."""
    # out: the output of the job; the child's folder lies beside it.
    # run: called with the child's folder and a function that sends bytes to this process; returns an exit
    # code.
    # Only the first bytes count that the child sends. Yields the folder, these bytes, and the child's exit
    # code (negative for a signal). At this time the child and all that it has left running have ended. The
    # folder is removed with the block. Raises UserError if the place cannot be written.
    out = out.absolute()
    inbox = out.parent / f".{out.name}.{os.getpid()}.apart"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.apart"):
            if not alive(int(left.suffixes[-2][1:])) or left == inbox:
                shutil.rmtree(left)
        inbox.mkdir()
        inbox.chmod(0o700)
        word, said = os.pipe()

        def child() -> int:
            def send(data: bytes) -> None:
                os.write(said, struct.pack("<I", len(data)) + data)
                os.close(said)

            return run(inbox, send)

        try:
            code = _forked(child, (said,))
        except BaseException:
            os.close(word)
            raise
        with open(word, "rb") as stream:
            size = struct.unpack("<I", stream.read(4).ljust(4, b"\0"))[0]
            sent = stream.read(size)
        yield inbox, sent, code
    except OSError as problem:
        raise_if_unwritable(problem, out)
        raise
    finally:
        shutil.rmtree(inbox, ignore_errors=True)


def _forked(run: Callable[[], int], kept: Sequence[int] = ()) -> int:
    """Return the exit code of a child that calls `run`, negative for a signal; it ends with this process."""
    # kept: descriptors that the child keeps and this process closes. All others are closed in the child. Its
    # input is empty. What it prints comes to this process's standard error, with control characters escaped.
    # What it has left running ends with it.
    sys.stdout.flush()
    sys.stderr.flush()
    printed, prints = os.pipe()
    child = os.fork()
    if child == 0:
        end_with_parent()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        _mute(prints, kept)
        ended(run)
    for file in (prints, *kept):
        os.close(file)
    reader = Thread(target=_passed_on, args=(printed,), daemon=True)
    reader.start()
    status = None
    try:
        status = os.waitpid(child, 0)[1]
    finally:
        # A process that the seal holds cannot leave the group of the child.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        reader.join(1)
    return os.waitstatus_to_exitcode(status)


def _mute(prints: int, kept: Sequence[int]) -> None:
    """Give this process no input, `prints` for its output, and no other descriptor but those `kept`."""
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), prints, prints)):
        os.dup2(file, number)
    edges = [2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)


def _passed_on(pipe: int) -> None:
    """Print what comes through a pipe, with control characters escaped."""
    decoded = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    with suppress(OSError, ValueError), open(pipe, "rb", buffering=0) as stream:
        while part := stream.read(1 << 16):
            sys.stderr.write(escaped(decoded.decode(part), "\n\t"))
            sys.stderr.flush()


_refusing = False


def refuse_attacks() -> None:
    """Let this process and its forks execute no file of an attack, but of those that detectors consist of."""
    global _refusing
    if not _refusing:
        sys.addaudithook(_unsealed)
    _refusing = True


def allow_attacks() -> None:
    """Let this process execute files in the rooms of attacks from now on."""
    global _refusing
    _refusing = False


def _unsealed(event: str, values: tuple[Any, ...]) -> None:
    if event == "exec" and _refusing:
        folder, _, name = str(getattr(values[0], "co_filename", "")).rpartition("/")
        if os.path.realpath(folder) in _ATTACKS and name not in ("__init__.py", *_DETECTING):
            raise PermissionError(errno.EACCES, "a file of an attack runs in no process without a seal", name)


def seal(own: Sequence[Path], device: str = "cpu") -> str:
    """Let this process open only the folders `own` and, for reading, the libraries."""
    # The seal cannot be undone. Returns in words what enforces it.
    allow_attacks()
    own = [folder.resolve() for folder in own]
    packages = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    places = (_PACKAGE, sys.prefix, sys.base_prefix, *_SYSTEM, *(_GPU if device != "cpu" else ()), *packages)
    libraries = [Path(path).resolve() for path in places if os.path.exists(path)]
    os.chdir(own[0])
    for library in libraries:
        if any(folder.is_relative_to(library) for folder in own):
            return f"nothing: the checkout lies in {library}, with the libraries"
    # The rights of files belong to the mover, and only an owner without capabilities opens these.
    os.umask(0o077)
    kernel = _kernel(own, libraries, device)
    sys.addaudithook(_hook(tuple(f"{path}/" for path in own), tuple(f"{path}/" for path in libraries)))
    enforced = ", ".join(name for name, held in kernel.items() if held)
    return f"{enforced} and an audit hook" if enforced else "an audit hook"


def unsealed(own: Sequence[Path], device: str = "cpu") -> str:
    """Take the place of `seal` and enforce nothing, for a test that calls the verb in its own process."""
    return "nothing"


def _hook(own: tuple[str, ...], libraries: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return the audit hook of a sealed process."""
    # It holds all that it uses, so that no assignment to a module changes what it does.
    opening, changing, refused, rooms, null = _OPENING, _CHANGING, _REFUSED, _ROOMS, os.devnull
    blinded, missing, plain, data = Blinded, OSError, type, bytes
    readlink, folder, path_of, numbers = os.readlink, os.getcwd, os.fspath, (int, bool)
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def real(given: Any) -> str:
        """Return the path without links, as os.path.realpath does."""
        given = path_of(given or ".")
        given = data.decode(given, "utf-8", "surrogateescape") if data in plain(given).__mro__ else given
        given = "".join([given])
        done, parts, links = "" if given[:1] == "/" else folder(), given.split("/")[::-1], [1] * 40
        while parts:
            part = parts.pop()
            if part == "..":
                done = done.rpartition("/")[0]
            elif part not in ("", "."):
                try:
                    link = readlink(f"{done}/{part}")
                except missing:
                    done = f"{done}/{part}"
                    continue
                links.pop()
                done = "" if link[:1] == "/" else done
                parts += link.split("/")[::-1]
        return done

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in refused:
            raise blinded(f"{event} {values[0] if values else ''}")
        if event in opening and plain(values[0]) not in numbers:
            path = real(values[0])
            writing = event in ("os.link", "os.rename") or (event == "open" and (values[2] or 0) & writes)
            to = own if writing else own + libraries
            if (not f"{path}/".startswith(to) and path != null) or path.startswith(rooms):
                raise blinded(path)
        if event in changing and not f"{real(values[0])}/".startswith(own):
            raise blinded(f"{event} {real(values[0])}")

    return hook


def _kernel(own: Sequence[Path], libraries: Sequence[Path], device: str) -> dict[str, bool]:
    """Have the kernel hold the seal, and return which of its parts do."""
    if sys.platform != "linux":
        return {}
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    closed = _landlock(libc, own, libraries, device)
    _give_up_capabilities(libc)
    return {"Landlock": closed, "seccomp": filtered(device, libc)}


def _give_up_capabilities(libc: Any) -> None:
    """Leave a process of root no more rights than its files give it."""
    for number in range(64):
        if libc.prctl(_DROP, number, 0, 0, 0):
            break
    if call := _CAPSET.get(os.uname().machine):
        libc.syscall(call, struct.pack("<II", 0x20080522, 0), bytes(24))


def card_devices(there: Sequence[str], card: int | None) -> list[str]:
    """Return those files of /dev that a job on one card opens: the card's and the driver's two."""
    # card: the driver's number of the card; None where it does not tell it, and each card is left open.
    own = re.compile(rf"/dev/nvidia(ctl|-uvm|{r'[0-9]+' if card is None else card})")
    return [path for path in there if own.fullmatch(path)]


def _card(device: str) -> int | None:
    """Return the driver's number of a GPU, which is not torch's where only some cards are visible."""
    import torch

    with suppress(OSError, AttributeError, RuntimeError, AssertionError):
        of: Any = torch.cuda.get_device_properties(device)
        place = _DRIVER.format(of.pci_domain_id, of.pci_bus_id, of.pci_device_id)
        if told := re.search(r"Device Minor:\s*([0-9]+)", Path(place).read_text("utf-8")):
            return int(told[1])
    return None


def _landlock(libc: Any, own: Sequence[Path], libraries: Sequence[Path], device: str) -> bool:
    """Close all files but those that `seal` leaves open, and return whether the kernel enforces it."""
    call = libc.syscall
    version = min(call(_CREATE, None, 0, 1), _NEWEST)
    if version < 1:
        return False
    rights = _ALL | (_MOVE if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    rights |= _DEVICE if version > 4 else 0
    # The rights of files, TCP in both directions, and signals and abstract sockets to processes outside.
    handled = struct.pack("<QQQ", rights, 3, 3)[: 24 if version > 5 else 16 if version > 3 else 8]
    rules = call(_CREATE, handled, len(handled), 0)
    allowed = [(folder, rights & _OWN) for folder in own]
    allowed += [(path, _READ | _LIST if path.is_dir() else _READ) for path in libraries]
    allowed += [(Path(os.devnull), rights & (_READ | _WRITE | _TRUNCATE))]
    if device != "cpu":
        of_card = card_devices(glob.glob("/dev/nvidia*"), _card(device))
        allowed += [(Path(path), rights & (_READ | _WRITE | _DEVICE)) for path in of_card]

    def allow(path: Path, right: int) -> bool:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            return bool(call(_ADD, rules, 1, struct.pack("<Qi", right, file), 0) == 0)
        finally:
            os.close(file)

    if rules < 0:
        return False
    try:
        return all(allow(*each) for each in allowed) and call(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)
