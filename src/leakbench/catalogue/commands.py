"""docs/cli.md: every command and its options, from the parser and the docstrings of the verbs."""

import argparse
import ast

from leakbench.base.code import PACKAGE
from leakbench.catalogue.api import arguments
from leakbench.catalogue.table import Row, table

INTRODUCTION = """\
# The command line

`python -m leakbench manual` writes this page from the parser and the docstrings of the verbs. Do not edit it.

`python -m leakbench COMMAND`, or `leakbench COMMAND` in the environment, runs one command. A mistake of the
caller ends it with exit code 2 and one line, which says what is wrong, where, and how to mend it.
"""
JOBS = """\
# Jobs of the workflow

The rules of the workflow call these commands, and the log of a run has each of them as it was called. Their
files and specs are made by other jobs, or by `leakbench plan`.
"""
# The commands that people call. All others are jobs.
CALLED = ("audit", "enter", "new", "plan", "verify", "compare", "check", "record", "recheck", "manual")


def commands(parser: argparse.ArgumentParser) -> str:
    """Return the text of docs/cli.md.

    parser: the parser of the command line, which has a subcommand for each verb.
    """
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    assert isinstance(verbs, dict)
    jobs = [verb for verb in verbs if verb not in CALLED]
    pages = [INTRODUCTION, *(_entry(v, verbs[v]) for v in CALLED), JOBS, *(_entry(v, verbs[v]) for v in jobs)]
    return "\n".join(pages)


def _entry(verb: str, of: argparse.ArgumentParser) -> str:
    meanings, about = _meanings(verb), of.description or ""
    rows = [_row(action, meanings) for action in of._actions if action.dest != "help"]
    heads = ("argument", "needed", "meaning")
    return f"## {verb}\n\n{about[:1].upper()}{about[1:]}.\n\n{table(rows, heads)}\n"


def _row(action: argparse.Action, meanings: dict[str, str]) -> Row:
    name = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.dest.upper()}`"
    several = " …" if action.nargs in ("*", "+") else ""
    needed = action.required and action.nargs != "*"
    return name + several, "yes" if needed else "", action.help or meanings.get(action.dest, "")


def _meanings(verb: str) -> dict[str, str]:
    """Return argument → its meaning, of the function that a verb calls."""
    file = PACKAGE / "jobs" / f"{verb}.py"
    nodes = ast.parse(file.read_text()).body if file.is_file() else []
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == verb]
    return {key: row[-1] for node in found for key, row in arguments(node).items()}
