"""confirm: keep records of older code valid where today's code is the same program, or gives the recorded
numbers in a sample."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from leakbench.artefacts import read_csv, write_json, write_text
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.code import PACKAGE
from leakbench.catalogue.load import suggest
from leakbench.catalogue.program import changes
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError
from leakbench.process import commit
from leakbench.provenance import machine
from leakbench.reference import read_record, recorded, run_of
from leakbench.tables.found import Found
from leakbench.tables.of_attacks import of_attacks
from leakbench.tables.of_studies import of_studies
from leakbench.verbs.both_programs import differing
from leakbench.verbs.record import code_digests, digests, modules_of, planned, reached, sources
from leakbench.verbs.sampled import inputs_of
from leakbench.verbs.verify import DIFFERENT, IDENTICAL, KEYS, NEW, STATISTICS, WITHIN, compared, numbers

Spec = dict[str, Any]


class _Older(NamedTuple):
    """A record that older code made.

    table: its file below reference/.
    made: what the record says.
    asked: today's plan of its scale.
    code: the digest of today's code.
    """

    table: Path
    made: Spec
    asked: Plan
    code: str


def confirm(
    root: Path, scale: str, targets: bool = False, sample: int = 1, only: Sequence[str] | None = None,
    iterations: int | None = None,
) -> None:  # fmt: skip
    """Name today's code as confirmed in the records of a scale that older code made, where it gives the same.

    Records of other settings than today's are left alone. Where git has the code that made a record, and
    today's differs from it in comments, docstrings and layout alone, nothing is run. Of every other record,
    sampled cells are compared with what today's code gives. On the recorded device each number must be
    identical; on another device, within a thousandth or within the recorded interval. Where one number
    differs, the record stays as it is and the number is printed.

    With `iterations`, the code that made a record and today's code both run samples on this machine: the
    attacks on a capture for this number of iterations, or a few rounds of a training study
    (`verbs.both_programs`). The samples have every victim and federation, and run every file that has
    changed. The record is confirmed if every file that the two programs make has the same contents.

    root: the checkout.
    scale: the scale that was recorded, such as "standard".
    targets: whether to print what Snakemake must make first, and to write nothing: the setting `only`, so
    that the attacks of no other experiment run too, and the files.
    sample: how many conditions of each experiment are compared, at least 1. The choice follows from the
    digest of today's code, so that nobody picks it.
    only: names of experiments, if not all are meant.
    iterations: how long the attacks of both programs run; None to compare with the recorded numbers.

    Raises UserError where an experiment is not recorded, or a sampled file is missing.
    """
    older = []
    for each in _older(root, scale, only):
        made_by, apart = _changes(each)
        if not made_by or apart:
            older.append((each, made_by, apart))
        elif not targets:
            same = commit(PACKAGE) if made_by == "HEAD" else made_by
            _keep(root, each, {"same_program": same})
            print(f"{each.table.stem}: confirmed, the same program as {same}")
    needed: dict[str, list[str]] = {}
    for each, made_by, apart in older:
        table = each.table
        if iterations is not None:
            needed[table.stem] = _by_both(root, each, (made_by, apart), iterations, targets)
            continue
        spec, *files = _sampled(each.asked, table.stem, each.code, sample)
        values, costs = ([root / "results" / scale / name for name in names] for names in files)
        paths = [*values, *costs]
        if targets:
            needed[table.stem] = [path.relative_to(root).as_posix() for path in paths]
            continue
        if missing := [path for path in paths if not path.is_file()]:
            raise UserError(f"{missing[0]}: missing (run `make verify-recorded`, which makes it first)")
        counts, apart = _agreement(_found(spec, values, costs), table)
        strict = each.made["device"] == machine()
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        if apart or not counts[IDENTICAL] + counts[WITHIN] or (strict and counts[WITHIN]):
            print(f"{table.stem}: not confirmed, {words}", *apart[:5], sep="\n  ")
            continue
        shows = {"device": machine(), "sampled": spec["cells"] or spec["studies"], "numbers": counts}
        _keep(root, each, shows)
        print(f"{table.stem}: confirmed, {words}")
    # Where nothing is to be made, nothing is printed: Snakemake without a file makes all.
    if names := [name for name, files in needed.items() if files]:
        print(f"only={','.join(names)}")
        print(*dict.fromkeys(path for files in needed.values() for path in files), sep="\n")


def _older(root: Path, scale: str, only: Sequence[str] | None) -> Iterator[_Older]:
    """Yield each record of a scale of which nothing but the code is older."""
    scales = [folder.name for folder in (root / "reference").glob("*/") if folder.is_dir()]
    if scale not in scales:
        raise UserError(f"--scale {scale}: nothing is recorded at it ({suggest(scale, scales)})")
    tables = {table.stem: table for table in recorded(root / "reference" / scale)}
    if unknown := next((name for name in only or () if name not in tables), ""):
        raise UserError(f"--only {unknown}: not recorded at scale {scale} ({suggest(unknown, tables)})")
    for table in (table for name, table in tables.items() if not only or name in only):
        made = read_record(table)
        asked = planned(root, scale)
        if table.stem not in asked.experiments:
            continue
        specs, code = digests(asked, table.stem)
        if specs == made["specs"] and code != made["code"] and code not in made.get("confirmed", {}):
            yield _Older(table, made, asked, code)


def _changes(older: _Older) -> tuple[str, list[str]]:
    """Return a commit whose code made or confirmed a record, and the files that are another program today.

    Of an experiment that only trains, the files that attacks alone run are left out.
    """
    confirmed = older.made.get("confirmed", {})
    codes = {older.made["code"], *confirmed}
    commits = [older.made["commit"], *(each.get("commit", "") for each in confirmed.values()), "HEAD"]
    needed = older.asked.needed(older.table.stem)
    made_by, apart = changes(
        sources(older.asked, older.table.stem),
        list(dict.fromkeys(commits)),
        lambda files: not codes.isdisjoint(code_digests(files)),
        modules_of(older.asked, needed),
    )
    if any(name.startswith("attack/") for name in needed):
        return made_by, apart
    run = reached(modules_of(older.asked, needed, ("train", "table")))
    return made_by, [name for name in apart if name in run]


def _comparable(older: _Older, made_by: str, apart: Sequence[str]) -> tuple[list[list[str]], str]:
    """Return the samples that the code that made a record and today's both run, or why there are none."""
    if not made_by:
        return [], "git lacks the code that made it"
    samples, left = _covering(older, apart)
    if left and samples:
        return [], f"none of its samples runs {min(left)}"
    return samples, "" if samples else "none of it was measured"


def _by_both(
    root: Path, older: _Older, code: tuple[str, list[str]], iterations: int, targets: bool
) -> list[str]:
    """Confirm a record if the code that made it and today's give the same.

    With `targets`, return instead the files that both need.
    """
    name, (made_by, apart) = older.table.stem, code
    samples, reason = _comparable(older, made_by, apart)
    if reason:
        if not targets:
            print(f"{name}: not compared, {reason} (leave --iterations out)")
        return []
    # Attacks are scored by the metrics of this experiment alone.
    flow = Workflow(root, *run_of(older.asked.run), only=name)
    if targets:
        return [path for sample in samples for path in inputs_of(flow, name, sample)]
    if others := differing(flow, name, samples, made_by, iterations):
        print(f"{name}: not confirmed, by {made_by} another {others[0]} after {iterations} iterations")
        return []
    sampled = [stem for sample in samples for stem in sample]
    shows = {"device": machine(), "sampled": sampled, "same_bytes": made_by, "iterations": iterations}
    _keep(root, older, shows)
    print(f"{name}: confirmed, {len(sampled)} samples and their table the same as by {made_by}")
    return []


def _covering(older: _Older, apart: Sequence[str]) -> tuple[list[list[str]], set[str]]:
    """Return the sampled cells or studies, and the changed files that no cell or study runs.

    Cells are sampled together with all others on the same capture. The order of captures, or of studies,
    follows from the digest of today's code, so that nobody picks them. After the first, one is sampled if it
    has a victim or a federation that those before it do not have, or runs a changed file that those before
    it do not run. Another network or size of batch may take another way through the same code. No number
    follows from what only absent cells run.
    """
    table = older.asked.spec(f"table/{older.table.stem}")
    origins = {stem: stem for stem in table.get("studies", [])} | {c: capture_of(c) for c in table["cells"]}
    groups: dict[str, list[str]] = {}
    for stem, origin in origins.items():
        if stem not in older.made["absent"]:
            groups.setdefault(origin, []).append(stem)
    order, left = sorted(groups), set(apart)
    samples: list[list[str]] = []
    seen: set[str] = set()
    random.Random(older.code).shuffle(order)
    for origin in order:
        # Captures and studies alike: data set, victim, federation or training, defence, seed.
        parts, run = set(origin.split("/")[1:3]), _run_by(older.asked, groups[origin])
        if parts - seen or left & run:
            samples.append(groups[origin])
            seen |= parts
            left -= run
    for stem in older.made["absent"] if left else ():
        left -= _run_by(older.asked, [stem]) if stem in origins else set()
    return samples, left


def _run_by(asked: Plan, sample: Sequence[str]) -> set[str]:
    """Return the files of the package that a sample runs: the cells on one capture, or a study."""
    if (name := f"study/{sample[0]}") in asked.specs:
        return set(reached(modules_of(asked, [name])))
    capture = capture_of(sample[0])
    dataset, victim, *_, seed = capture.split("/")
    names = [f"train/{dataset}/{victim}/{seed}", f"capture/{capture}", f"score/{capture}"]
    names += [f"attack/{cell}" for cell in sample]
    names += filter(None, map(asked.generator, sample))
    return set(reached(modules_of(asked, names)))


def _keep(root: Path, older: _Older, shows: Spec) -> None:
    """Write into a record that today's code gives its numbers, and what shows that it does."""
    now = {"commit": commit(root), "date": date.today().isoformat()}
    older.made.setdefault("confirmed", {})[older.code] = now | shows
    write_json(older.table.with_suffix(".json"), older.made)


def _sampled(asked: Plan, experiment: str, code: str, sample: int) -> tuple[Spec, list[str], list[str]]:
    """Return the spec of the experiment's table for its sampled cells or studies alone, and the files below
    results/<scale> that it is made from: scores or studies, and the records of what each study cost.

    A line of a table sums up all seeds of a condition, so these are sampled together: the attacks on one
    capture, or a study.
    """
    spec = asked.spec(f"table/{experiment}")
    everything = {stem: stem.rsplit("/", 2)[0] for stem in spec["cells"]}
    everything |= {stem: stem.rsplit("/", 1)[0] for stem in spec.get("studies", [])}
    conditions = sorted(set(everything.values()))
    chosen = set(random.Random(code).sample(conditions, min(sample, len(conditions))))
    cells, studies = (
        [stem for stem in spec.get(kind, []) if everything[stem] in chosen] for kind in ("cells", "studies")
    )
    captures = dict.fromkeys(map(capture_of, cells))
    names = [f"scores/{capture}.parquet" for capture in captures] + [f"studies/{s}.parquet" for s in studies]
    costs = [f"records/study/{stem}.json" for stem in studies]
    return spec | {"cells": cells} | ({"studies": studies} if studies else {}), names, costs


def _found(spec: Spec, values: list[Path], costs: list[Path]) -> Found:
    if "studies" in spec:
        return of_studies(spec, values, costs)
    return of_attacks(spec | {"experiment": spec["experiment"] | {"exhibit": None}}, values, [])


def _agreement(found: Found, table: Path) -> tuple[dict[str, int], list[str]]:
    """Return how many numbers of the sample stand how to the recorded ones, and those that differ."""
    # Columns that only other conditions need, such as iterations, are missing or empty in the sample.
    recorded = read_csv(table, dtype=str, keep_default_na=False)
    filled = set(found.table.columns[found.table.notna().any()]) | {"baseline"}
    needless = [name for name in recorded if name not in filled | {*KEYS, *STATISTICS}]
    with tempfile.TemporaryDirectory() as folder:
        part, whole = (Path(folder) / name / table.name for name in ("part", "whole"))
        for path, frame in ((part, found.table), (whole, recorded)):
            path.parent.mkdir()
            kept = frame.drop(columns=needless, errors="ignore")
            write_text(path, kept.to_csv(index=False, float_format="%.6g"))
        rows = compared(numbers([part]), numbers([whole]))
    counts = {word: int((rows["status"] == word).sum()) for word in (IDENTICAL, WITHIN, DIFFERENT, NEW)}
    apart = rows[rows["status"] == DIFFERENT]
    return counts, [
        f"{row.line}; {row.metric}: {row.mean} (recorded {row.mean_recorded})" for row in apart.itertuples()
    ]
