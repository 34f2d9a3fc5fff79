"""Runs somebody's own code in a process of its own, with a limit on time and memory.

No process that the code started outlives the run.
"""

import ctypes
import json
import os
import secrets
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from leakbench.base.errors import UserError
from leakbench.base.processes.process import alive, end_with_parent, ended

Tell = Callable[[str], None]
_SUBREAPER = 36
_TICK = 0.1
_GIGABYTE = 1 << 30
# Fields of smaps_rollup: proportional shares of memory without a file behind it.
_HELD = ("Pss_Anon:", "Pss_Shmem:")
# The beginnings of leakbench's own log lines; the user's code printed the other lines.
_OWN, _PROGRESS = "leakbench attack: ", "match client"
_FORGED = "wrote into the pipe by which leakbench hears of it (write only to what your code opened)"
# Taken now, because the user's code may replace json.dumps.
_encoded = json.JSONEncoder().encode


def say(line: str) -> None:
    """Print a line. Characters that the output's encoding lacks, or that command a terminal, are escapes."""
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))


def supervised(
    work: Callable[[Tell], dict[str, Any]], tell: Tell, what: str, seconds: float, memory: float
) -> dict[str, Any]:
    """Run `work`, whose lines go to `tell`, in a child process and return its result.

    No process that the child starts outlives the call.

    what: the name of the code in messages.
    seconds: of wall time.
    memory: in gigabytes, of the child and all processes that it starts.

    Raises UserError, in one line, for what goes wrong in the child.
    """
    # Processes whose parent ended become children of this process, so none is lost.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    ours = set(_children(os.getpid()))
    _open_standard()
    # The mark stands before each message. Anything else that the code writes into the pipe is no message.
    mark = secrets.token_hex(16).encode()
    with tempfile.TemporaryFile() as output:
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _in_child(work, writing, output, mark)
        os.close(writing)
        try:
            said = _heard(reading, child, mark, what, tell, _limits(what, seconds, memory, ours))
        finally:
            os.close(reading)
            _end(ours)
            with suppress(AttributeError):
                ctypes.CDLL(None).prctl(_SUBREAPER, 0, 0, 0, 0)
        printed = _printed(output, tell)
    if printed:
        tell(f"note: {what} printed {printed} lines, which are not shown")
    if "problem" in said:
        problem: str = said["problem"]
        # A message about a file begins with its name already.
        raise UserError(problem if problem.startswith((f"{what}: ", f"{what}/")) else f"{what}: {problem}")
    found = said.get("result")
    if not isinstance(found, dict):
        raise UserError(f"{what}: {_FORGED}")
    return found


def _open_standard() -> None:
    # Otherwise the pipe would get one of these numbers, and the child's own output would go into the pipe.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def _in_child(work: Callable[[Tell], dict[str, Any]], writing: int, output: BinaryIO, mark: bytes) -> None:
    """Run `work` with its messages going to the pipe and all other output to a file. Does not return."""
    os.setsid()
    end_with_parent()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for number, place in ((0, nowhere), (1, output.fileno()), (2, output.fileno())):
        os.dup2(place, number)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    own = os.getpid()

    def say(message: dict[str, Any]) -> None:
        data = mark + _encoded(message).encode() + b"\n"
        while data:
            data = data[os.write(writing, data) :]

    def run() -> int:
        said: dict[str, Any]
        try:
            said = {"result": work(lambda line: say({"line": line}))}
        except UserError as problem:
            said = {"problem": str(problem)}
        except MemoryError:
            said = {"problem": "ran out of memory"}
        except BaseException as problem:  # noqa: BLE001 - whatever the user's code raises is one line
            said = {"problem": _raised(problem)}
        # If the user's code forked, the fork may come here too, and must send no message.
        if os.getpid() == own:
            say(said)
        return 0

    ended(run)


def _raised(problem: BaseException) -> str:
    place, trace = "", problem.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "leakbench" not in name and "site-packages" not in name and not name.startswith("<"):
            place = f" ({Path(name).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(problem).split())[:200]
    return f"{type(problem).__name__}{': ' if text else ''}{text}{place}"


def _limits(what: str, seconds: float, memory: float, ours: set[int]) -> Callable[[], None]:
    until = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > until:
            raise UserError(
                f"{what}: not finished after {seconds:.0f} s (raise --budget, or make it quicker)"
            )
        used = sum(_used(each) for each in _descendants(ours))
        if used > memory * _GIGABYTE:
            raise UserError(
                f"{what}: used {used / _GIGABYTE:.1f} GB, more than {memory:g} GB (raise --memory)"
            )

    return check


def _heard(
    reading: int, child: int, mark: bytes, what: str, tell: Tell, within: Callable[[], None]
) -> dict[str, Any]:
    """Pass on the lines that the child writes into the pipe, and return its last message."""
    rest = b""
    while True:
        # This is asked before reading: if the child has ended, all its messages are in the pipe by now.
        runs = alive(child)
        ready, _, _ = select.select([reading], [], [], _TICK)
        data = os.read(reading, 1 << 16) if ready else None
        *lines, rest = (rest + (data or b"")).split(b"\n")
        for line in lines:
            said = _message(line, mark, what)
            if "line" not in said:
                return said
            tell(said["line"])
        if data == b"" or (data is None and not runs):
            raise UserError(f"{what}: its process ended without a result")
        within()


def _message(line: bytes, mark: bytes, what: str) -> dict[str, Any]:
    """Return the message in a line of the pipe. Raises UserError for a line that leakbench did not write."""
    with suppress(ValueError):
        if line.startswith(mark):
            found: dict[str, Any] = json.loads(line[len(mark) :])
            return found
    raise UserError(f"{what}: {_FORGED}")


def _printed(output: BinaryIO, tell: Tell) -> int:
    """Pass on leakbench's own lines of what the child printed, and return the number of the other lines."""
    output.seek(0)
    text = output.read(1 << 24).decode("utf-8", "replace")
    count, told = 0, set()
    for line in filter(str.strip, text.splitlines()):
        if line.startswith(_OWN) and line not in told:
            told.add(line)
            tell(f"note: {line.removeprefix(_OWN)}")
        elif not line.startswith((_OWN, _PROGRESS)):
            count += 1
    return count


def _children(process: int) -> list[int]:
    with suppress(OSError):
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(n) for task in tasks for n in (task / "children").read_text().split()]
    return []


def _descendants(ours: set[int]) -> Iterator[int]:
    """Yield the descendants of this process, without the children `ours` that it had before the child."""
    waiting = [each for each in _children(os.getpid()) if each not in ours]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += _children(process)


def _used(process: int) -> int:
    """Return the bytes of memory that a process holds, without files."""
    # A page that several forks share counts once over all of them.
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        held = [int(line.split()[1]) for line in lines if line.startswith(_HELD)]
        if held:
            return 1024 * sum(held)
    with suppress(OSError, ValueError, IndexError):
        # If the kernel has no such shares or the process hides them, each fork counts a shared page.
        words = Path(f"/proc/{process}/statm").read_text().split()
        return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _end(ours: set[int]) -> None:
    while found := list(_descendants(ours)):
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for process in found:
            with suppress(OSError):
                os.waitpid(process, 0)
        time.sleep(0.01)
