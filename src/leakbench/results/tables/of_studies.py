"""The results of an experiment that trains, from the files of its studies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import read_facts, read_table
from leakbench.base.provenance import spent
from leakbench.results.tables.drawn import boundaries, examples
from leakbench.results.tables.found import Found, no_lines
from leakbench.results.tables.trained import COLUMNS, aggregate_studies


def of_studies(spec: Mapping[str, Any], files: Sequence[Path], costs: Sequence[Path]) -> Found:
    """Return the table of the experiment that `spec` describes, its trials, what there is to draw, and facts.

    spec: the experiment's specification.
    files: the rows of each study, in the order of the spec.
    costs: the record of what each study cost, in the same order.

    The facts name the absent studies and the reasons, the problems of rounds, and how each study encrypted.
    """
    reasons = {"every study": spec["left_out"]} if spec["left_out"] else dict(spec["cells_left_out"])
    studies = []
    for stem, path, cost in zip(spec["studies"], files, costs, strict=True):
        facts = read_facts(path)
        if "absent" in facts:
            reasons[stem] = facts["absent"]
            continue
        reasons |= {f"{stem} on {name}": why for name, why in facts["untested"].items()}
        rows, facts = read_table(path)
        (seconds,) = spent(cost, seconds_per_round=0)
        studies.append((rows, facts | {"seconds_per_round": seconds, "selected_round": facts["selected"]}))
    found = aggregate_studies(studies, spec["scale"]) if studies else no_lines(COLUMNS)
    tensors, drawn = boundaries(studies)
    words, read = examples(studies)
    beside: dict[str, Any] = {"boundaries": drawn, "examples": read} | {
        key: {str(rows["training"].iloc[0]): facts[key] for rows, facts in studies if facts.get(key)}
        for key in ("problems", "encryption")
    }
    facts = {"panels": [], "knows": {}, "classes": {}, "absent_cells": reasons}
    return Found(*found, tensors | words, {key: value for key, value in beside.items() if value} | facts)
