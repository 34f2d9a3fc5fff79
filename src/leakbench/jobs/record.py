"""record: keep the finished table of an experiment below reference/, with what made it."""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import (
    Facts,
    open_tensors,
    read_csv,
    read_facts,
    read_table,
    read_tensors,
    write_json,
    write_tensors,
)
from leakbench.base.digest import digest
from leakbench.base.errors import UserError
from leakbench.base.numerics import changed, numerics
from leakbench.base.parts import parts_of
from leakbench.base.processes.process import commit
from leakbench.base.provenance import machine
from leakbench.catalogue.entry import run_name
from leakbench.catalogue.load import suggest
from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.signature import declared_metrics
from leakbench.papers.entries import resting_on_headlines
from leakbench.papers.reference import DRAWN, EXHIBIT, KEPT, kept_digests, read_record, run_of
from leakbench.papers.work import read_papers
from leakbench.results.report.leaks import strongest
from leakbench.results.tables.median import medians
from leakbench.results.tables.pictures import in_bytes

# The largest number of bytes of an exhibit that is kept in git.
LARGEST = 5 * 2**18
# The verbs from whose code the numbers of a table follow.
VERBS = ("capture", "attack", "train", "score", "table")


def record(
    root: Path, scale: str, experiment: str | None = None, device: str | None = None, seed: int | None = None,
    headlines: bool = False, targets: bool = False,
) -> None:  # fmt: skip
    """Copy finished tables and their trials to reference/<scale>/ and write beside them what made them.

    root: the checkout.
    scale: the scale at which the experiment ran.
    experiment: the experiment's name. It is left out with `headlines`.
    device: what it ran on, in words. By default it is the GPU that its attacks ran on, or this machine.
    seed: the number by which every seed was raised. The record then lies in reference/<scale>-seed<N>/.
    headlines: record every experiment that a headline finding rests on and that has no valid record.
    targets: only print the tables that Snakemake must make first.

    Raises UserError where there is no such experiment, or it is not finished.
    """
    run = run_name(scale, seed)
    if headlines == (experiment is not None):
        raise UserError("name one experiment, or give --headlines alone")
    known = planned(root, run).experiments
    if experiment is not None and experiment not in known:
        raise UserError(f"no experiment {experiment!r} ({suggest(experiment, known)})")
    for name in _lacking(root, run) if experiment is None else (experiment,):
        own = root / "reference" / scale / f"{name}.csv"
        if seed is not None and not own.is_file():
            raise UserError(f"{own}: not recorded, so --seed {seed} has nothing beside it (record it first)")
        if targets:
            print(f"results/{run}/tables/{name}.csv")
        else:
            _record(root, run, name, device)


def _lacking(root: Path, run: str) -> Iterator[str]:
    """Yield the experiments of headline findings that have no valid record of a run."""
    known = planned(root, run).experiments
    for name in resting_on_headlines(read_papers(root / "papers"), known):
        table = root / "reference" / run / f"{name}.csv"
        if not table.is_file() or outdated(root, run, name, read_record(table)):
            yield name


def _record(root: Path, run: str, experiment: str, device: str | None) -> None:
    asked = planned(root, run)
    results, kept = root / "results" / run, root / "reference" / run
    table, trials = results / f"tables/{experiment}.csv", results / f"trials/{experiment}.parquet"
    exhibit = results / f"exhibits/{experiment}.safetensors"
    frame = read_csv(table)
    if not len(frame):
        raise UserError(f"{table}: has no line to record (run the experiment first)")
    read_table(trials)
    facts = read_facts(exhibit)
    scale, seed = run_of(run)
    config = f"scale={scale}{'' if seed is None else f' seed={seed}'} only={experiment}"
    cells = [cell.stem for cell in asked.experiments[experiment]]
    made_by = _summed_up(results, asked, experiment) or [facts]
    devices = {each["device"] for each in made_by}
    gpus = sorted(devices - {"cpu"})
    config += " device=cuda" if gpus else ""
    pictures = medians(root, run, strongest(frame, facts.get("knows", {})), cells)
    made = stamp(root) | {
        "device": device or ", ".join([*gpus, *([machine()] if "cpu" in devices else [])]),
        "versions": _united([each["versions"] for each in made_by]),
        "specs": specs_digest(asked, experiment), "absent": facts["absent_cells"],
        **{name: facts.get(name, {}) for name in ("shares", "falls", "knows")},
        "seeds": facts["seeds"], "partners": DRAWN,
        **({"numerics": raised} if (raised := numerics_of(asked, experiment, facts["absent_cells"])) else {}),
        "command": f"snakemake --cores 2 results/{run}/tables/{experiment}.csv --config {config}",
    }  # fmt: skip
    kept.mkdir(parents=True, exist_ok=True)
    # The record is removed first and written last, so that a fault in between leaves none.
    _take_away(kept, experiment)
    try:
        shutil.copyfile(trials, kept / f"{experiment}.parquet")
        shutil.copyfile(table, kept / f"{experiment}.csv")
        if pictures:
            write_tensors(kept / f"{experiment}.safetensors", pictures, {})
        _keep_exhibit(exhibit, kept / f"{experiment}{EXHIBIT}")
        made["files"] = kept_digests(kept / f"{experiment}.csv")
        write_json(kept / f"{experiment}.json", made)
    except BaseException:
        _take_away(kept, experiment)
        raise


def _keep_exhibit(exhibit: Path, kept: Path) -> None:
    """Keep what a figure draws where it is at most LARGEST bytes, images in 8 bits if they must be."""
    if not open_tensors(exhibit)[0]:
        return
    shutil.copyfile(exhibit, kept)
    if kept.stat().st_size > LARGEST:
        tensors, facts = read_tensors(exhibit)
        write_tensors(kept, {name: in_bytes(name, array) for name, array in tensors.items()}, facts)
    if kept.stat().st_size > LARGEST:
        kept.unlink()


def _take_away(kept: Path, experiment: str) -> None:
    for suffix in (".json", *KEPT):
        (kept / f"{experiment}{suffix}").unlink(missing_ok=True)


def _summed_up(results: Path, asked: Plan, experiment: str) -> list[Facts]:
    """Return the facts of the guesses, scores and studies behind a table, except absent ones."""
    cells = asked.experiments[experiment]
    captures = {cell.capture for cell in cells}
    deleted = {name for name in captures if not asked.specs[f"capture/{name}"]["federation"]["keep"]}
    guesses = (results / f"guesses/{cell.stem}.safetensors" for cell in cells if cell.capture not in deleted)
    # Guesses on updates that are not kept are deleted once they are scored, and their scores stand for them.
    scores = (results / "scores" / f"{capture}.parquet" for capture in sorted(deleted))
    studies = (results / "studies" / f"{study.stem}.parquet" for study in asked.studies[experiment])
    found = [*map(read_facts, guesses), *(read_table(path)[1] for path in (*scores, *studies))]
    return [each for each in found if "absent" not in each]


def _united(versions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return library → version that jobs ran with; several versions have commas between them."""
    names = sorted(set().union(*versions))
    return {name: ", ".join(sorted({each[name] for each in versions if name in each})) for name in names}


@cache
def planned(root: Path, run: str) -> Plan:
    """Return the plan of a run, such as standard-seed1, as it stands. It is made once for all experiments."""
    scale, seed = run_of(run)
    return plan(root, scale, seed=seed)


def specs_digest(asked: Plan, experiment: str) -> str:
    """Return the digest of all specs on which an experiment's table depends."""
    return digest({name: asked.specs[name] for name in asked.needed(experiment)})


def numerics_of(asked: Plan, experiment: str, absent: Collection[str] = ()) -> dict[str, int]:
    """Return name → numerics version above 1 of the files behind a table, but for `absent` cells."""
    names = asked.needed(experiment) - {f"attack/{cell}" for cell in absent}
    measured = asked.definitions[experiment].metrics or []
    return numerics({*modules_of(asked, names), *(declared_metrics()[name].module for name in measured)})


def modules_of(asked: Plan, names: Iterable[str]) -> set[str]:
    """Return the modules of the verbs and of the parts of specs, as dotted names."""
    parts = {part for name in names for part in parts_of(asked.specs[name])}
    return {*(f"leakbench.jobs.{verb}" for verb in VERBS), *parts}


def stamp(root: Path) -> dict[str, str]:
    """Return on what, from which code and on which day something was measured."""
    return {"device": machine(), "commit": commit(root), "date": date.today().isoformat()}


def outdated(root: Path, run: str, experiment: str, made: Mapping[str, Any]) -> str:
    """Return in words what has changed since a table was recorded, or "" where the record is valid."""
    # A record is valid while its specs and the numerics of the parts that it follows from are today's. Other
    # numerics count as today's where the record holds that they give the same (`verbs.equivalent`).
    try:
        asked = planned(root, run)
    except UserError:
        return f"of a scale {run} that is no more"
    if experiment not in asked.experiments:
        return "of an experiment that is no more"
    if specs_digest(asked, experiment) != made["specs"]:
        return "recorded with other settings"
    now = numerics_of(asked, experiment, made["absent"])
    if any(each["numerics"] == now for each in made.get("equivalent", ())):
        return ""
    return changed(made.get("numerics", {}), now)
