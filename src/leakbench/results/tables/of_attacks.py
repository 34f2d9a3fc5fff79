"""The results of an experiment that attacks, from the scores of its cells."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import read_facts, read_table
from leakbench.catalogue.cell import capture_of
from leakbench.results.tables.attacked import COLUMNS, aggregate
from leakbench.results.tables.certified import check_bounds
from leakbench.results.tables.failures import failed
from leakbench.results.tables.found import Found, no_lines
from leakbench.results.tables.pictures import Files, Panel, panel_of


def _scored(
    stems: Sequence[str], scores: Sequence[Path]
) -> Iterator[tuple[str, pd.DataFrame | None, dict[str, Any]]]:
    """Yield the rows and facts of each cell; of an absent cell, no rows and the reason.

    scores: one file per capture, in the order in which the cells first name it.
    """
    captures = list(dict.fromkeys(capture_of(stem) for stem in stems))
    files = {capture: (path, read_facts(path)) for capture, path in zip(captures, scores, strict=True)}
    read: dict[Path, pd.DataFrame] = {}
    for stem in stems:
        path, facts = files[capture_of(stem)]
        attack = stem.split("/")[-2]
        own = facts if "absent" in facts else facts["attacks"][attack]
        if "absent" in own:
            yield stem, None, own
            continue
        if path not in read:
            read[path] = read_table(path)[0]
        yield stem, read[path][read[path]["attack"] == attack], own


def of_attacks(spec: Mapping[str, Any], scores: Sequence[Path], pictured: Sequence[Files]) -> Found:
    """Return the table of the experiment that `spec` describes, its trials, pictures and facts.

    spec: the experiment's specification.
    scores: a file for each capture, in the order in which the spec's cells first name it.
    pictured: the files of each cell, in the order of the spec; none where the experiment shows no pictures.

    Cells whose scores are absent are left out. The facts name them with the reasons.
    """
    experiment = spec["experiment"]
    client, shown = experiment["client"], experiment["exhibit"]
    reasons = {"every cell": spec["left_out"]} if spec["left_out"] else {}
    reasons |= spec["cells_left_out"]
    frames, knows, classes, falls = [], {}, {}, {}
    certificates: dict[str, Any] = {}
    drawn: list[Panel] = []
    files = dict(zip(spec["cells"], pictured, strict=True)) if shown else {}
    for stem, rows, facts in _scored(spec["cells"], scores):
        if rows is None:
            reasons[stem] = facts["absent"]
            continue
        rows = rows.assign(failed=failed(rows, facts["target"]))
        frames.append(rows if client is None else rows[rows["client"] == client])
        knows[stem] = facts["knows"]
        if "certificate" in facts:
            certificates[stem] = facts["certificate"]
        if "falls" in facts:
            falls[stem] = facts["falls"]
        if facts["classes"]:
            classes[stem.partition("/")[0]] = facts["classes"]
        if shown:
            drawn.append(panel_of(stem, files[stem], rows, shown, client or 0))
    found = no_lines(COLUMNS)
    if frames:
        rows = pd.concat(frames, ignore_index=True)
        found = aggregate(rows, experiment["metrics"], spec["scale"], experiment["success"])
        check_bounds(found[0])
    tensors: dict[str, np.ndarray] = {
        f"{number}/{name}": array
        for number, (_, content) in enumerate(drawn)
        for name, array in content.items()
    }
    return Found(
        *found,
        tensors,
        {
            "panels": [panel for panel, _ in drawn],
            "knows": knows,
            # How many people the judges of a data set distinguish.
            "classes": classes,
            # By what share the loss of each trial fell in the last half of its run.
            "falls": falls,
            "absent_cells": reasons,
            # What defences certify: σ, sampling, steps and ε.
            **({"certificates": certificates} if certificates else {}),
        },
    )
