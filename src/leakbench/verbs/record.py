"""record: keep the finished table of an experiment below reference/, with what made it."""

import shutil
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from leakbench.artefacts import read_csv, read_facts, read_table, to_json, write_text
from leakbench.catalogue.code import code_digest
from leakbench.catalogue.digest import digest
from leakbench.catalogue.load import suggest
from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.workflow import judges
from leakbench.errors import UserError
from leakbench.parts import parts_of
from leakbench.process import commit
from leakbench.provenance import machine, versions
from leakbench.reference import kept_digests


def record(root: Path, experiment: str, scale: str, device: str | None = None) -> None:
    """Copy an experiment's table and trials to reference/<scale>/ and write beside them what made them.

    experiment: its name. scale: the scale it ran at. device: what it ran on, in words (default: this
    machine). Raises UserError where there is no such experiment, or it is not finished.
    """
    asked = planned(root, scale)
    if experiment not in asked.experiments:
        raise UserError(f"record: no experiment {experiment!r} ({suggest(experiment, asked.experiments)})")
    results, kept = root / "results" / scale, root / "reference" / scale
    table, trials, exhibit = (
        results / f"{folder}/{experiment}.{suffix}"
        for folder, suffix in (("tables", "csv"), ("trials", "parquet"), ("exhibits", "safetensors"))
    )
    frame = read_csv(table)
    if not len(frame):
        raise UserError(f"{table}: has no line to record (run the experiment first)")
    read_table(trials)
    facts = read_facts(exhibit)
    specs, code = digests(asked, experiment)
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(trials, kept / f"{experiment}.parquet")
    shutil.copyfile(table, kept / f"{experiment}.csv")
    made = {
        "device": device or machine(), "commit": commit(root), "date": date.today().isoformat(),
        "versions": versions(),
        "specs": specs, "code": code, "absent": facts["absent_cells"],
        **{name: facts.get(name, {}) for name in ("shares", "falls", "knows")},
        "seeds": facts["seeds"], "files": kept_digests(kept / f"{experiment}.csv"),
        "command": f"snakemake --cores 2 results/{scale}/tables/{experiment}.csv --config scale={scale}",
    }  # fmt: skip
    write_text(kept / f"{experiment}.json", to_json(made) + "\n")


@cache
def planned(root: Path, scale: str) -> Plan:
    """Return the plan of a scale as it stands. It takes seconds, and is made once for all its experiments."""
    return plan(root, scale, judges())


def digests(asked: Plan, experiment: str) -> tuple[str, str]:
    """Return the digests of all specs, and of all code, that an experiment's table follows from."""
    specs = {name: asked.specs[name] for name in asked.needed(experiment)}
    verbs = ["capture", "attack", "train", "score", "table"]
    parts = {part for value in specs.values() for part in parts_of(value)}
    return digest(specs), code_digest(*(f"leakbench.verbs.{verb}" for verb in verbs), *sorted(parts))


def outdated(root: Path, scale: str, experiment: str, made: dict[str, Any]) -> str:
    """Return "" where a recorded table's digests still hold, else in words what has changed since."""
    try:
        asked = planned(root, scale)
    except UserError:
        return f"of a scale {scale} that is no more"
    if experiment not in asked.experiments:
        return "of an experiment that is no more"
    specs, code = digests(asked, experiment)
    if specs != made["specs"]:
        return "recorded with other settings"
    held = code == made["code"] or code in made.get("confirmed", {})
    return "" if held else "recorded with an older version"
