"""Which files are another program than at an earlier commit, but for comments, docstrings and layout."""

import ast
import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from leakbench.catalogue.code import PACKAGE

# What may begin with a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# A record names a commit, and is data.
_COMMIT = re.compile("HEAD|[0-9a-f]{7,64}")


def changes(
    names: Sequence[str], commits: Sequence[str], known: Callable[[Mapping[str, str]], bool]
) -> tuple[str, list[str]]:
    """Return a commit whose files made a result, and the files that are another program today.

    The commit is the first of those with the fewest such files, or "" if no commit's files made the result.

    names: the files that the result follows from today, relative to the package.
    commits: names of commits in git, the likeliest first.
    known: says of file → sha256 at a commit whether the result was made by these files. It is asked before
    any file is parsed.
    """
    today = {name: (PACKAGE / name).read_bytes() for name in names}
    found = []
    for commit in commits:
        then = _files(commit, names)
        if then and known({name: hashlib.sha256(text).hexdigest() for name, text in then.items()}):
            apart = [n for n in names if n not in then or _program(then[n]) != _program(today[n])]
            found.append((commit, apart))
    return min(found, key=lambda each: len(each[1]), default=("", []))


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
def _program(text: bytes) -> str:
    """Return the syntax tree of a Python file without docstrings, as text. A tree has no comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)
