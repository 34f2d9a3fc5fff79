"""recheck: measure a sampled cell of recorded tables again, and hold it to the record."""

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.base.artefacts import AS_TEXT, as_text, read_csv, read_table, write_json, write_text
from leakbench.base.cellname import CELL, of_lines
from leakbench.base.errors import UserError
from leakbench.catalogue.cell import Cell
from leakbench.catalogue.load import suggest
from leakbench.catalogue.resolve import Plan
from leakbench.jobs import verify
from leakbench.jobs.again import affected, files_behind, held, measured
from leakbench.jobs.record import numerics_of, outdated, planned, specs_digest, stamp
from leakbench.metrics.interval import paired
from leakbench.papers.reference import FEWEST, Difference, read_record, recorded
from leakbench.papers.verdicts.tolerances import tolerance_of
from leakbench.results.tables.lines import Tabled

# What was found of each record, one line each, below reference/.
RESULT = "rechecked.csv"
# How many trials show that a metric which is 0 or 1 has not changed by half a tolerance. If all agree, 54 of
# one size do; trials of unequal sizes count for less.
ENOUGH = 80
FOUND = verify.IDENTICAL, verify.WITHIN, verify.DIFFERENT
COLUMNS = ["scale", "experiment", "sampled", *FOUND, "device", "commit", "date"]


def recheck(
    root: Path, scale: str, targets: bool = False, only: Sequence[str] | None = None, equivalent: bool = False
) -> None:
    """Compare one sampled cell or study of each valid record with what today's code gives.

    Each number must be identical, within a thousandth, or within the recorded interval. The outcome of each
    record is one line of reference/rechecked.csv.

    With `equivalent`, the records are those that were measured with other numerics than today's. Sampled
    cells of one attack are paired with the recorded trials. They are as many as have ENOUGH trials together,
    because fewer trials of a metric that is 0 or 1 show nothing. Where the 95 % interval of every
    mean difference lies within half a tolerance of its metric (`verdicts/tolerances.py`), the record says so
    and is valid for today's numerics.

    root: the checkout.
    scale: the scale that was recorded, such as "standard" or "standard-seed1".
    targets: only print what Snakemake must make first: the setting `only`, so that the attacks of no other
    experiment run too, and the files.
    only: the names of experiments, if not all are meant.
    equivalent: show that today's numerics give the same as the recorded ones.

    Raises UserError where an experiment is not recorded, its record is not valid today, a sampled file is
    missing, or a number differs.
    """
    needed: dict[str, list[str]] = {}
    wrong: list[str] = []
    now = stamp(root)
    for table, asked in _meant(root, scale, only, equivalent):
        # Nobody picks the sample: it follows from the commit.
        rng = random.Random(f"{now['commit']}/{table.stem}")
        kept = _trials(table) if equivalent else None
        stems = _sampled(asked, table.stem, rng) if kept is None else _paired_cells(asked, table, rng, kept)
        files = files_behind(asked, table.stem, stems)
        if targets:
            needed[table.stem] = files
            continue
        held(root, files, "make verify-recorded")
        with tempfile.TemporaryDirectory() as folder:
            found = measured(root, asked, table.stem, stems, Path(folder))
        sampled = ", ".join(stems)
        if kept is None:
            good = _agrees(root, table, sampled, found, now)
        else:
            raised = numerics_of(asked, table.stem, read_record(table)["absent"])
            good = _keep(root, table, sampled, _paired(found.trials, kept), raised)
        wrong += [] if good else [str(table)]
    # Where nothing is to be made, nothing is printed: Snakemake without a file makes all.
    if names := [name for name, files in needed.items() if files]:
        print(f"only={','.join(names)}")
        print(*dict.fromkeys(path for files in needed.values() for path in files), sep="\n")
    if wrong:
        raise UserError(
            f"{wrong[0]}: {len(wrong)} recorded tables have other numbers today, this one first "
            "(mend the code, or raise NUMERICS in the file that changed them and record the tables again)"
        )


def _meant(
    root: Path, scale: str, only: Sequence[str] | None, equivalent: bool
) -> Iterator[tuple[Path, Plan]]:
    """Yield the table and the plan of each record that is meant and may be sampled."""
    scales = [folder.name for folder in (root / "reference").glob("*/") if folder.is_dir()]
    if scale not in scales:
        raise UserError(f"--scale {scale}: nothing is recorded at it ({suggest(scale, scales)})")
    tables = {table.stem: table for table in recorded(root / "reference" / scale)}
    if unknown := next((name for name in only or () if name not in tables), ""):
        raise UserError(f"--only {unknown}: not recorded at scale {scale} ({suggest(unknown, tables)})")
    for name in (name for name in tables if not only or name in only):
        made, asked = read_record(tables[name]), planned(root, scale)
        age = outdated(root, scale, name, made)
        if equivalent and not age:
            continue
        if age and not (equivalent and specs_digest(asked, name) == made["specs"]):
            where = tables[name].with_suffix(".json")
            raise UserError(f"{where}: {age} (run it, then `leakbench record {name}`)")
        yield tables[name], asked


def _sampled(asked: Plan, experiment: str, rng: random.Random) -> list[str]:
    """Return one condition of an experiment: the cells of one capture, or a study, with all their seeds."""
    spec = asked.specs[f"table/{experiment}"]
    everything = {stem: stem.rsplit("/", 2)[0] for stem in spec["cells"]}
    everything |= {stem: stem.rsplit("/", 1)[0] for stem in spec.get("studies", [])}
    chosen = rng.choice(sorted(set(everything.values())))
    return [stem for stem, own in everything.items() if own == chosen]


def _paired_cells(asked: Plan, table: Path, rng: random.Random, kept: pd.DataFrame) -> list[str]:
    """Return cells of one attack that follow from files with raised numerics."""
    # The attack is one that has ENOUGH recorded trials, if there is any, and there are as many cells as have
    # ENOUGH together, or all. Only their own attacks run again.
    cells = list(map(Cell.parse, affected(asked, table.stem, numerics_of(asked, table.stem))))
    many: dict[str, int] = {}
    if "attack" in kept:
        stems = of_lines(kept) + "/" + kept["cluster"].astype(str).str.partition("/")[0]
        many = {str(stem): int(n) for stem, n in kept["cluster"].groupby(stems).nunique().items()}
    of = {attack: [cell for cell in cells if cell.attack == attack] for attack in {c.attack for c in cells}}
    trials = {attack: sum(many.get(cell.stem, 0) for cell in own) for attack, own in sorted(of.items())}
    most = min(ENOUGH, max(trials.values(), default=0))
    if most < FEWEST:
        raise UserError(f"{table}: no attack of {FEWEST} trials to pair (record the table again)")
    left = of[rng.choice([attack for attack, n in trials.items() if n >= most])]
    rng.shuffle(left)
    chosen: list[str] = []
    while left and sum(many.get(stem, 0) for stem in chosen) < ENOUGH:
        chosen.append(left.pop().stem)
    return chosen


def _agrees(root: Path, table: Path, sampled: str, found: Tabled, now: Mapping[str, str]) -> bool:
    """Note and print how the numbers of a sample stand beside recorded ones; return whether they agree."""
    # Columns that only other conditions need, such as iterations, are missing or empty in the sample.
    recorded = read_csv(table, **AS_TEXT)
    filled = set(found.table.columns[found.table.notna().any()]) | {"baseline"}
    needless = [name for name in recorded if name not in filled | {*verify.KEYS, *verify.STATISTICS}]
    both = (frame.drop(columns=needless, errors="ignore") for frame in (as_text(found.table), recorded))
    rows = verify.compared(*(verify.numbers({table.stem: frame}) for frame in both))
    counts = {word: int((rows["status"] == word).sum()) for word in (*FOUND, verify.NEW)}
    told = {word: counts[word] for word in FOUND}
    _note(root, {"scale": table.parent.name, "experiment": table.stem, "sampled": sampled, **told, **now})
    print(f"{table.stem}:", ", ".join(f"{count} {word}" for word, count in counts.items()))
    for row in rows[rows["status"] == verify.DIFFERENT].head(5).itertuples():
        print(f"  {row.line}; {row.metric}: {row.mean} (recorded {row.mean_recorded})")
    return not counts[verify.DIFFERENT] and counts[verify.IDENTICAL] + counts[verify.WITHIN] > 0


def _trials(table: Path) -> pd.DataFrame:
    """Return the recorded trials of attacks and studies themselves."""
    if not table.with_suffix(".parquet").is_file():
        raise UserError(f"{table}: has no trials to pair (record the table again)")
    rows = read_table(table.with_suffix(".parquet"))[0]
    return rows[rows["baseline"] == ""]


def _paired(found: pd.DataFrame, kept: pd.DataFrame) -> dict[str, Difference]:
    """Return attack and metric → the paired difference of today's trials, and half the metric's tolerance."""
    key = [name for name in found if name in kept and name not in ("line", "cluster", "value", "failed")]
    both = found[found["baseline"] == ""].merge(kept, on=key, suffixes=("", "_kept"))
    differences = {}
    for (attack, metric), rows in both.groupby(["attack", "metric"]):
        if metric in verify.TIMES:
            continue
        now, then = (dict(enumerate(rows[name])) for name in ("value", "value_kept"))
        # Updates of other cells are others, even where the private images are the same.
        fate = dict(enumerate(zip(*(rows[name] for name in (*CELL, "cluster")), strict=True)))
        difference, low, high, n = paired(now, then, fate)
        bound = tolerance_of(str(metric), float(rows["value_kept"].mean()))[0] / 2
        # It is not checked here: of one that a record may not hold, the reason is printed (`_keep`).
        own: Any = {"difference": difference, "low": low, "high": high, "n": n, "bound": bound}
        differences[f"{attack}, {metric}"] = Difference.model_construct(**own)
    return differences


def _keep(
    root: Path, table: Path, sampled: str, differences: dict[str, Difference], now: dict[str, int]
) -> bool:
    """Write into a record that today's numerics give the same, and return True; where not, print why."""
    for name, each in differences.items():
        within = -each.bound <= each.low and each.high <= each.bound
        # A record of fewer trials would be refused by its reader.
        if each.n < FEWEST or not within:
            print(
                f"{table.stem}: not equivalent in {sampled}: {name} differs by {each.difference:.3g} "
                f"({each.low:.3g} to {each.high:.3g}, n = {each.n}; within {each.bound:.3g} is asked)"
            )
            return False
    if not differences:
        print(f"{table.stem}: not equivalent, no trial of {sampled} is recorded")
        return False
    made = read_record(table)
    told = {name: each.model_dump() for name, each in differences.items()}
    shows = {"numerics": now, "sampled": sampled, "differences": told} | stamp(root)
    made.setdefault("equivalent", []).append(shows)
    write_json(table.with_suffix(".json"), made)
    print(f"{table.stem}: equivalent in {sampled}")
    return True


def _note(root: Path, line: Mapping[str, Any]) -> None:
    """Write the outcome of one record into the file of all outcomes, in place of an earlier one."""
    path = root / "reference" / RESULT
    rows = pd.DataFrame(columns=COLUMNS)
    if path.is_file():
        rows = read_csv(path, COLUMNS, "restore it with `git checkout`", **AS_TEXT)
    rows = rows[(rows["scale"] != line["scale"]) | (rows["experiment"] != line["experiment"])]
    rows = pd.concat([rows, pd.DataFrame([line])]).sort_values(["scale", "experiment"])
    write_text(path, rows[COLUMNS].to_csv(index=False))
