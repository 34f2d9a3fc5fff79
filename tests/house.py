"""How large the house is: `make house` prints it, and test_house.py keeps each number from growing.

The limits lie in house.yaml. A limit is lowered when the code shrinks. One that is raised needs a reason
beside it.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/leakbench"
LIMITS = Path(__file__).with_name("house.yaml")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def python(folder: Path) -> list[Path]:
    """Return the Python files below a folder that are tracked or new."""
    asked = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "--", f"{folder}/*.py"]
    names = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for name in names if (path := ROOT / name).is_file()]


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def code(text: str) -> int:
    """Return the number of lines that hold code: no blank lines, comments or docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*_NO_CODE, tokenize.ENDMARKER):
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            first = node.body[0]
            found -= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(found)


def imports(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield (module, module that it imports), both within the package and by dotted names below it."""
    names = {_module(path): path for path in paths}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                asked = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                whole = (f"{node.module}.{each.name}" for each in node.names)
                asked = [each if _below(each) in names else str(node.module) for each in whole]
            else:
                continue
            yield from ((name, _below(each)) for each in asked if each.startswith("leakbench."))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def _below(name: str) -> str:
    return name.removeprefix("leakbench").lstrip(".")


def circles(arrows: set[tuple[str, str]]) -> int:
    """Return the number of groups of nodes that reach each other."""
    to: dict[str, set[str]] = defaultdict(set)
    for one, other in arrows:
        to[one].add(other)

    def reached(start: str) -> set[str]:
        found, queue = set[str](), set(to[start])
        while queue:
            found |= queue
            queue = {each for name in queue for each in to.get(name, ())} - found
        return found

    of = {name: reached(name) for name in list(to)}
    return len(
        {
            frozenset(each for each in of if each in of[name] and name in of[each])
            for name in of
            if name in of[name]
        }
    )


def measured() -> dict[str, int]:
    """Return what is measured, by the names of house.yaml."""
    package = python(PACKAGE)
    text = "\n".join(path.read_text() for path in package)
    tops = [path.relative_to(PACKAGE).parts for path in package]
    files = {pair for pair in imports(package) if pair[0] != pair[1]}
    rooms = {(one.partition(".")[0], other.partition(".")[0]) for one, other in files}
    rooms = {(one, other) for one, other in rooms if one and other and one != other}
    return {
        "code in src": sum(code(path.read_text()) for path in package), "lines of src": lines(package),
        "lines of catalogue": lines(python(PACKAGE / "catalogue")),
        "files of catalogue": len(python(PACKAGE / "catalogue")),
        "lines of audit": lines(python(PACKAGE / "audit")),
        "rooms": len({parts[0] for parts in tops if len(parts) > 1}),
        "loose files": sum(len(parts) == 1 for parts in tops), "circles of files": circles(files),
        "arrows between rooms": len(rooms), 'spec["…"]': len(re.findall(r'\bspec\["', text)),
        "dict[str, Any]": text.count("dict[str, Any]"), "lines of tests": lines(python(ROOT / "tests")),
    }  # fmt: skip


if __name__ == "__main__":
    limits = yaml.safe_load(LIMITS.read_text())
    for name, value in measured().items():
        limit = limits[name]
        print(f"{name:22} {value:7,} (at most {limit['now']:,}; meant {limit['meant']:,})")
