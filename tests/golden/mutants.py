"""Random faults in the code that recorded jobs execute: does a golden cell or a unit test find each?

    python tests/golden/mutants.py --count 200 --seed 1

Each mutant changes one operator, comparison, constant or condition on a line that golden cells execute
(`lines.py` says which). The cells that execute the line are compared first, the quickest first. If all of
them agree, the unit tests that name the file run. Results are appended to scratch/mutants.csv, so that a run
that was stopped goes on. The exit code is 1 where fewer than 95 % die.
"""

import argparse
import ast
import copy
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import golden
from golden import ROOT
from lines import KEPT, PACKAGE, of_cells

RESULTS = ROOT / "scratch/mutants.csv"
SHARE = 0.95
# How many times longer than the cell a mutant may take, and the seconds for unit tests.
PATIENCE, TESTS = 10.0, 400
_SWAP: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def _changed(node: ast.AST) -> ast.AST | None:
    """Return a node with one fault, or None where a node of its kind gets none."""
    made = copy.deepcopy(node)
    if isinstance(made, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(made.op) in _SWAP:
        made.op = _SWAP[type(made.op)]()
    elif isinstance(made, ast.Compare) and type(made.ops[0]) in _SWAP:
        made.ops[0] = _SWAP[type(made.ops[0])]()
    elif isinstance(made, ast.UnaryOp) and isinstance(made.op, ast.USub | ast.Not):
        return made.operand
    elif isinstance(made, ast.Constant) and isinstance(made.value, bool):
        made.value = not made.value
    elif isinstance(made, ast.Constant) and isinstance(made.value, int):
        made.value += 1
    elif isinstance(made, ast.Constant) and isinstance(made.value, float):
        made.value = made.value * 1.5 or 1.0
    elif isinstance(made, ast.If | ast.IfExp | ast.While):
        made.test = ast.UnaryOp(ast.Not(), made.test)
    else:
        return None
    return made


def _places(tree: ast.Module, lines: set[int]) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, place in a list, node) of what may be changed in bodies of functions.

    Left out are annotations, defaults, what only words a message, and what raises.
    """

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "args", "bases") and not isinstance(
                node, ast.Call
            ):
                continue
            for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                raises = isinstance(child, ast.If) and isinstance(child.body[-1], ast.Raise)
                left_out = raises or isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert)
                if left_out or not isinstance(child, ast.AST):
                    continue
                now = inside or isinstance(child, ast.FunctionDef)
                if inside and getattr(child, "lineno", 0) in lines and _changed(child) is not None:
                    yield node, field, place, child
                yield from walk(child, now)

    yield from walk(tree, False)


def mutants(executed: dict[str, set[int]], rng: random.Random) -> Iterator[tuple[str, int, str, str]]:
    """Yield (file, line, what was changed, text of the file) without end."""
    pool = []
    for file, lines in sorted(executed.items()):
        tree = ast.parse((PACKAGE / file).read_text())
        pool += [(file, number) for number, _ in enumerate(_places(tree, lines))]
    rng.shuffle(pool)
    for file, number in pool:
        tree = ast.parse((PACKAGE / file).read_text())
        parent, field, place, node = list(_places(tree, executed[file]))[number]
        made = _changed(node)
        before, after = ast.unparse(node).split("\n")[0], ast.unparse(made).split("\n")[0]  # type: ignore[arg-type]
        if place is None:
            setattr(parent, field, made)
        else:
            getattr(parent, field)[place] = made
        yield file, node.lineno, f"{before} -> {after}", ast.unparse(ast.fix_missing_locations(tree))


def by_cells(package: Path, cells: list[tuple[float, str]]) -> str:
    """Return the name of the first cell that the package below `package` fails, or ""."""
    for seconds, name in cells:
        if not (child := os.fork()):
            code = 1
            try:
                signal.alarm(int(PATIENCE * seconds + 30))
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                sys.path.insert(0, str(package))
                code = int(bool(golden.compared(name)))
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            return name
    return ""


def by_tests(package: Path, file: str) -> str:
    """Return the first test that fails of those that name the file or lie in its part of the house, or ""."""
    stem, unit = Path(file).stem, ROOT / "tests/unit"
    # The tests of attacks/matching/engines lie in attacks/matching.
    home = next(home for home in (unit / file).parents if home.is_dir())
    dotted = "leakbench." + file.removesuffix(".py").replace("/", ".")
    near = []
    for path in sorted([*unit.rglob("test_*.py"), *(ROOT / "tests/fuzz").glob("test_*.py")]):
        text = path.read_text()
        named = dotted in text or f"{dotted.rpartition('.')[0]} import {stem}" in text
        own = home != unit and path.is_relative_to(home)
        if named or own:
            near.append((not named, stem not in path.stem, str(path)))
    if not near:
        return ""
    # The tests of the night too.
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", ""]
    call = [sys.executable, "-m", "pytest", *options, *(path for *_, path in sorted(near))]
    environment = os.environ | {"PYTHONPATH": str(package)}
    try:
        done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TESTS)
    except subprocess.TimeoutExpired:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else "tests" if done.returncode == 1 else ""


def main() -> int:
    """Make mutants, and print and keep which of them die."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    known = json.loads(KEPT.read_text()) if KEPT.is_file() else of_cells()
    executed: dict[str, set[int]] = {}
    of_line: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for name, (seconds, lines) in known.items():
        for file, each in lines.items():
            executed.setdefault(file, set()).update(each)
            for line in each:
                of_line.setdefault((file, line), []).append((seconds, name))
    golden.preload()
    done = list(csv.reader(RESULTS.open())) if RESULTS.is_file() else []
    with tempfile.TemporaryDirectory() as folder:
        # Everything beside the package is there too: a test that misses its catalogue fails for that alone.
        for beside in ROOT.iterdir():
            if beside.name != "src":
                (Path(folder) / beside.name).symlink_to(beside)
        source = Path(folder) / "src"
        package = source / "leakbench"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        rng = random.Random(given.seed)
        for number, (file, line, what, text) in enumerate(mutants(executed, rng)):
            if number >= given.count:
                break
            if number < len(done):
                continue
            whole = (package / file).read_text()
            (package / file).write_text(text)
            begun = time.perf_counter()
            killer = by_cells(source, sorted(of_line[file, line])) or by_tests(source, file)
            (package / file).write_text(whole)
            row = [f"{file}:{line}", what, killer or "ALIVE", f"{time.perf_counter() - begun:.0f}"]
            done.append(row)
            with RESULTS.open("a") as out:
                csv.writer(out).writerow(row)
            print(*row, sep=" | ", flush=True)
    rows = done[: given.count]
    dead = sum(row[2] != "ALIVE" for row in rows)
    print(f"{dead} of {len(rows)} mutants die")
    return int(dead < SHARE * len(rows))


if __name__ == "__main__":
    sys.exit(main())
