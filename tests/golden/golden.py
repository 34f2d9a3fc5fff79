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
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CELLS = HERE / "cells"
# What a processor's own order of sums may change, as a share of a tensor's norm.
TOLERANCE = 1e-4
# The number of random directions in which a tensor is measured.
DIRECTIONS = 4
# What a study is said to have cost, since its table shows it.
COST = {"verb": "train", "seconds": 1, "seconds_per_round": 1}
# The facts that say which code made a file and where, in place of what it gave.
MADE_BY = ("code", "versions", "spec", "device", "digest", "knows", "packages")
Spec = dict[str, Any]
KEYS = {
    "name": str, "run": str, "experiment": str, "sample": list, "data": dict, "jobs": list, "results": dict,
}  # fmt: skip


def names() -> list[str]:
    """Return the names of all golden cells."""
    return sorted(path.stem for path in CELLS.glob("*.json"))


def read(name: str) -> Spec:
    """Return a golden cell: where it comes from, its data, its jobs, and what they gave.

    Raises UserError for a cell that is missing, that is none, or that has the name of another one.
    """
    from leakbench.artefacts import read_json
    from leakbench.errors import UserError

    path = CELLS / f"{name}.json"
    found: Spec = read_json(path, "a golden cell", f"restore it with `git checkout`, or make it again ({HERE / 'README.md'})")
    for key, kind in KEYS.items():
        if not isinstance(found.get(key), kind):
            raise UserError(f"{path}: {key}: is missing or of another type (restore it with `git checkout`)")
    if found["name"] != name:
        raise UserError(f"{path}: name: is {found['name']!r}, another cell's (rename the file, or make the cell again)")
    return found


# --- running -------------------------------------------------------------------------------------------------


def run(cell: Spec, folder: Path) -> dict[str, Any]:
    """Run the jobs of a cell in a folder, and return file → what each of its tensors or columns holds.

    cell: as `read` returns it.
    folder: an empty folder.
    """
    for name, form in cell["data"].items():
        _write_data(folder / f"data/{name}.safetensors", name, form)
    (folder / "cost.json").write_text(json.dumps(COST))
    given = Path.cwd()
    os.chdir(folder)
    try:
        for job in cell["jobs"]:
            _run(job)
    finally:
        os.chdir(given)
    outs = [path for job in cell["jobs"] for path in job["out"].values()]
    return {path: _held(folder / path) for path in outs if (folder / path).is_file()}


def _run(job: Spec) -> None:
    from leakbench import cli
    from leakbench.parser import parser

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
        from leakbench.verbs.attack import attack

        values = vars(parser().parse_args(call))
        values = {name: values[name] for name in ("capture", "spec", "out", "generator", "labels", "record")}
        attack(**values, scratch=Path("scratch"))
    elif code := cli.run(call):
        raise RuntimeError(f"{job['name']}: exit code {code}")


def _write_data(path: Path, name: str, form: Spec) -> None:
    """Write a made-up data set: blurred blobs at a place for each class, records, or points of the plane."""
    from leakbench.artefacts import write_tensors

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if "weights" in form:
        drawn = {key: rng.standard_normal(shape, np.float32) * 0.05 for key, shape in form["weights"].items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_tensors(path, drawn, {})
    rows, columns, channels = form["shape"]
    facts: Spec = {"dataset": name}
    tensors: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        count = form[split]
        labels = rng.permutation(np.arange(count) % form["classes"])
        if name == "gaussians":
            images = rng.normal(labels[:, None], 1.0, (count, columns)).reshape(count, 1, columns, 1)
            images = images.astype(np.float32)
            tensors[f"{split}/clients"] = rng.integers(0, 2, count)
        elif rows == 1:
            entry = yaml.safe_load((ROOT / f"config/datasets/{name}.yaml").read_text())
            facts |= {"columns": entry["parameters"]["columns"]}
            images = _records(rng, facts["columns"], count)
        else:
            images = _pictures(rng, labels, rows, columns, channels)
        tensors |= {f"{split}/images": images, f"{split}/labels": labels.astype(np.int64)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, facts)


def _pictures(rng: np.random.Generator, labels: np.ndarray, rows: int, columns: int, channels: int) -> Any:
    """Return pictures uint8 [n, rows, columns, channels]: smooth, bright at a place that the class chooses."""
    n = len(labels)
    coarse = rng.random((n, rows // 4 + 1, columns // 4 + 1, channels))
    smooth = coarse.repeat(4, 1).repeat(4, 2)[:, :rows, :columns]
    angle = 2.399963 * labels[:, None, None]
    y, x = np.mgrid[:rows, :columns]
    away = (y - rows * (0.5 + 0.3 * np.sin(angle))) ** 2 + (x - columns * (0.5 + 0.3 * np.cos(angle))) ** 2
    blob = np.exp(-away / (rows * columns / 30.0))[..., None]
    fine = rng.random((n, rows, columns, channels))
    dark = 0.35 + 0.3 * rng.random((n, 1, 1, 1))
    return np.round(255 * np.clip(dark * smooth + 0.5 * blob + 0.1 * fine - 0.1, 0, 1)).astype(np.uint8)


def _records(rng: np.random.Generator, columns: Sequence[Spec], count: int) -> np.ndarray:
    """Return records float32 [n, 1, width, 1]: numbers in [0, 1] on their steps, and one category each."""
    parts = []
    for each in columns:
        (said,) = each.values()
        if isinstance(said[0], str):
            parts.append(np.eye(len(said), dtype=np.float32)[rng.integers(0, len(said), count)])
        else:
            low, high, step = map(float, said)
            steps = max(round((high - low) / step), 1)
            parts.append((rng.integers(0, steps + 1, count) / steps).astype(np.float32)[:, None])
    whole: np.ndarray = np.concatenate(parts, 1)[:, None, :, None]
    return whole


# --- comparing -----------------------------------------------------------------------------------------------


def _held(path: Path) -> dict[str, Any]:
    """Return what a file holds: name → a short measure of each tensor or column, and its facts as text."""
    import pandas as pd

    from leakbench.artefacts import read_table, read_tensors

    if path.suffix == ".safetensors":
        arrays, facts = read_tensors(path)
        found = {name: _measured(name, array) for name, array in arrays.items()}
    elif path.suffix == ".parquet":
        frame, facts = read_table(path)
        found = {name: _measured(name, frame[name].to_numpy()) for name in frame}
    else:
        frame, facts = pd.read_csv(path), {}
        found = {name: _measured(name, frame[name].to_numpy()) for name in frame}
    if told := _told(facts):
        found["facts"] = {"text": json.dumps(told, sort_keys=True, default=str)}
    return found


def _told(facts: Any) -> Any:
    """Return facts without those that name code, machine or time, and with short numbers."""
    if isinstance(facts, dict):
        return {key: _told(value) for key, value in facts.items() if key not in MADE_BY}
    if isinstance(facts, list | tuple):
        return [_told(value) for value in facts]
    return float(f"{facts:.3g}") if isinstance(facts, float) else facts


def _measured(name: str, array: np.ndarray) -> Spec:
    """Return the form of an array, and of numbers that are rounded their norm and some projections.

    Integers, words and truth values are held by a digest of their bytes.
    """
    form: Spec = {"shape": list(array.shape), "kind": array.dtype.kind}
    if array.dtype.kind != "f":
        text = array.tobytes() if array.dtype.kind in "iub" else json.dumps(array.tolist(), default=str).encode()
        return form | {"digest": zlib.crc32(text)}
    flat = array.astype(np.float64).ravel()
    finite = np.isfinite(flat)
    flat = np.where(finite, flat, 0.0)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = [float(np.linalg.norm(flat))]
    for _ in range(DIRECTIONS):
        values.append(float(flat @ rng.choice([-1.0, 1.0], flat.size)) / np.sqrt(max(flat.size, 1)))
    missing = {"missing": int((~finite).sum())} if not finite.all() else {}
    return form | missing | {"values": [float(f"{value:.7g}") for value in values]}


def differences(cell: Spec, found: dict[str, Any]) -> Iterator[str]:
    """Yield what differs between the numbers of a cell and those found: file, tensor and by how much."""
    wanted = cell["results"]
    for path in sorted(wanted.keys() | found.keys()):
        before, now = wanted.get(path, {}), found.get(path, {})
        for name in sorted(before.keys() | now.keys()):
            if name not in now or name not in before:
                yield f"{path}: {name} is {'gone' if name in before else 'new'}"
            elif apart := _apart(before[name], now[name]):
                yield f"{path}: {name} {apart}"


def _apart(before: Spec, now: Spec) -> str:
    """Return in words how two measures of a tensor differ, or "" where they agree."""
    rest = {key: value for key, value in before.items() if key != "values"}
    if rest != {key: value for key, value in now.items() if key != "values"}:
        odd = next(key for key in sorted(rest.keys() | now.keys()) if rest.get(key) != now.get(key))
        return f"has another {odd}: {str(now.get(odd))[:300]} (recorded {str(rest.get(odd))[:300]})"
    if "values" not in before:
        return ""
    scale = max(abs(before["values"][0]), 1e-12)
    share = max(abs(a - b) / scale for a, b in zip(before["values"], now["values"], strict=True))
    return "" if share <= TOLERANCE else f"changed by {share:.1e}"


def resting(cell: Spec, path: str) -> list[str]:
    """Return the recorded tables that rest on the job which made a file of a cell, as <run>/<experiment>.

    These are the tables for which a job of the same verb and the same parts runs.
    """
    from leakbench.parts import parts_of
    from leakbench.reference import recorded
    from leakbench.verbs.record import planned

    job = next(job for job in cell["jobs"] if path in job["out"].values())
    parts = set(parts_of(job["spec"]))
    kind = "study" if job["name"] == "study" else job["name"].partition("/")[0]
    found = []
    for run in sorted(folder.name for folder in (ROOT / "reference").glob("*/")):
        asked = planned(ROOT, run)
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


# --- the command line ----------------------------------------------------------------------------------------


def compared(name: str) -> list[str]:
    """Run a cell in a folder of its own, and return what differs."""
    cell = read(name)
    with tempfile.TemporaryDirectory() as folder:
        return list(differences(cell, run(cell, Path(folder))))


def write(name: str, cell: Spec) -> None:
    """Run a cell, and write it with what it gave."""
    cell["name"] = name
    with tempfile.TemporaryDirectory() as folder:
        cell["results"] = run(cell, Path(folder))
    (CELLS / f"{name}.json").write_text(_text(cell))


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
    """Compare, write or make golden cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare", help="run cells and print what differs")
    compare.add_argument("names", nargs="*", help="all cells if none is named")
    compare.add_argument("--commit", help="run the code of this commit in place of today's")
    again = commands.add_parser("write", help="run cells and keep what they give")
    again.add_argument("names", nargs="+")
    make = commands.add_parser("make", help="make a cell of a recorded experiment")
    make.add_argument("names", nargs=1, metavar="name")
    make.add_argument("--run", default="standard", help="the scale")
    make.add_argument("--experiment", required=True)
    make.add_argument("--sample", nargs="+", required=True, help="stems of cells on one capture, or of a study")
    given = parser.parse_args()
    if given.command == "compare" and given.commit:
        with tempfile.TemporaryDirectory() as folder:
            code = _package_of(given.commit, Path(folder))
            call = [sys.executable, str(HERE / "golden.py"), "compare", *given.names]
            return subprocess.run(call, env=os.environ | {"PYTHONPATH": str(code)}).returncode
    if given.command == "compare":
        wrong = 0
        for name in given.names or names():
            lines = compared(name)
            wrong += bool(lines)
            print(f"{name}: {'same' if not lines else lines[0]}", *lines[1:], sep="\n  ", flush=True)
        return 2 if wrong else 0
    if given.command == "write":
        for name in given.names:
            write(name, read(name))
        return 0
    from making import made

    from leakbench.catalogue.workflow import Workflow

    with tempfile.TemporaryDirectory() as home:
        flow = Workflow(ROOT, given.run, home=Path(home))
        write(given.names[0], made(flow, given.experiment, given.sample))
    return 0


if __name__ == "__main__":
    from leakbench.errors import UserError

    try:
        sys.exit(main())
    except UserError as problem:
        print(f"golden: {problem}", file=sys.stderr)
        sys.exit(2)
