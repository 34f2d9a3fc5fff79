"""Golden cells: small runs of recorded jobs give the numbers that were written, on every processor."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import golden
import numpy as np
import pytest
from golden import HERE, ROOT, names, read, report, run
from measures import apart, differences, measured

from leakbench.base.errors import UserError
from leakbench.base.parts import parts_of
from leakbench.catalogue.signature import declared_metrics
from leakbench.jobs.record import planned
from leakbench.papers.reference import read_record, recorded, run_of


@pytest.mark.parametrize("name", names())
def test_a_golden_cell_gives_its_numbers(name: str, tmp_path: Path) -> None:
    cell = read(name)
    if any(job["spec"].get("victim", {}).get("module") == "published" for job in cell["jobs"]):
        pytest.importorskip("peft")
    lines = list(differences(cell, run(cell, tmp_path)))
    assert not lines, report(name, lines)


def test_every_recorded_part_and_metric_is_in_a_golden_cell() -> None:
    """The part's file is named where it has none; `golden.py make` makes one."""
    there: set[str] = set()
    for name in names():
        for job in read(name)["jobs"]:
            there |= {*parts_of(job["spec"]), *_metrics(job["spec"])}
    missing: dict[str, str] = {}
    for folder in sorted(path.name for path in (ROOT / "reference").glob("*/")):
        if run_of(folder)[1] is not None:
            continue
        asked = planned(ROOT, folder)
        for table in recorded(ROOT / "reference" / folder):
            absent = read_record(table)["absent"]
            cells = [cell for cell in asked.experiments[table.stem] if cell.stem not in absent]
            present = replace(asked, experiments={table.stem: cells})
            specs = [asked.specs[name] for name in present.needed(table.stem)]
            found = {part for spec in specs for part in parts_of(spec)}
            found |= _metrics({"experiment": {"metrics": asked.definitions[table.stem].metrics or []}})
            missing |= dict.fromkeys(found - there, f"{folder}/{table.stem}")
    assert missing == {}


def _metrics(spec: golden.Spec) -> set[str]:
    named = [name for each in spec.get("attacks", {}).values() for name in each["metrics"]]
    named += spec.get("experiment", {}).get("metrics") or []
    return {declared_metrics()[name].module for name in named}


@pytest.mark.parametrize(
    ("change", "told"),
    [({"name": "other"}, r"name: is 'other', another cell's \(rename the file"),
     ({"results": None}, "results: is missing or of another type")],
)  # fmt: skip
def test_a_cell_of_another_name_or_form_is_one_line(
    change: golden.Spec, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = names()[0]
    (tmp_path / f"{name}.json").write_text(json.dumps(read(name) | change))
    monkeypatch.setattr(golden, "CELLS", tmp_path)
    with pytest.raises(UserError, match=rf"{name}\.json: {told}"):
        read(name)


def test_a_missing_cell_is_one_line() -> None:
    command = [sys.executable, str(HERE / "golden.py"), "compare", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "cells/nosuch.json" in done.stderr


@pytest.mark.parametrize("share", [3e-4, -3e-4])
def test_a_number_that_moves_by_three_parts_in_ten_thousand_is_found(share: float) -> None:
    """This guards the test of the cells: it can fail."""
    rng = np.random.default_rng(0)
    before = rng.standard_normal(1000)
    own = measured("x", before)
    assert apart(own, measured("x", before + 1e-6 * rng.standard_normal(1000))) == ""
    assert apart(own, measured("x", before * (1 + share))).startswith("changed by 3.0e-04")
    assert apart(own, measured("x", -before)) != ""
    assert apart(own, measured("x", before[::-1])) != ""
    assert apart(own, measured("x", before[:-1])).startswith("has another shape")
    assert apart(own, measured("x", np.where(before > 2, np.nan, before))) != ""
    words = measured("x", np.array(["a", "b"], object))
    assert apart(words, measured("x", np.array(["a", "c"], object))) != ""


def test_a_failure_names_the_records_that_rest_on_it() -> None:
    name = next(name for name in names() if "peel" in name)
    path = next(path for path in read(name)["results"] if path.startswith("guesses/peel"))
    told = report(name, [f"{path}: images changed by 1.0e-02"])
    assert f"tests/golden/cells/{name}.json: 1 numbers changed" in told
    assert "raise NUMERICS" in told
    assert "standard/peeling-table-2" in told
    assert "standard/ilrg-mnist" not in told
