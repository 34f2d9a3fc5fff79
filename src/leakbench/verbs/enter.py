"""enter: run the agreed attacks on a defence that is one file, and write what they found as an entry."""

import ast
import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakbench.artefacts import read_csv, read_facts, to_json, write_json, write_text
from leakbench.catalogue.digest import digest
from leakbench.entries import VERSION, Entry, board, lines_of, read_entry
from leakbench.errors import UserError
from leakbench.parts import stem
from leakbench.process import commit
from leakbench.provenance import machine, versions
from leakbench.reference import read_record
from leakbench.verbs.new import checked_name
from leakbench.verbs.record import outdated
from leakbench.verbs.verify import DIFFERENT, MISSING, NEW, status
from leakbench.yamls import read_yaml

EXPERIMENT = "leakbench-entries"
AGREED = f"papers/leakbench/experiments/{EXPERIMENT}.yaml"
PARTS = ("Snakefile", "workflow", "config", "profiles", "notebooks", "src", "papers/leakbench/paper.yaml")
FILE_BYTES = 100_000
# Core-minutes that an entry may take at a scale that has fewer.
MINUTES = 240
HEAD = """# Leaderboard of defences

`leakbench enter` writes this file from the entries beside it ([how](../docs/entering.md)). The lower the
SSIM, the less the strongest of the agreed attacks reads. The price of a defence is not in it: a defence that
lets no network learn leaks nothing either. A low number proves nothing, for other attacks may read more.
"""


def enter(
    root: Path, file: Path | None, scale: str = "standard", attacker: Path | None = None,
    check: bool = False, cores: int = 1, recorded: bool = False,
) -> int:  # fmt: skip
    """Write entries/<name>.json and the leaderboard, entries/README.md; return the exit code.

    root: the checkout. file: the defence, a Python file as below src/leakbench/defences/; a YAML file of the
    same stem beside it may set its parameters. With `check` it is an entry, whose defence is run again; the
    code is 1 where a number differs from the entry's. Without a file only the leaderboard is written;
    `recorded` first writes an entry of each of leakbench's own defences in the recorded table of that scale.
    scale: how long the attacks run. attacker: the file of an adaptive attacker, as below
    src/leakbench/adaptive/. cores: how many Snakemake may use. Raises UserError where a file is no defence,
    the run fails, or an entry is not valid.
    """
    if file is None:
        for own in _of_the_record(root, scale) if recorded else ():
            write_json(root / "entries" / f"{own.name}.json", own.model_dump(mode="json"))
        _write_board(root)
        return 0
    if recorded:
        raise UserError(f"{file}: --recorded makes entries of the recorded table (leave the file out)")
    if check:
        return _checked(root, file, cores)
    name = checked_name(file.stem.replace("_", "-"))
    given = file.with_suffix(".yaml")
    made = _run(
        root, name, _text(file), _text(given) if given.is_file() else "",
        _text(attacker) if attacker else "", scale, cores,
    )  # fmt: skip
    path = root / "entries" / f"{name}.json"
    write_json(path, made.model_dump(mode="json"))
    print(path)
    _write_board(root)
    return 0


def agreed(root: Path) -> str:
    """Return the digest of the cells that are agreed, whatever the defences."""
    cells = read_yaml(root / AGREED)["cells"]
    return digest({"cells": [{k: v for k, v in cell.items() if k != "defence"} for cell in cells]})


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > FILE_BYTES:
            raise UserError(f"{file}: larger than {FILE_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise UserError(f"{file}: is no file of a defence: {why} (name a Python file)") from problem


def _run(root: Path, name: str, source: str, settings: str, attacker: str, scale: str, cores: int) -> Entry:
    """Run the agreed cells in a copy of the checkout that has the defence; return the entry."""
    settings = settings or f"summary: {_summary(source, name)}\ntitle: {name}\n"
    files = {f"src/leakbench/defences/{stem(name)}.py": source, f"config/defences/{name}.yaml": settings}
    files |= {f"src/leakbench/adaptive/{stem(name)}.py": attacker} if attacker else {}
    copy = _copied(root, name, files)
    _snakemake(copy, name, scale, cores)
    results = copy / "results" / scale
    rows = read_csv(results / f"tables/{EXPERIMENT}.csv").fillna({"baseline": ""}).to_dict("records")
    absent = read_facts(results / f"exhibits/{EXPERIMENT}.safetensors")["absent_cells"]
    if all(row["defence"] != name for row in rows):
        reasons = sorted({reason for cell, reason in absent.items() if f"/{name}/" in cell})
        raise UserError(f"{name}: no attack has a number ({'; '.join(reasons) or 'no cell was run'})")
    entry = Entry(
        version=VERSION, name=name, summary=str(read_yaml(copy / f"config/defences/{name}.yaml")["summary"]),
        source=source, settings=settings, attacker=attacker, ensemble=agreed(root), scale=scale,
        device=machine(), commit=commit(root), versions=versions(), lines=lines_of(rows), absent=absent,
    )  # fmt: skip
    shutil.rmtree(copy)
    return entry


def _of_the_record(root: Path, scale: str) -> Iterator[Entry]:
    """Yield an entry of each defence in the recorded table of the agreed cells.

    Raises UserError where nothing is recorded, or where the cells have changed since.
    """
    table = root / "reference" / scale / f"{EXPERIMENT}.csv"
    if not table.is_file():
        raise UserError(f"{table}: not recorded (run {EXPERIMENT}, then `leakbench record {EXPERIMENT}`)")
    made = read_record(table)
    if age := outdated(root, scale, EXPERIMENT, made):
        raise UserError(f"{table}: {age} (run `make verify-recorded`, or record it again)")
    rows = read_csv(table).fillna({"baseline": ""}).to_dict("records")
    for name in sorted({row["defence"] for row in rows} - {"none"}):
        files = (
            root / f"src/leakbench/defences/{stem(name)}.py",
            root / f"config/defences/{name}.yaml",
            root / f"src/leakbench/adaptive/{stem(name)}.py",
        )
        source, settings, attacker = (_text(path) if path.is_file() else "" for path in files)
        yield Entry(
            version=VERSION, name=name, summary=str(read_yaml(files[1])["summary"]), source=source,
            settings=settings, attacker=attacker, ensemble=agreed(root), scale=scale, device=made["device"],
            commit=made["commit"], versions=made["versions"],
            lines=lines_of(row for row in rows if row["defence"] in ("none", name)),
            absent={cell: why for cell, why in made["absent"].items() if f"/{name}/" in cell},
        )  # fmt: skip


def _copied(root: Path, name: str, files: dict[str, str]) -> Path:
    """Return a copy of the checkout with further files, whose agreed cells are those of a defence."""
    for place, text in files.items():
        if (root / place).exists() and (root / place).read_text() != text:
            raise UserError(f"{name}: leakbench has another defence of this name (rename the file)")
    copy = root.resolve() / "scratch" / "enter" / name
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for part in PARTS:
        if (root / part).is_dir():
            shutil.copytree(root / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (copy / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / part, copy / part)
    (root / "data").mkdir(exist_ok=True)
    (copy / "data").symlink_to((root / "data").resolve())
    for place, text in files.items():
        write_text(copy / place, text)
    experiment = read_yaml(root / AGREED)
    for cell in experiment["cells"]:
        cell["defence"] = ["none", name]
    # JSON is YAML.
    write_text(copy / AGREED, to_json(experiment))
    for scale in (copy / "config/scales").glob("*.yaml"):
        write_text(scale, to_json(_paying(read_yaml(scale))))
    return copy


def _paying(scale: dict[str, Any]) -> dict[str, Any]:
    """Return a scale that leaves out no agreed cell: each gets the fewest trials even where these cost more
    than the scale pays for a cell of its own."""
    scale = scale | {"left_out": {}}
    if budget := scale.get("budget"):
        trials, total = budget["trials"], max(budget["total"], MINUTES)
        fewest = min(trials, key=int)
        scale["budget"] = budget | {
            "trials": trials | {fewest: max(trials[fewest], 60 * MINUTES)}, "total": total,
        }  # fmt: skip
    return scale


def _summary(source: str, name: str) -> str:
    """Return the first sentence of a file's docstring, as YAML."""
    try:
        words = ast.get_docstring(ast.parse(source)) or name
    except (SyntaxError, ValueError) as problem:
        raise UserError(f"{name}.py: is no Python file: {problem} (mend the line)") from problem
    return json.dumps(" ".join(words.partition("\n\n")[0].split()), ensure_ascii=False)


def _snakemake(copy: Path, name: str, scale: str, cores: int) -> None:
    files = ("tables", "csv"), ("exhibits", "safetensors")
    targets = [f"results/{scale}/{kind}/{EXPERIMENT}.{suffix}" for kind, suffix in files]
    command = [sys.executable, "-m", "snakemake", "--cores", str(cores), "--config", f"scale={scale}", "--"]
    # Jobs must load the copy, which has the defence, and not what is installed.
    own = os.environ | {"PYTHONPATH": str(copy / "src")}
    ran = subprocess.run([*command, *targets], cwd=copy, env=own, capture_output=True, text=True, check=False)
    if ran.returncode:
        log = copy / "enter.log"
        write_text(log, ran.stdout + ran.stderr)
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if line.startswith("leakbench")]
        raise UserError(f"{name}: {said[0] if said else 'the run failed'} (see {log})")


def _checked(root: Path, file: Path, cores: int) -> int:
    """Run an entry's defence again; print how many numbers agree, and return 1 where one differs."""
    known = read_entry(file, agreed(root))
    found = _run(root, known.name, known.source, known.settings, known.attacker, known.scale, cores)
    fresh, before = ({line.place(): line for line in entry.lines} for entry in (found, known))
    words = [NEW] * len(set(fresh) - set(before))
    for place, line in before.items():
        other = fresh.get(place)
        bounds = (math.nan if bound is None else bound for bound in (line.ci_low, line.ci_high))
        words.append(status(other.mean, line.mean, *bounds) if other else MISSING)
    print(f"{known.name}: " + ", ".join(f"{count} {word}" for word, count in Counter(words).items()))
    return int(bool({DIFFERENT, MISSING, NEW} & set(words)))


def _write_board(root: Path) -> None:
    """Write entries/README.md of the entries that are valid; name the others and why."""
    entries, ensemble = [], agreed(root)
    for path in sorted((root / "entries").glob("*.json")):
        try:
            entries.append(read_entry(path, ensemble))
        except UserError as problem:
            print(f"leakbench enter: {problem}", file=sys.stderr)
    write_text(root / "entries" / "README.md", f"{HEAD}\n{board(entries) if entries else 'No entry yet.'}\n")
