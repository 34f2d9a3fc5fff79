"""The command line: one subcommand for each verb. The rules of the workflow call the same subcommands.

The process of a job that the warm process runs loads no more than the top of this file. What the verbs need
is therefore imported in functions.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.base.errors import Altered, UserError, raise_if_unwritable
from leakbench.base.processes import blinding
from leakbench.base.processes.process import end_with, owner_of_the_run, prepare, stop
from leakbench.base.processes.warm import run_warm

if TYPE_CHECKING:
    import argparse

# The verb that works in a child process of its job (`leakbench.base.processes.blinding.apart`).
APART = "attack"
# The arguments that `capture` takes only where it plays the federation itself.
PLAYED = ("data", "victim", "oracle", "truth")
# The errors of the operating system for a path at which no file can be.
_NO_PLACE = (
    errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ENOENT, errno.ELOOP,
)  # fmt: skip


def _short_of(problem: Exception) -> str:
    """Describe what the machine, or a limit of its user, refused or has too little of; "" for all else."""
    try:
        raise_if_unwritable(problem, Path())
    except UserError as told:
        return str(told)
    number = getattr(problem, "errno", None)
    where = getattr(problem, "filename2", None) or getattr(problem, "filename", None)
    if number in _NO_PLACE and where:
        return f"{where}: {os.strerror(number).lower()} (name another path)"
    if number in (errno.EMFILE, errno.ENFILE):
        return "too many open files (raise the limit on them: ulimit -n)"
    words = ("failed to map segment", "allocate memory")
    if isinstance(problem, MemoryError) or any(each in str(problem) for each in words):
        said = f": {text[0]}" if (text := str(problem).splitlines()) else ""
        return f"too little memory{said} (give the job more, or raise the limit on it: ulimit -v)"
    return ""


def _mended(problem: Altered, root: Path) -> UserError:
    """Return the error to show for an altered file. A result is set aside first, to be made again."""
    from leakbench.base.whole import set_aside
    from leakbench.jobs.arguments import damaged

    if not damaged(problem.path):
        return UserError(f"{problem.path}: {problem.what} (name a file of the right kind)")
    done = set_aside(problem.path, root)
    return UserError(f"{problem.path}: {problem.what} ({done})") if done else problem


def _line_of(problem: Exception, root: Path) -> str:
    """Return the line that explains a user's mistake, or what the machine refused; "" for all else."""
    if isinstance(problem, UserError):
        return str(_mended(problem, root) if isinstance(problem, Altered) else problem)
    if isinstance(problem, ModuleNotFoundError):
        name = problem.name or "leakbench"
        ours = name.partition(".")[0] == "leakbench"
        return "" if ours else f"{name} is not installed (pip install 'leakbench[pipeline]')"
    if isinstance(problem, SyntaxError):
        found = problem.filename and os.path.isfile(problem.filename)
        line = f"{problem.filename}: line {problem.lineno}: {problem.msg} (mend the file)"
        return str(UserError(line)) if found else ""
    return _short_of(problem)


def _told(verb: str, root: Path, work: Callable[[], int | None]) -> int:
    """Do a verb's work and return its exit code, 2 after one line for a user's mistake."""
    try:
        code = work() or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # A reader of only the first lines has seen enough. (The signal of a broken pipe would end the process
        # that runs the verb.)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (UserError, SyntaxError, OSError, MemoryError, ImportError, RuntimeError) as problem:
        if not (line := _line_of(problem, root)):
            raise
        print(f"leakbench {verb}: {line}", file=sys.stderr)
        return 2


def _run(arguments: "argparse.Namespace") -> int:
    """Call the function of the verb's own file with the arguments that it takes, and return its exit code."""
    import inspect

    from leakbench.jobs.arguments import check

    verb = arguments.verb
    values = {key: value for key, value in vars(arguments).items() if key not in ("verb", "threads")}
    root = values.pop("root")
    name = verb
    if verb == "capture":
        flower = values["from_flower"] is not None
        name = "flower_capture" if flower else verb
        if wrong := next((each for each in PLAYED if (values[each] is None) != flower), ""):
            why = ": a Flower app has none (leave it out)", " is missing (only --from-flower does without)"
            raise UserError(f"--{wrong}{why[not flower]}")
    values = check(verb, values)
    own = name.replace("-", "_")
    function = getattr(import_module(f"leakbench.jobs.{own}"), own)
    taken = inspect.signature(function).parameters
    if "root" in taken and not (root / "config").is_dir():
        raise UserError(
            f"{root.resolve() / 'config'}: no such folder ({verb} works on a checkout: run it there, or name "
            "the checkout by --root)"
        )
    values |= {"root": root, "scratch": root / "scratch" / verb, "seal": blinding.seal}
    return int(function(**{key: value for key, value in values.items() if key in taken}) or 0)


def run(argv: Sequence[str]) -> int:
    """Run one verb in this process and return its exit code: 2 after one line for a user's mistake."""
    from leakbench.jobs.parser import JOBS, parser

    arguments = parser().parse_args(argv)
    prepare(arguments.threads)
    # A scheduler ends a job with SIGTERM, a person with SIGINT, which a process in the background of a shell
    # would ignore.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    owner = owner_of_the_run()
    if owner is not None:
        end_with(owner)
    # Processes of the workflow's rules execute no code of an attack, but in a sealed child.
    if arguments.verb in (*JOBS, "verify"):
        blinding.refuse_attacks()
    try:
        return _told(arguments.verb, arguments.root, lambda: _run(arguments))
    finally:
        blinding.allow_attacks()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, in a fork of the run's warm process if there is one, and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    blind = given[:1] == [APART]
    # The warm process has loaded its libraries for one thread, so it serves no other number of threads.
    code = None if any(word.partition("=")[0] == "--threads" for word in given) else run_warm(given, blind)
    return run(given) if code is None else code
