"""Which lines of the package golden cells execute, and which lines of recorded jobs none of them executes.

    python tests/golden/lines.py            # the cells, then a short sample of every kind of recorded job

The second part takes an hour of a core, and goes on where it was stopped as long as scratch/ is kept. A line
that a recorded job executes and no golden cell does is printed, and the exit code is then 1: make a cell of
the job that is named.
"""

import ast
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import golden
from golden import ROOT, Spec

PACKAGE = ROOT / "src/leakbench"
# Cell → seconds and file → lines, of the last run of all cells.
KEPT = ROOT / "scratch/golden-lines.json"
# Recorded job → the lines that it executes and no golden cell does, file → lines. A line a job.
MISSING = ROOT / "scratch/missing-lines.jsonl"
Lines = dict[str, list[int]]


def executed(cell: Spec) -> tuple[float, Lines]:
    """Run a cell in a fork, and return the seconds that it takes and file → the lines that it executes."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "lines.json"
        if not (child := os.fork()):
            try:
                traced = coverage.Coverage(data_file=None, source=[str(PACKAGE)])
                traced.start()
                begun = time.perf_counter()
                golden.run(cell, Path(folder))
                seconds = time.perf_counter() - begun
                traced.stop()
                data = traced.get_data()
                found = {p: data.lines(p) or [] for p in data.measured_files()}
                lines = {str(Path(p).relative_to(PACKAGE)): sorted(each) for p, each in found.items()}
                told.write_text(json.dumps([seconds, lines]))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if not told.is_file():
            raise RuntimeError(f"{cell['experiment']}, {cell['sample'][0]}: ended without a result")
        seconds, lines = json.loads(told.read_text())
        return seconds, lines


def of_cells() -> dict[str, tuple[float, Lines]]:
    """Return golden cell → seconds and lines, and keep them for `mutants`."""
    golden.preload()
    found = {
        name: executed(json.loads((golden.CELLS / f"{name}.json").read_text())) for name in golden.names()
    }
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(found))
    return found


def of_records(there: dict[str, set[int]]) -> Iterator[tuple[str, Lines]]:
    """Yield a sample of every kind of recorded job, and the lines that it executes beyond `there`."""
    from making import kinds

    found = MISSING.read_text().splitlines() if MISSING.is_file() else []
    known = dict(json.loads(line) for line in found)
    yield from known.items()
    for cell in kinds():
        name = f"{cell['run']}/{cell['experiment']}: {cell['sample'][0]}"
        if name not in known:
            more = {file: set(each) - there.get(file, set()) for file, each in executed(cell)[1].items()}
            missing = {file: sorted(each) for file, each in more.items() if each}
            with MISSING.open("a") as out:
                out.write(json.dumps([name, missing]) + "\n")
            yield name, missing


def functions(file: str) -> dict[int, str]:
    """Return line → name of the innermost function or class of a file that has it."""
    found: dict[int, str] = {}

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            own = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                own = f"{name}.{child.name}".lstrip(".")
                found.update(dict.fromkeys(range(child.lineno, (child.end_lineno or 0) + 1), own))
            walk(child, own)

    walk(ast.parse((PACKAGE / file).read_text()), "")
    return found


def main() -> int:
    """Print the lines that recorded jobs execute and golden cells do not; return 1 where there are any."""
    there: dict[str, set[int]] = {}
    cells = json.loads(KEPT.read_text()) if MISSING.is_file() and KEPT.is_file() else of_cells()
    for _, lines in cells.values():
        for file, each in lines.items():
            there.setdefault(file, set()).update(each)
    print(f"{len(cells)} golden cells, {sum(seconds for seconds, _ in cells.values()):.0f} seconds")
    missing: dict[str, dict[int, str]] = {}
    for name, lines in of_records(there):
        for file, each in lines.items():
            for line in set(each) - there.get(file, set()):
                missing.setdefault(file, {}).setdefault(line, name)
    wrong = 0
    for file, found in sorted(missing.items()):
        owners = functions(file)
        for line, name in sorted(found.items()):
            wrong += 1
            print(f"{file}:{line} {owners.get(line, '')} ({name})")
    print(f"{wrong} lines of recorded jobs are executed by no golden cell")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
