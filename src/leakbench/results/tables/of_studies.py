"""The results of an experiment that trains, from the files of its studies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.base.artefacts import Facts, read_facts, read_table
from leakbench.base.provenance import spent
from leakbench.results.tables.drawn import boundaries, examples
from leakbench.results.tables.lines import Tabled, no_lines
from leakbench.results.tables.trained import COLUMNS, aggregate_studies

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import TableSpec


def of_studies(spec: "TableSpec", files: Sequence[Path], costs: Sequence[Path]) -> Tabled:
    """Return the table of an experiment, its trials, what there is to draw, and facts."""
    reasons, studies = spec.reasons, []
    for stem, path, cost in zip(spec.studies or [], files, costs, strict=True):
        facts = read_facts(path)
        if "absent" in facts:
            reasons[stem] = facts["absent"]
            continue
        reasons |= {f"{stem} on {name}": why for name, why in facts["untested"].items()}
        rows, facts = read_table(path)
        (seconds,) = spent(cost, seconds_per_round=0)
        studies.append((rows, facts | {"seconds_per_round": seconds, "selected_round": facts["selected"]}))
    found = aggregate_studies(studies, spec.scale) if studies else no_lines(COLUMNS)
    tensors, drawn = boundaries(studies)
    words, read = examples(studies)
    beside: Facts = {"boundaries": drawn, "examples": read} | {
        key: {str(rows["training"].iloc[0]): facts[key] for rows, facts in studies if facts.get(key)}
        for key in ("problems", "encryption")
    }
    facts = {"panels": [], "knows": {}, "classes": {}, "absent_cells": reasons}
    return Tabled(*found, tensors | words, {key: value for key, value in beside.items() if value} | facts)
