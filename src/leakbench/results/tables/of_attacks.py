"""The results of an experiment that attacks, from the scores of its cells."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from leakbench.base.artefacts import Facts, read_facts, read_table
from leakbench.base.cellname import cell_name
from leakbench.base.errors import UserError
from leakbench.catalogue.cell import Cell
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables.attacked import COLUMNS, aggregate
from leakbench.results.tables.failures import failed
from leakbench.results.tables.lines import BESIDE, Tabled, no_lines
from leakbench.results.tables.pictures import Files, Pane, panel_of

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import TableSpec


def _scored(
    cells: Sequence[Cell], scores: Sequence[Path]
) -> Iterator[tuple[Cell, pd.DataFrame | None, Facts]]:
    """Yield the rows and facts of each cell; of an absent cell, no rows and the reason."""
    captures = list(dict.fromkeys(cell.capture for cell in cells))
    files = {capture: (path, read_facts(path)) for capture, path in zip(captures, scores, strict=True)}
    read: dict[Path, pd.DataFrame] = {}
    for cell in cells:
        path, facts = files[cell.capture]
        own = facts if "absent" in facts else facts["attacks"][cell.attack]
        if "absent" in own:
            yield cell, None, own
            continue
        if path not in read:
            read[path] = read_table(path)[0]
        yield cell, read[path][read[path]["attack"] == cell.attack], own


def check_bounds(table: pd.DataFrame) -> None:
    """Raise UserError where the whole interval of a measured rate lies above its certified bound."""
    # The defence then adds too little noise, its accountant is wrong, or the measure counts mere chance.
    if CERTIFIED not in set(table["baseline"]):
        return
    condition = [name for name in table if name not in (*BESIDE, "baseline")]
    bound = table[table["baseline"] == CERTIFIED][[*condition, "mean"]]
    own = table[table["baseline"] == ""].merge(bound, on=condition, suffixes=("", "_certified"))
    for row in own[own["ci_low"] > own["mean_certified"]].to_dict("records"):
        raise UserError(
            f"{cell_name(row)}: {row['metric']}: measured {row['mean']:.4g}, interval {row['ci_low']:.4g} to "
            f"{row['ci_high']:.4g} (n = {row['n']}), and the defence certifies at most "
            f"{row['mean_certified']:.4g} (one of the two is wrong: check the defence and its accountant)"
        )


def of_attacks(spec: "TableSpec", scores: Sequence[Path], pictured: Sequence[Files]) -> Tabled:
    """Return the table of the experiment that `spec` describes, its trials, pictures and facts."""
    experiment = spec.experiment
    client, shown = experiment.client, experiment.exhibit
    reasons = spec.reasons
    frames, knows, classes = [], {}, {}
    falls: Facts = {}
    certificates: Facts = {}
    drawn: list[Pane] = []
    files = dict(zip(spec.cells, pictured, strict=True)) if shown else {}
    for cell, rows, facts in _scored(spec.parsed, scores):
        stem = cell.stem
        if rows is None:
            reasons[stem] = facts["absent"]
            continue
        rows = rows.assign(failed=failed(rows, facts["target"]))
        frames.append(rows if client is None else rows[rows["client"] == client])
        knows[stem] = facts["knows"]
        for name, known in (("certificate", certificates), ("falls", falls)):
            if name in facts:
                known[stem] = facts[name]
        if facts["classes"]:
            classes[cell.dataset] = facts["classes"]
        if shown:
            drawn.append(panel_of(cell, files[stem], rows, shown, client or 0))
    found = no_lines(COLUMNS)
    if frames:
        rows = pd.concat(frames, ignore_index=True)
        found = aggregate(rows, experiment.metrics or [], spec.scale, experiment.success)
        check_bounds(found[0])
    tensors = {f"{n}/{name}": array for n, (_, own) in enumerate(drawn) for name, array in own.items()}
    kept = {
        "panels": [panel for panel, _ in drawn],
        "knows": knows,
        # How many people the judges of a data set distinguish.
        "classes": classes,
        # By what share the loss of each trial fell in the last half of its run.
        "falls": falls,
        "absent_cells": reasons,
    }
    # What defences certify: σ, sampling, steps and ε.
    return Tabled(*found, tensors, kept | ({"certificates": certificates} if certificates else {}))
