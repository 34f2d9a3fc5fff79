"""Runs somebody's own code in a process of its own, with a limit on time and memory.

No process that the code started outlives the run.
"""

import ctypes
import json
import os
import re
import reprlib
import resource
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

from leakbench.base.errors import UserError
from leakbench.base.processes.process import end_with_parent

Tell = Callable[[str], None]
# Values for JSON, by their names.
Json = dict[str, Any]
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# The largest number of seconds that a timer of the system takes.
_MOST = 1e9
_SUBREAPER = 36
# Packages that a client's own code may lack → the extra of leakbench that has them.
EXTRAS = {"transformers": "text", "peft": "text"}
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


def seconds_of(text: str | float) -> float:
    """Return the seconds of a duration such as 90, "90s", "2m" or "1h". Raises UserError otherwise."""
    return amount(str(text), _SECONDS, "budget", "a duration (write 90s, 2m or 1h)")


def is_rate(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf


def amount(text: str, units: dict[str, float], flag: str, what: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]?)\s*", text.lower())
    amount = float(match[1]) * units.get(match[2], 0.0) if match else 0.0
    if not 0 < amount <= _MOST:
        raise UserError(f"{flag}: {reprlib.repr(text)} is not {what}")
    return amount


def split(text: str) -> tuple[Path, str]:
    """Return file and name of FILE.py:NAME. Raises UserError for anything else."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"audit: {text!r} is not FILE.py:NAME, such as my_app.py:client")
    if not os.path.isfile(file):
        raise UserError(f"audit: {file}: no such file")
    return Path(file), name


def loaded(text: str) -> Any:
    """Run a file and return the object that FILE.py:NAME names. Raises UserError if there is none."""
    path, name = split(text)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    # No compiled copy is left beside the user's file.
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        there = [each for each, value in vars(module).items() if isfunction(value)]
        raise UserError(f"has no {name} (it has {', '.join(there[:3]) or 'no function'})")
    return getattr(module, name)


def supervised(
    work: str, given: list[Any], tell: Tell, what: str, seconds: float, memory: float,
    path: list[str] | None = None,
) -> Json:  # fmt: skip
    """Run a function, whose lines go to `tell`, in a process of its own and return its result."""
    # `work` is MODULE:NAME; the function takes `given`, values for JSON, a function that tells a line, and
    # one that keeps a result so far, and returns values for JSON. The limit `memory` is in gigabytes, of the
    # process and all that it starts, and `path` is where it finds modules, by default as this process. No
    # process that this one starts outlives the call. If a run ends early, the result is the last one that was
    # kept, with the reason as `ended`. Raises UserError, in one line that begins with `what`, if there is
    # none.
    # Processes whose parent ended become children of this process, so none is lost.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    ours, known, peak = set(_children(os.getpid())), Json(), [0.0]
    # The mark stands before each message. Anything else that the code writes into the pipe is no message.
    mark = secrets.token_hex(16)
    start = f"import sys; sys.path = {path or sys.path!r}; from leakbench.audit.child import run; run()"
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen([sys.executable, "-uPc", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=output, start_new_session=True) as child,
    ):  # fmt: skip
        assert child.stdin is not None
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(_encoded([mark, work, given]).encode())
                child.stdin.close()
            said = _heard(child, mark.encode(), what, tell, _limits(seconds, memory, ours, peak), known)
        except KeyboardInterrupt:
            if not known:
                raise
            said = {"problem": "stopped by the keyboard"}
        finally:
            _end(ours)
            with suppress(AttributeError):
                ctypes.CDLL(None).prctl(_SUBREAPER, 0, 0, 0, 0)
        printed = _printed(output, tell)
    if printed:
        tell(f"note: {what} printed {printed} lines, which are not shown")
    if "problem" in said:
        problem: str = said["problem"]
        if known:
            return known | {"ended": problem}
        # A message about a file begins with its name already.
        raise UserError(problem if problem.startswith((f"{what}: ", f"{what}/")) else f"{what}: {problem}")
    found = said.get("result")
    if not isinstance(found, dict):
        raise UserError(f"{what}: {_FORGED}")
    if found:
        tell(f"note: {what} and the audit used at most {peak[0]:.1f} GB of memory")
    return found


def run() -> None:
    """Do what `supervised` asks for, with messages going to its pipe and all other output to its file."""
    end_with_parent()
    mark, work, given = json.load(sys.stdin)
    writing, own = os.dup(1), os.getpid()
    os.dup2(2, 1)

    def say(message: Json) -> None:
        data = mark.encode() + _encoded(message).encode() + b"\n"
        while data:
            data = data[os.write(writing, data) :]

    said: Json
    try:
        module, _, name = work.partition(":")
        tell, keep = (lambda value, kind=kind: say({kind: value}) for kind in ("line", "known"))
        said = {"result": getattr(import_module(module), name)(*given, tell, keep)}
    except UserError as problem:
        said = {"problem": str(problem)}
    except MemoryError:
        said = {"problem": "ran out of memory"}
    except BaseException as problem:  # noqa: BLE001 - whatever the user's code raises is one line
        said = {"problem": _raised(problem)}
    # If the user's code forked, the fork may come here too, and must send no message.
    if os.getpid() == own:
        say(said)


def bounded(gigabytes: float) -> float:
    """Let what this process allocates beyond a limit fail, so that one attack ends; return what is left."""
    # The system counts addresses, of which libraries hold more than memory.
    held = int(Path("/proc/self/status").read_text("utf-8").partition("VmData:")[2].split()[0]) * 1024
    left = gigabytes * _GIGABYTE - _used(os.getpid())
    resource.setrlimit(resource.RLIMIT_DATA, (int(held + max(left, 0.0)), resource.RLIM_INFINITY))
    return left / _GIGABYTE


def _raised(problem: BaseException) -> str:
    place, trace = "", problem.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "leakbench" not in name and "site-packages" not in name and not name.startswith("<"):
            place = f" ({Path(name).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(problem).split())[:200]
    if extra := EXTRAS.get(getattr(problem, "name", None) or ""):
        text += f"; install leakbench[{extra}]"
    return f"{type(problem).__name__}{': ' if text else ''}{text}{place}"


def _limits(seconds: float, memory: float, ours: set[int], peak: list[float]) -> Callable[[], str]:
    """Return a function that says which limit the child exceeds, or nothing, and keeps its peak of memory."""
    until = time.monotonic() + seconds

    def exceeded() -> str:
        if time.monotonic() > until:
            return f"not finished after {seconds:.0f} s (raise --budget, or make it quicker)"
        used = sum(_used(each) for each in _descendants(ours)) / _GIGABYTE
        peak[0] = max(peak[0], used)
        return f"used {used:.1f} GB, more than {memory:g} GB (raise --memory)" if used > memory else ""

    return exceeded


def _heard(
    child: "subprocess.Popen[bytes]", mark: bytes, what: str, tell: Tell, exceeded: Callable[[], str],
    known: Json,
) -> Json:  # fmt: skip
    """Pass on the child's lines, keep its results so far in `known`, and return its last message."""
    assert child.stdout is not None
    reading, rest = child.stdout.fileno(), b""
    while True:
        # This is asked before reading: if the child has ended, all its messages are in the pipe by now.
        runs = child.poll() is None
        ready, _, _ = select.select([reading], [], [], _TICK)
        data = os.read(reading, 1 << 16) if ready else None
        *lines, rest = (rest + (data or b"")).split(b"\n")
        for line in lines:
            said = _message(line, mark)
            if said is None:
                raise UserError(f"{what}: {_FORGED}")
            if "known" in said:
                known |= said["known"]
            elif "line" in said:
                tell(said["line"])
            else:
                return said
        if data == b"" or (data is None and not runs):
            return {"problem": "its process ended without a result"}
        if problem := exceeded():
            return {"problem": problem}


def _message(line: bytes, mark: bytes) -> Json | None:
    """Return the message in a line of the pipe, or None for a line that leakbench did not write."""
    with suppress(ValueError):
        if line.startswith(mark):
            found: Json = json.loads(line[len(mark) :])
            return found
    return None


def _printed(output: BinaryIO, tell: Tell) -> int:
    """Pass on leakbench's own lines of what the child printed, and return the number of the other lines."""
    output.seek(0)
    text = output.read(1 << 24).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    for line in dict.fromkeys(line for line in lines if line.startswith(_OWN)):
        tell(f"note: {line.removeprefix(_OWN)}")
    return sum(not line.startswith((_OWN, _PROGRESS)) for line in lines)


def _children(process: int) -> list[int]:
    with suppress(OSError):
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return [int(n) for task in tasks for n in (task / "children").read_text("utf-8").split()]
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
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines()
        held = [int(line.split()[1]) for line in lines if line.startswith(_HELD)]
        if held:
            return 1024 * sum(held)
    with suppress(OSError, ValueError, IndexError):
        # If the kernel has no such shares or the process hides them, each fork counts a shared page.
        words = Path(f"/proc/{process}/statm").read_text("utf-8").split()
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
