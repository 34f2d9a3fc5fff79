"""enter: run the agreed attacks on a defence that is one file, or such an attack on the agreed defences, and
write what was read as an entry."""

import ast
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.base.artefacts import read_csv, read_facts, to_json, write_json, write_text
from leakbench.base.cellname import CELL
from leakbench.base.digest import digest
from leakbench.base.errors import UserError, raise_unless_file
from leakbench.base.parts import stem
from leakbench.base.processes.process import commit
from leakbench.base.provenance import machine, versions
from leakbench.base.yamls import read_yaml, yaml_of
from leakbench.catalogue.load import find, load_kind
from leakbench.jobs.new import checked_name
from leakbench.jobs.record import outdated
from leakbench.jobs.verify import DIFFERENT, MISSING, NEW, status
from leakbench.papers import leaderboard
from leakbench.papers.leaderboard import VERSION, Agreed, Entered, Line
from leakbench.papers.reference import read_record

EXPERIMENT = "leakbench-entries"
AGREED = f"papers/leakbench/experiments/{EXPERIMENT}.yaml"
PARTS = ("Snakefile", "workflow", "config", "profiles", "notebooks", "src", "papers/leakbench/paper.yaml")
FILE_BYTES = 100_000
# The core-minutes that an entry may take, even at a scale with a smaller budget.
MINUTES = 240
HEAD = """# Leaderboard of defences

`leakbench enter` writes this file from the entries beside it ([how](../docs/entering.md)). The lower the
SSIM, the less the strongest of the agreed attacks reads. The price of a defence is not in it: a defence that
lets no network learn leaks nothing either. A low number proves nothing, for other attacks may read more.
The agreed attacks have no images of the same kind as the private ones. An attacker who has such images, as
GGL has, reads more behind noise and signs ([numbers](../papers/leakbench/found/leakbench-entries.md)).
Numbers of different scales are not compared, for attacks that run longer may read more too.
"""
ATTACKS = """# Leaderboard of attacks

Each attack meets the victims and defences of the agreed attacks, whose best recorded one stands beside it. It
reads more where its whole interval lies above the other's. Each cell is of one network, unless n says more.
"""


def enter(
    root: Path, file: Path | None = None, scale: str = "standard", attacker: Path | None = None,
    check: bool = False, cores: int = 1, recorded: bool = False, networks: int = 1,
) -> int:  # fmt: skip
    """Write entries/<name>.json and the leaderboards, entries/README.md; return the exit code.

    root: the checkout.
    file: a defence or an attack, a Python file as below src/leakbench/defences/ or src/leakbench/attacks/. An
    attack's function takes `observation` first. A YAML file of the same stem beside it may set its
    parameters. Without a file only the leaderboards are written.
    scale: the scale, which says how long the attacks run.
    attacker: the file of an adaptive attacker of a defence, as below src/leakbench/attacks/adaptive/.
    check: `file` is an entry, which is run again. The exit code is 1 where a number differs from the entry's.
    cores: the number of cores that Snakemake may use.
    networks: on how many networks each cell is measured, those of the seeds from 0 on.
    recorded: first write an entry of each of leakbench's own defences in the recorded table of that scale.

    Returns 2 where an entry beside the written one is not valid, which the leaderboard then lacks.

    Raises UserError where a file is neither a defence nor an attack, or the run fails.
    """
    find(root / "config", "scales", scale, "--scale")
    if file is None:
        if option := "--check" if check else "--attacker" if attacker else "":
            raise UserError(f"{option}: of which FILE? (name it, or leave {option} out)")
        for own in list(_of_the_record(root, scale)) if recorded else ():
            write_json(root / "entries" / f"{own.name}.json", own.model_dump(mode="json"))
        return _write_board(root)
    if recorded:
        raise UserError(f"{file}: --recorded makes entries of the recorded table (leave the file out)")
    if check and attacker:
        raise UserError(f"--attacker {attacker}: the entry {file} has its own (leave it out)")
    if check:
        return _checked(root, file, cores)
    if file.suffix != ".py":
        raise UserError(
            f"{file}: is no Python file (name a defence's or an attack's; --check runs an entry again)"
        )
    name = checked_name(file.stem.replace("_", "-"))
    given = file.with_suffix(".yaml")
    texts = _text(file), _text(given) if given.exists() else "", _text(attacker) if attacker else ""
    if networks < 1:
        raise UserError(f"--networks: {networks} is no number of networks (give 1 or more)")
    made = _run(root, name, texts, scale, cores, (str(file), str(given), str(attacker)), networks)
    leaderboard.agreeing(made, agreed(root), f"{file}: ", "see docs/entering.md")
    path = root / "entries" / f"{name}.json"
    write_json(path, made.model_dump(mode="json"))
    print(path)
    return _write_board(root)


def agreed(root: Path) -> Agreed:
    """Return the agreed cells, whatever the defences, of the checkout `root`."""
    experiment = read_yaml(root / AGREED)
    cells = [{k: v for k, v in cell.items() if k != "defence"} for cell in experiment["cells"]]
    attacks, scales = (load_kind(root / "config", kind) for kind in ("attacks", "scales"))
    names = (itertools.product(*(cell[key] for key in CELL if key != "defence")) for cell in cells)
    return Agreed(
        digest({"cells": cells}), frozenset(itertools.chain(*names)),
        frozenset(itertools.chain(*(cell["defence"] for cell in experiment["cells"]))),
        frozenset(name for name, attack in attacks.items() if attack.adaptive),
        frozenset(experiment["metrics"]),
        tuple(sorted(scales, key=lambda name: (-scales[name].order, name))),
    )  # fmt: skip


def _text(file: Path) -> str:
    raise_unless_file(file, "file of a defence", "name a Python file")
    try:
        if file.stat().st_size > FILE_BYTES:
            raise UserError(f"{file}: larger than {FILE_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise UserError(f"{file}: is no file of a defence: {why} (name a Python file)") from problem


def _files(name: str, kind: str = "defence") -> tuple[str, str, str]:
    """Return the places in a checkout of an entry's file, its settings and a defence's attacker."""
    code, own = "src/leakbench", f"{stem(name)}.py"
    return f"{code}/{kind}s/{own}", f"config/{kind}s/{name}.yaml", f"{code}/attacks/adaptive/{own}"


def _entry(
    today: Agreed, name: str, texts: Sequence[str], scale: str, rows: pd.DataFrame, **made: Any
) -> Entered:
    """Return the entry of `texts`, those of its three files, and of `rows` of the table."""
    source, settings, attacker = texts
    attacks = made.get("kind") == "attack"
    own: Any = rows[rows["attack"] == name] if attacks else rows[rows["defence"].isin(["none", name])]
    return Entered(
        version=VERSION, name=name, summary=str(yaml_of(settings, name)["summary"]) or name, source=source,
        settings=settings, attacker=attacker, ensemble=today.digest, scale=scale,
        lines=leaderboard.lines_of(own.to_dict("records")), **made,
    )  # fmt: skip


def _run(
    root: Path, name: str, texts: Sequence[str], scale: str, cores: int, given: Sequence[str], networks: int
) -> Entered:
    """Run the agreed cells in a copy that has the entry. `given` is what messages call its three files."""
    source, settings, attacker = texts
    first = [each.arg for each in _function(source, name, given[0]).args.args[:1]]
    kind = "attack" if first == ["observation"] else "defence"
    if attacker and kind == "attack":
        raise UserError(f"--attacker {given[2]}: {given[0]} is an attack itself (leave it out)")
    if attacker:
        _function(attacker, name, given[2])
    if not settings:
        # The first paragraph of the file's docstring.
        words = (ast.get_docstring(ast.parse(source)) or name).partition("\n\n")[0].split()
        settings = f"summary: {json.dumps(' '.join(words), ensure_ascii=False)}\ntitle: {name}\n"
    places, texts = _files(name, kind), (source, settings, attacker)
    files = {place: text for place, text in zip(places, texts, strict=True) if text}
    copy = _copied(root, name, files, kind, networks)
    _snakemake(copy, name, scale, cores, dict(zip(places, given, strict=True)))
    results = copy / "results" / scale
    rows = _rows(results / f"tables/{EXPERIMENT}.csv")
    absent = read_facts(results / f"exhibits/{EXPERIMENT}.safetensors")["absent_cells"]
    if name not in {*rows[kind]}:
        reasons = sorted({reason for cell, reason in absent.items() if f"/{name}/" in cell})
        raise UserError(f"{name}: no cell has a number ({'; '.join(reasons) or 'no cell was run'})")
    made = {
        "device": machine(),
        "commit": commit(root),
        "versions": versions(),
        "absent": absent,
        "kind": kind,
        # A scale may run fewer.
        "networks": max(len(f"{seeds}".split()) for seeds in rows["seeds"]),
    }
    entry = _entry(agreed(root), name, texts, scale, rows, **made)
    shutil.rmtree(copy)
    return entry


def _of_the_record(root: Path, scale: str) -> Iterator[Entered]:
    """Yield an entry of each defence in the recorded table of the agreed cells."""
    table = root / "reference" / scale / f"{EXPERIMENT}.csv"
    if not table.is_file():
        raise UserError(f"{table}: not recorded (run {EXPERIMENT}, then `leakbench record {EXPERIMENT}`)")
    made = read_record(table)
    if age := outdated(root, scale, EXPERIMENT, made):
        raise UserError(f"{table}: {age} (run {EXPERIMENT}, then `leakbench record {EXPERIMENT}`)")
    rows, today = _rows(table), agreed(root)
    for name in sorted({*rows["defence"]} - {"none"}):
        files = [root / place for place in _files(name)]
        texts = *map(_text, files[:2]), _text(files[2]) if files[2].is_file() else ""
        of_run = {key: made[key] for key in ("device", "commit", "versions")}
        absent = {cell: why for cell, why in made["absent"].items() if f"/{name}/" in cell}
        entry = _entry(today, name, texts, scale, rows, absent=absent, **of_run)
        yield leaderboard.agreeing(entry, today, f"{table}: ", f"record {EXPERIMENT} again")


def _rows(table: Path) -> pd.DataFrame:
    """Return the rows of a table of the agreed cells. Raises UserError where a column is missing."""
    rows: pd.DataFrame = read_csv(table, (*Line.model_fields, "baseline"), f"run {EXPERIMENT} again")
    return rows.fillna({"baseline": ""})


def _copied(root: Path, name: str, files: dict[str, str], kind: str = "defence", networks: int = 1) -> Path:
    """Return a copy of the checkout with further files, whose agreed cells are those of an entry."""
    for place, text in files.items():
        if (root / place).exists() and (root / place).read_text("utf-8") != text:
            raise UserError(f"{name}: leakbench has another {kind} of this name (rename the file)")
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
    experiment = read_yaml(root / AGREED) | {"seeds": list(range(networks)), "left_out": {}}
    for cell in experiment["cells"]:
        cell |= {"attack": [name]} if kind == "attack" else {"defence": ["none", name]}
    # JSON is valid YAML.
    write_text(copy / AGREED, to_json(experiment))
    for scale in (copy / "config/scales").glob("*.yaml"):
        write_text(scale, to_json(_paying(read_yaml(scale), MINUTES * networks)))
    return copy


def _paying(scale: Mapping[str, Any], minutes: int = MINUTES) -> Mapping[str, Any]:
    """Return a scale that leaves out no agreed cell: each gets the fewest trials, whatever they cost."""
    scale = {**scale, "left_out": {}, "apart": []}
    if budget := scale.get("budget"):
        trials, total = budget["trials"], max(budget["total"], minutes)
        fewest = min(trials, key=int)
        trials = trials | {fewest: max(trials[fewest], 60 * minutes)}
        scale["budget"] = budget | {"trials": trials, "total": total}
    return scale


def _function(source: str, name: str, where: str) -> ast.FunctionDef:
    """Return the function of a part's name. Raises UserError, at `where`, unless a Python text has one."""
    try:
        tree = ast.parse(source)
        compile(tree, where, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise UserError(f"{where}: is no Python file: {problem} (mend the line)") from problem
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == stem(name):
            return node
    raise UserError(f"{where}: has no function '{stem(name)}' (it must be called as its file)")


def _snakemake(copy: Path, name: str, scale: str, cores: int, given: Mapping[str, str]) -> None:
    """Run the agreed cells of a copy. Messages call the copy's files by the names in `given`."""
    names = f"tables/{EXPERIMENT}.csv", f"exhibits/{EXPERIMENT}.safetensors"
    targets = [f"results/{scale}/{name_of}" for name_of in names]
    command = [sys.executable, "-m", "snakemake", "--cores", str(cores), "--config", f"scale={scale}", "--"]
    # Jobs must load the copy, which has the defence, instead of the installed package.
    own = os.environ | {"PYTHONPATH": str(copy / "src")}
    ran = subprocess.run([*command, *targets], cwd=copy, env=own, capture_output=True, text=True, check=False)
    if ran.returncode:
        log = copy / "enter.log"
        write_text(log, ran.stdout + ran.stderr)
        lines = (ran.stdout + ran.stderr).splitlines()
        said = next((line for line in lines if line.startswith("leakbench")), "the run failed")
        for place, name_given in given.items():
            said = said.replace(str(copy / place), name_given).replace(place, name_given)
        raise UserError(f"{name}: {said} (see {log})")


def _checked(root: Path, file: Path, cores: int) -> int:
    """Run an entry again; print how many numbers agree, and return 1 where one differs."""
    known = leaderboard.read_entry(file, agreed(root))
    given = [f"{file}: {key}" for key in ("source", "settings", "attacker")]
    texts = known.source, known.settings, known.attacker
    found = _run(root, known.name, texts, known.scale, cores, given, known.networks)
    fresh, before = ({line.place(): line for line in entry.lines} for entry in (found, known))
    words = [NEW] * len(set(fresh) - set(before))
    for place, line in before.items():
        other = fresh.get(place)
        bounds = (math.nan if bound is None else bound for bound in (line.ci_low, line.ci_high))
        words.append(status(other.mean, line.mean, *bounds) if other else MISSING)
    print(f"{known.name}: " + ", ".join(f"{count} {word}" for word, count in Counter(words).items()))
    return int(bool({DIFFERENT, MISSING, NEW} & set(words)))


def _write_board(root: Path) -> int:
    """Write entries/README.md from the valid entries and print why others are not; return the exit code."""
    entries, today, refused = [], agreed(root), 0
    for path in sorted((root / "entries").glob("*.json")):
        try:
            entries.append(leaderboard.read_entry(path, today))
        except UserError as problem:
            print(f"leakbench enter: {problem}", file=sys.stderr)
            refused = 2
    defences, attacks = ([each for each in entries if each.kind == kind] for kind in ("defence", "attack"))
    text = f"{HEAD}\n{leaderboard.board(defences, today.scales) or 'No entry yet.'}\n"
    if attacks:
        tables = {each.scale: root / "reference" / each.scale / f"{EXPERIMENT}.csv" for each in attacks}
        rows: Any = {scale: _rows(table) for scale, table in tables.items() if table.is_file()}
        known = {scale: leaderboard.lines_of(each.to_dict("records")) for scale, each in rows.items()}
        text += f"\n{ATTACKS}\n{leaderboard.board_of_attacks(attacks, known)}\n"
    write_text(root / "entries" / "README.md", text)
    return refused
