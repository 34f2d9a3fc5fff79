"""Which files are a different program than at an earlier commit, except for comments, docstrings, layout."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path

from leakbench.catalogue.code import PACKAGE

# What may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# A record names a commit, and is data.
_COMMIT = re.compile("HEAD|[0-9a-f]{7,64}")
# Asks a package which of its files modules reach.
_REACHED = """
import sys
from leakbench.catalogue.code import PACKAGE, closure
for path in closure(*sys.argv[1:]):
    print(path.relative_to(PACKAGE).as_posix())
"""
Files = Mapping[str, bytes]


def changes(
    names: Sequence[str], commits: Sequence[str], known: Callable[[Files], bool], modules: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Return a commit whose files made a result, and the files that are another program today.

    The commit is the first of those with the fewest such files, or "" if no commit's files made the result.
    Today's result may follow from other files than that of a commit. If no commit is known by `names`, each
    is therefore asked for the files that `modules` reached at that time.

    names: the files that the result follows from today, relative to the package.
    commits: names of commits in git, the likeliest first.
    known: says of file → bytes at a commit whether the result was made by these files. It is asked before
    any file is parsed.
    modules: the modules from which the result follows, as dotted names.
    """
    today = {name: (PACKAGE / name).read_bytes() for name in names}
    files = {commit: _files(commit, names) for commit in commits}
    made_by = [commit for commit, then in files.items() if then and known(then)]
    if not made_by and modules:
        there = [commit for commit, then in files.items() if then]
        made_by = [commit for commit in there if known(_reached(commit, tuple(modules)))]
    apart = {
        commit: [n for n in names if n not in then or _program(then[n]) != _program(today[n])]
        for commit in made_by
        for then in [files[commit]]
    }
    return min(apart.items(), key=lambda each: len(each[1]), default=("", []))


def unpack(commit: str, into: Path) -> None:
    """Write the files of the package at a commit into a new folder.

    commit: the commit.
    into: the folder.
    """
    call = ["git", "-C", str(PACKAGE), "archive", "--format=tar", commit, "."]
    packed = subprocess.run(call, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")


def _files(commit: str, names: Sequence[str]) -> dict[str, bytes]:
    """Return the files of the package at a commit, but for those that the commit lacks.

    Without git, or without the commit, that is none.
    """
    if not _COMMIT.fullmatch(commit):
        return {}
    call = ["git", "-C", str(PACKAGE), "cat-file", "--batch"]
    asked = "".join(f"{commit}:./{name}\n" for name in names).encode()
    try:
        rest = subprocess.run(call, input=asked, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    found = {}
    for name in names:
        # "<object> blob <size>" before the bytes of a file and a line break, or "<what was asked> missing".
        head, _, rest = rest.partition(b"\n")
        said = head.split(b" ")
        if said[-2] == b"blob":
            found[name], rest = rest[: int(said[-1])], rest[int(said[-1]) + 1 :]
    return found


@cache
def _reached(commit: str, modules: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files that modules reached at a commit that git has, in the order of that commit's code."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "leakbench"
        unpack(commit, package)
        call = [sys.executable, "-c", _REACHED, *modules]
        done = subprocess.run(
            call, env=os.environ | {"PYTHONPATH": folder}, cwd=folder, capture_output=True, text=True
        )
        return {name: (package / name).read_bytes() for name in done.stdout.split()}


@cache
def _program(text: bytes) -> str:
    """Return the syntax tree of a Python file without docstrings, as text. A tree has no comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)
