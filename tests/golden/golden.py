"""Golden cells: small runs whose numbers must not change unless somebody means them to.

A golden cell is one file of cells/: the jobs of a recorded experiment on one capture, or one training study,
with short schedules and made-up data, and what they gave. `python tests/golden/golden.py --help` says how a
cell is made, and how the code of an older commit is held to the cells.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from madeup import write_data
from measures import differences, held, robust

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CELLS = HERE / "cells"
OTHERS: tuple[dict[str, str], ...] = (
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"},
    {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"},
)
# With what another program may end.
FAULTS = (ArithmeticError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError)
# What a study is said to have cost, since its table shows it.
COST = {"verb": "train", "seconds": 1, "seconds_per_round": 1}
Spec = dict[str, Any]
KEYS = {
    "name": str, "run": str, "experiment": str, "sample": list, "data": dict, "jobs": list, "results": dict,
}  # fmt: skip


def preload() -> None:
    """Load the libraries that every cell needs, but not leakbench, so that forks begin with them."""
    for library in ("pandas", "pyarrow.parquet", "pydantic", "scipy.stats", "skimage.metrics", "torch"):
        import_module(library)


def names() -> list[str]:
    return sorted(path.stem for path in CELLS.glob("*.json"))


def read(name: str) -> Spec:
    """Return a golden cell: where it comes from, its data, its jobs, and what they gave.

    Raises UserError for a cell that is missing, that is none, or that has the name of another one.
    """
    from leakbench.base.artefacts import read_json
    from leakbench.base.errors import UserError

    path = CELLS / f"{name}.json"
    found: Spec = read_json(
        path, "a golden cell", f"restore it with `git checkout`, or make it again ({HERE / 'README.md'})"
    )
    for key, kind in KEYS.items():
        if not isinstance(found.get(key), kind):
            raise UserError(f"{path}: {key}: is missing or of another type (restore it with `git checkout`)")
    if found["name"] != name:
        raise UserError(
            f"{path}: name: is {found['name']!r}, another cell's (rename the file, or make the cell again)"
        )
    return found


def run(cell: Spec, folder: Path) -> dict[str, Any]:
    """Run the jobs of a cell in a folder, and return file → what each of its tensors or columns holds.

    cell: as `read` returns it.
    folder: an empty folder.
    """
    for name, form in cell["data"].items():
        write_data(folder / f"data/{name}.safetensors", name, form)
    (folder / "cost.json").write_text(json.dumps(COST))
    given = Path.cwd()
    os.chdir(folder)
    try:
        for job in cell["jobs"]:
            _run(job)
    finally:
        os.chdir(given)
    outs = [path for job in cell["jobs"] for path in job["out"].values()]
    return {path: held(folder / path) for path in outs if (folder / path).is_file()}


def _run(job: Spec) -> None:
    from leakbench.jobs import cli

    spec = Path(f"specs/{job['name']}.json")
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(json.dumps(job["spec"], sort_keys=True, separators=(",", ":")))
    call = [job["verb"], "--spec", str(spec)]
    for option, value in (job["in"] | job["out"]).items():
        paths = value if isinstance(value, list) else [value]
        call += [f"--{option}", *paths] if paths else []
    for path in job["out"].values():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    if job["verb"] == "attack":
        # The command seals itself in a child process, into which nobody sees.
        attacked(job)
    elif code := cli.run(call):
        raise RuntimeError(f"{job['name']}: exit code {code}")


def attacked(job: Spec, **how: Any) -> None:
    """Run the job of an attack in the folder of its cell. how: further arguments of `jobs.attack.attack`."""
    from leakbench.catalogue.spec import spec_of
    from leakbench.jobs.attack import attack

    given: dict[str, Path | None] = dict.fromkeys(("capture", "out", "generator", "labels", "record"))
    for option, value in (job["in"] | job["out"]).items():
        paths = value if isinstance(value, list) else [value]
        given[option] = Path(paths[0]) if paths else None
    attack(**given, spec=spec_of("attack", job["spec"], job["name"]), scratch=Path("scratch"), **how)


def resting(cell: Spec, path: str) -> list[str]:
    """Return the recorded tables that rest on the job which made a file of a cell, as <run>/<experiment>.

    These are the tables for which a job of the same verb and the same parts runs.
    """
    from leakbench.base.parts import parts_of
    from leakbench.jobs.record import planned
    from leakbench.papers.reference import recorded, run_of

    job = next(job for job in cell["jobs"] if path in job["out"].values())
    parts = set(parts_of(job["spec"]))
    kind = "study" if job["name"] == "study" else job["name"].partition("/")[0]
    found = []
    for run in sorted(folder.name for folder in (ROOT / "reference").glob("*/")):
        # Raised seeds have the jobs of the run beside which they lie.
        asked = planned(ROOT, run_of(run)[0])
        for table in recorded(ROOT / "reference" / run):
            names = asked.needed(table.stem) if table.stem in asked.experiments else ()
            # Scores and tables are of every experiment.
            same = kind in ("score", "table") or any(
                name.startswith(f"{kind}/") and parts <= set(parts_of(asked.specs[name])) for name in names
            )
            found += [f"{run}/{table.stem}"] if same else []
    return found


def report(name: str, lines: Sequence[str]) -> str:
    """Return what a failure says: the differences of a cell, and what rests on the first of them."""
    path = lines[0].partition(":")[0]
    tables = resting(read(name), path)
    return "\n".join(
        [
            f"tests/golden/cells/{name}.json: {len(lines)} numbers changed (mend the change; or, where it is "
            f"meant, raise NUMERICS in the file that made it, record the tables again and write the cell by "
            f"`python tests/golden/golden.py write {name}`)",
            *(f"  {line}" for line in lines[:12]),
            f"  {len(tables)} recorded tables rest on {path}: {', '.join(tables)}",
        ]
    )


def compared(name: str) -> list[str]:
    """Run a cell in a folder of its own, and return what differs."""
    cell = read(name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(differences(cell, run(cell, Path(folder))))
        except FAULTS as fault:
            # Another program's fault is a difference, and no reason to leave other cells out.
            return [f"ended with a fault: {type(fault).__name__}: {fault}"]


def write(cells: Mapping[str, Spec]) -> None:
    """Run cells under several sets of instructions, and write each with what it gave.

    cells: name → cell.
    """
    found = [_under(environment, cells) for environment in ({}, *OTHERS)]
    for name, cell in cells.items():
        own, *others = (each[name] for each in found)
        cell["name"], cell["results"] = name, {}
        for path, tensors in own.items():
            same = {key: [each[path].get(key) for each in others] for key in tensors}
            cell["results"][path] = {key: robust(value, same[key]) for key, value in tensors.items()}
        (CELLS / f"{name}.json").write_text(_text(cell))


def _under(environment: dict[str, str], cells: Mapping[str, Spec]) -> dict[str, Any]:
    """Return name → what a cell gives in a process with these variables."""
    with tempfile.TemporaryDirectory() as folder:
        # Made-up data are drawn in the order of their names in the file, which is sorted.
        (Path(folder) / "cells.json").write_text(json.dumps(cells, sort_keys=True))
        call = [sys.executable, str(HERE / "golden.py"), "run", folder]
        own = os.environ | {"OMP_NUM_THREADS": "1"} | environment
        subprocess.run(call, check=True, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads((Path(folder) / "found.json").read_text())
        return found


def _text(cell: Spec) -> str:
    """Return a cell as JSON in which each job and each measured tensor is a line."""

    def lines(value: Any, depth: int) -> str:
        if not value or not depth:
            return json.dumps(value, sort_keys=True)
        if isinstance(value, list):
            return "[\n" + ",\n".join(lines(each, 0) for each in value) + "\n]"
        pairs = (f"{json.dumps(key)}: {lines(value[key], depth - 1)}" for key in sorted(value))
        return "{\n" + ",\n".join(pairs) + "\n}"

    deep = {"jobs": 1, "results": 2}
    parts = (f"{json.dumps(key)}: {lines(cell[key], deep.get(key, 0))}" for key in KEYS)
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _package_of(commit: str, folder: Path) -> Path:
    """Return the folder that holds the package as it was at a commit."""
    call = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src/leakbench", "config"]
    packed = subprocess.run(call, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare", help="run cells and print what differs")
    compare.add_argument("names", nargs="*", help="all cells if none is named")
    compare.add_argument("--commit", help="run the code of this commit in place of today's")
    again = commands.add_parser("write", help="run cells and keep what they give")
    again.add_argument("names", nargs="*", help="all cells if none is named")
    alone = commands.add_parser("run", help="run FOLDER/cells.json and write FOLDER/found.json")
    alone.add_argument("folder", type=Path)
    make = commands.add_parser("make", help="make a cell of a recorded experiment")
    make.add_argument("names", nargs=1, metavar="name")
    make.add_argument("--run", default="standard", help="the scale")
    make.add_argument("--experiment", required=True)
    make.add_argument(
        "--sample", nargs="+", required=True, help="stems of cells on one capture, or of a study"
    )
    given = parser.parse_args()
    if given.command == "compare" and given.commit:
        with tempfile.TemporaryDirectory() as place:
            code = _package_of(given.commit, Path(place))
            call = [sys.executable, str(HERE / "golden.py"), "compare", *given.names]
            return subprocess.run(call, env=os.environ | {"PYTHONPATH": str(code)}).returncode
    if given.command == "compare":
        wrong = 0
        for name in given.names or names():
            lines = compared(name)
            wrong += bool(lines)
            print(f"{name}: {'same' if not lines else lines[0]}", *lines[1:], sep="\n  ", flush=True)
        return 2 if wrong else 0
    if given.command == "run":
        found = {}
        for name, cell in json.loads((given.folder / "cells.json").read_text()).items():
            with tempfile.TemporaryDirectory() as place:
                found[name] = run(cell, Path(place))
        (given.folder / "found.json").write_text(json.dumps(found))
        return 0
    if given.command == "write":
        write({name: read(name) for name in given.names or names()})
        return 0
    from making import made

    from leakbench.catalogue.workflow import Workflow

    with tempfile.TemporaryDirectory() as home:
        flow = Workflow(ROOT, given.run, home=Path(home))
        write({given.names[0]: made(flow, given.experiment, given.sample)})
    return 0


if __name__ == "__main__":
    from leakbench.base.errors import UserError

    try:
        sys.exit(main())
    except UserError as problem:
        print(f"golden: {problem}", file=sys.stderr)
        sys.exit(2)
