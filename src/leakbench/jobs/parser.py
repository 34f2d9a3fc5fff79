"""The parser of the command line and its page, both made from the signatures and docstrings of the verbs.

The source is only read, because an import of a verb may need torch.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from leakbench import __version__
from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.jobs.docstrings import arguments, definition, table

# The verbs that people call, and those that the rules of the workflow call.
CALLED = (
    "audit", "enter", "new", "plan", "verify", "compare", "check", "record", "recheck", "renew", "campaign",
    "manual", "site", "archive", "fetch-records",
)  # fmt: skip
JOBS = ("fetch", "train", "capture", "attack", "score", "table", "figure", "scorecard", "report")
# The arguments that stand without a name before them.
_WORDS = {"target", "returned", "file", "kind", "name", "old", "new", "experiment"}
# The arguments that every verb has on the command line, and those that `cli` gives.
_GIVEN = {"root", "scratch", "seal"}
INTRODUCTION = """\
# The command line

`python -m leakbench COMMAND`, or `leakbench COMMAND` in the environment, runs one command. A mistake of the
caller ends it with exit code 2 and one line, which says what is wrong, where, and how to mend it.
"""
RULES = """\
# Jobs of the workflow

The rules of the workflow call these commands, and the log of a run has each of them as it was called. Their
files and specs are made by other jobs, or by `leakbench plan`.
"""


class _Parser(argparse.ArgumentParser):
    """Answer a mistake in one line, and suggest the nearest name for an unknown verb or option."""

    verbs: "dict[str, _Parser]"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown verbs and options before argparse complains about missing ones."""
        words = list(sys.argv[1:] if args is None else args)
        verbs = getattr(self, "verbs", None)
        for word in words:
            if verbs is not None and not word.startswith("-"):
                self._refuse_unless("verb", word, verbs)
                break
            if word == "--":
                break
            if word.startswith("--"):
                self._refuse_unless("option", word.partition("=")[0], self._option_string_actions)
        found, left = super().parse_known_args(words, namespace)
        if left:
            self.error(f"{left[0]!r} is one word too many")
        return found, left

    def _refuse_unless(self, kind: str, word: str, known: Any) -> None:
        if word not in known:
            from leakbench.base.yamls import suggest

            self._refuse(f"no {kind} '{word}' ({suggest(word, known)})")

    def error(self, message: str) -> NoReturn:
        self._refuse(f"{message} (see {self.prog} --help)")

    def _refuse(self, line: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {UserError(line)}\n")


def _like(pattern: str, what: str, kind: Callable[[str], Any], text: str) -> Any:
    """Return what a command's argument states. Its text must be like `pattern`, which is `what` in words."""
    if not re.fullmatch(pattern, text):
        raise argparse.ArgumentTypeError(f"{text!r} is {what}")
    return kind(text)


_POSITIVE = partial(_like, "0*[1-9][0-9]{0,8}", "no whole number above 0", int)
_SEED = partial(_like, "[0-9]{1,4000}", "no whole number of at least 0", int)
_DEVICE = partial(_like, "cpu|cuda(:[0-9]+)?", "neither cpu nor cuda[:number]", str)
# Type of an argument in a signature → how argparse reads it. The last two are for arguments of one name.
_READ: Mapping[str, Any] = {
    "bool": {"action": "store_true"}, "str": {}, "int": {"type": _POSITIVE}, "float": {"type": float},
    "Path": {"type": Path}, "list[Path]": {"type": Path, "nargs": "*"},
    "Sequence[Path]": {"type": Path, "nargs": "*"}, "list[str]": {"action": "append"},
    "Sequence[str]": {"action": "extend", "nargs": "+"},
    "seed: int | None": {"type": _SEED}, "device: str": {"type": _DEVICE},
}  # fmt: skip


def _add(to: _Parser, name: str, argument: tuple[str, str, str], needed: bool) -> None:
    """Add an argument of a verb's function, which must be given if `needed`, to the verb's parser."""
    kind, default, meaning = argument
    plain = "Path" if kind.endswith("Spec'") else kind.removesuffix(" | None")
    how = dict(_READ.get(f"{name}: {kind}") or _READ[plain])
    meaning = meaning.removesuffix(".").replace("%", "%%")
    if default and (value := eval(default, {"Path": Path})):
        how["default"] = value
        meaning += " (default: %(default)s)"
    if name in _WORDS:
        how["nargs"] = "+" if "nargs" in how else None if needed else "?"
        to.add_argument(name, help=meaning, **how)
    else:
        to.add_argument(f"--{name.replace('_', '-')}", required=needed, help=meaning, **how)


def _verb(to: _Parser, verb: str) -> None:
    """Add a verb's arguments to its parser. An argument is needed if all functions of the verb need it."""
    functions = ["capture", "flower_capture"] if verb == "capture" else [verb.replace("-", "_")]
    found = [arguments(definition(PACKAGE / "jobs" / f"{each}.py", each)) for each in functions]
    needs = [
        {name for name, (kind, default, _) in of.items() if not default and not kind.endswith(" | None")}
        for of in found
    ]
    # What the first function says of an argument of several counts.
    for name, argument in (found[0] | found[-1] | found[0]).items():
        if name not in _GIVEN:
            _add(to, name, argument, all(name in needed for needed in needs))
    to.add_argument("--root", type=Path, default=Path(), help="the checkout (default: here)")
    threads = "threads of one job (default: 1; the last bits of a result depend on it)"
    to.add_argument("--threads", type=_POSITIVE, default=1, help=threads)


@cache
def parser() -> _Parser:
    """Return the parser of every verb and its arguments, which is made once in a process."""
    whole = _Parser(prog="leakbench", description="One subcommand for each verb.", allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"leakbench {__version__}")
    commands = whole.add_subparsers(dest="verb", required=True, metavar="VERB")
    whole.verbs = commands.choices
    for verb in (*CALLED, *JOBS):
        with (PACKAGE / "jobs" / f"{verb.replace('-', '_')}.py").open(encoding="utf-8") as file:
            text = file.readline().strip('".\n').partition(": ")[2]
        _verb(commands.add_parser(verb, help=text, description=text, allow_abbrev=False), verb)
    return whole


def page() -> str:
    called, jobs = (map(_entry, verbs) for verbs in (CALLED, JOBS))
    return "\n".join([INTRODUCTION, *called, RULES, *jobs])


def _entry(verb: str) -> str:
    of, rows = parser().verbs[verb], []
    for action in of._actions[1:]:
        name = f"`{' '.join(action.option_strings) or action.dest.upper()}`"
        needed = "yes" if action.required and action.nargs != "*" else ""
        several = " …" if action.nargs in ("*", "+") else ""
        rows.append((name + several, needed, (action.help or "") % vars(action)))
    about, lines = of.description or "", table(rows, ("argument", "needed", "meaning"))
    return f"## {verb}\n\n{about[:1].upper()}{about[1:]}.\n\n{lines}\n"
