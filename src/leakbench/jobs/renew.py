"""renew: measure the cells of a record again whose numerics have changed, and keep its other lines."""

import io
import tempfile
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from leakbench.base.artefacts import (
    AS_TEXT,
    Facts,
    as_text,
    read_csv,
    read_table,
    read_tensors,
    write_json,
    write_table,
    write_tensors,
    write_text,
)
from leakbench.base.cellname import CELL, cell_name, of_lines
from leakbench.base.errors import UserError
from leakbench.base.numerics import numerics
from leakbench.catalogue.entry import run_name
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.signature import declared_metrics
from leakbench.jobs.again import affected, files_behind, held, measured
from leakbench.jobs.record import numerics_of, outdated, planned, specs_digest, stamp
from leakbench.jobs.verify import TIMES
from leakbench.metrics import METRICS
from leakbench.papers.reference import DRAWN, EXHIBIT, kept_digests, read_record
from leakbench.results.report.leaks import strongest
from leakbench.results.tables.attacked import CONDITION
from leakbench.results.tables.lines import BESIDE, Tabled
from leakbench.results.tables.median import medians
from leakbench.results.tables.trained import STUDY

# The columns by which the lines of a table are sorted, and those of them that are numbers.
_NUMBERS = ["checkpoint", "client", "local_samples", "pass", "iterations"]
_SORTED = [*CONDITION, "pass", "iterations"]


def renew(root: Path, experiment: str, scale: str, seed: int | None = None, targets: bool = False) -> None:
    """Put new lines into a record, for the cells that follow from files whose numerics have changed.

    The lines of other cells stay as they were recorded. The record says what was renewed, when and on what.

    root: the checkout.
    experiment: the experiment's name.
    scale: the scale at which it was recorded.
    seed: the number by which every seed was raised.
    targets: only print what Snakemake must make first: the setting `only`, and the files.

    Raises UserError where nothing is recorded, where the record is valid or of other settings, where a file
    of a cell is missing, and where cells alone do not make the record right again (`_cells`).
    """
    run = run_name(scale, seed)
    table = root / "reference" / run / f"{experiment}.csv"
    where = f"{table.with_suffix('.json')}: "
    made, asked = read_record(table), planned(root, run)
    if not (age := outdated(root, run, experiment, made)):
        raise UserError(f"{where}is valid today (nothing is to be renewed)")
    cells = _cells(asked, experiment, made)
    if not cells:
        raise UserError(f"{where}{age} (run it, then `leakbench record {experiment}`)")
    files = files_behind(asked, experiment, cells)
    if targets:
        print(f"only={experiment}", *files, sep="\n")
        return
    held(root, files, f"make renew ONLY={experiment}")
    with tempfile.TemporaryDirectory() as folder:
        found = measured(root, asked, experiment, cells, Path(folder), EXHIBIT in made["files"])
        if absent := next((cell for cell in cells if cell in found.facts["absent_cells"]), ""):
            raise UserError(f"{where}{absent}: is absent today (run the whole experiment, then record it)")
        text, trials = _spliced(table, found.table, found.trials, {cell.rpartition("/")[0] for cell in cells})
        for name in ("knows", "falls"):
            made[name] = made.get(name, {}) | found.facts.get(name, {})
        rows = strongest(pd.read_csv(io.StringIO(text)), made["knows"])
        pictures = _pictures(root, run, table, rows, cells, Path(folder))
    made.pop("equivalent", None)
    made["numerics"] = numerics_of(asked, experiment, made["absent"])
    made["renewed"] = [*made.get("renewed", []), {"cells": cells, "partners": DRAWN} | stamp(root)]
    facts, exhibit = read_table(table.with_suffix(".parquet"))[1], _exhibit(table, made, found)
    # The record is removed first and written last, so that a fault in between leaves none.
    table.with_suffix(".json").unlink()
    write_text(table, text)
    write_table(table.with_suffix(".parquet"), trials, facts)
    table.with_suffix(".safetensors").unlink(missing_ok=True)
    if pictures:
        write_tensors(table.with_suffix(".safetensors"), pictures, {})
    if exhibit:
        write_tensors(table.with_suffix(EXHIBIT), *exhibit)
    write_json(table.with_suffix(".json"), made | {"files": kept_digests(table)})


def _cells(asked: Plan, experiment: str, made: Facts) -> list[str]:
    """Return the path stems of the cells or studies to measure again, none if these alone are not enough."""
    # They are not if the record's settings are others too, if one of its metrics follows from the changed
    # numerics, or if its figure draws what a study gives.
    then, now = made.get("numerics", {}), numerics_of(asked, experiment, made["absent"])
    names = {name: 1 for name in then.keys() | now.keys() if then.get(name, 1) != now.get(name, 1)}
    own = asked.definitions[experiment].metrics or []
    metrics = numerics(declared_metrics()[name].module for name in own)
    whole = (
        specs_digest(asked, experiment) != made["specs"] or not names.keys() <= now.keys()
        or names.keys() & metrics.keys() or (EXHIBIT in made["files"] and asked.studies[experiment])
    )  # fmt: skip
    cells = [] if whole else affected(asked, experiment, names)
    return [cell for cell in cells if cell not in made["absent"]]


def _spliced(
    table: Path, lines: pd.DataFrame, trials: pd.DataFrame, renewed: Collection[str]
) -> tuple[str, pd.DataFrame]:
    """Return the text of a recorded table and its trials, with new lines and trials for the renewed cells."""
    # Cells are named without their seeds. Times stay as recorded, for they follow from no numerics, and a
    # renewal may run beside other work.
    kept, new = read_csv(table, **AS_TEXT), as_text(lines)
    before = read_table(table.with_suffix(".parquet"))[0]
    if "iterations" in kept and "iterations" not in new:
        new["iterations"] = "0"
    if not {*new} <= {*kept} or "pass" in {*kept} - {*new}:
        raise UserError(f"{table}: cells alone give other columns (run the whole experiment)")
    columns = CELL if "attack" in kept else STUDY
    of_old = of_lines(kept, columns).isin(renewed)
    key = [name for name in kept if name not in BESIDE]
    for line in np.flatnonzero(new["metric"].isin(TIMES)):
        timed = np.flatnonzero((kept[key] == new.loc[line, key]).all(axis=1))
        if len(timed) == 1:
            new.loc[line] = kept.loc[timed[0]]
            own = before[before["line"] == timed[0]].assign(line=line)
            trials = pd.concat([trials[trials["line"] != line], own[trials.columns]])
    whole = pd.concat([kept.assign(old=True)[~of_old], new.assign(old=False)]).fillna("")
    order = _order(whole)
    if (_order(kept) != np.arange(len(kept))).any():
        raise UserError(f"{table}: its lines are in no known order (run the whole experiment)")
    # A trial names its line by the line's place.
    place = np.empty(len(whole), int)
    place[order] = np.arange(len(whole))
    old_place = dict(zip(np.flatnonzero(~of_old), place[: (~of_old).sum()], strict=True))
    before = before[~of_lines(before, columns).isin(renewed)]
    before = before.assign(line=before["line"].map(old_place))
    after = trials.assign(line=place[(~of_old).sum() :][trials["line"]])
    if "iterations" in before and "iterations" not in after:
        after["iterations"] = 0
    both = pd.concat(
        [each.astype({n: object for n in each if each[n].dtype == "category"}) for each in (before, after)]
    )
    both = both[before.columns].sort_values("line", kind="stable", ignore_index=True)
    words = [name for name in before if before[name].dtype == "category"]
    ordered = whole.iloc[order][kept.columns]
    return ordered.to_csv(index=False), both.astype({"line": int} | dict.fromkeys(words, "category"))


def _order(lines: pd.DataFrame) -> np.ndarray:
    """Return the places of lines in the order of a table (`aggregate`, `aggregate_studies`)."""
    if "attack" not in lines:
        return np.asarray(lines.reset_index(drop=True).sort_values(STUDY, kind="stable").index)
    keys = lines.reindex(columns=_SORTED)
    for name in _NUMBERS:
        keys[name] = pd.to_numeric(keys[name])
    models = lines["metric"].map(lambda name: name in METRICS and METRICS[name].of == "models")
    keys.insert(0, "models", lines["metric"].where(models, ""))
    return np.asarray(keys.reset_index(drop=True).sort_values(list(map(str, keys)), kind="stable").index)


def _exhibit(table: Path, made: Facts, found: Tabled) -> tuple[dict[str, np.ndarray], Facts] | None:
    """Return the tensors and facts of a recorded exhibit with the new panels, None where there is none."""
    if EXHIBIT not in made["files"]:
        return None
    whole, facts = read_tensors(table.with_suffix(EXHIBIT))
    left = list(enumerate(found.facts["panels"]))
    for place, panel in enumerate(facts["panels"]):
        # The panels of one condition stand in the order of its seeds.
        number = next((n for n, own in left if cell_name(own) == cell_name(panel)), None)
        if number is None:
            continue
        left = [(n, own) for n, own in left if n != number]
        whole = {name: value for name, value in whole.items() if name.split("/")[0] != str(place)}
        own = {name: value for name, value in found.tensors.items() if name.split("/")[0] == str(number)}
        whole |= {f"{place}/{name.partition('/')[2]}": value for name, value in own.items()}
        facts["panels"][place] = found.facts["panels"][number]
    return whole, facts | {name: facts[name] | found.facts[name] for name in ("knows", "falls")}


def _pictures(
    root: Path, run: str, table: Path, rows: pd.DataFrame, cells: list[str], scores: Path
) -> dict[str, np.ndarray]:
    """Return the pictures of the strongest attacks: of renewed cells anew, of others as recorded."""
    path = table.with_suffix(".safetensors")
    if not len(rows):
        return {}
    recorded = read_tensors(path)[0] if path.is_file() else {}
    again = rows[of_lines(rows).isin({cell.rpartition("/")[0] for cell in cells})]
    made = medians(root, run, again, cells, scores)
    kept = {cell: recorded[cell] for cell in map(cell_name, rows.to_dict("records")) if cell in recorded}
    return dict(sorted((kept | made).items()))
