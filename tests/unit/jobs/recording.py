"""The record of a table of the made cell, as `leakbench record` keeps it, and the plan that it stands in."""

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cell import ORIGIN, Cell, make_table

from leakbench.base.artefacts import write_json, write_table
from leakbench.base.provenance import machine
from leakbench.catalogue.resolve import Plan
from leakbench.jobs import again
from leakbench.jobs.record import outdated
from leakbench.papers.reference import kept_digests


def record_table(
    cell: Cell, stems: list[str], metrics: list[str], verb: ModuleType, patch: pytest.MonkeyPatch, **told: Any
) -> tuple[Path, dict[str, int]]:
    """Record table x of these cells at the quick scale, as today's code makes it, in a plan of that alone.

    verb: the module of the verb that looks at it. told: further facts of the record.

    Returns the record's JSON file, and the numerics of today, which a test may raise.
    """
    attacks = [stem.split("/")[-2] for stem in stems]
    for stem in stems:
        write_json(cell.results / f"records/attack/{stem}.json", {"seconds": 1.0, "updates": 1})
    cell.score(*metrics, attacks=tuple(attacks))
    made = make_table(cell, stems, [cell.scores], metrics=metrics)
    folder = cell.root / "reference/quick"
    folder.mkdir(parents=True)
    shutil.copyfile(cell.results / "x.csv", folder / "x.csv")
    write_table(folder / "x.parquet", made.trials, {"made": "first"})
    facts = {"device": machine(), "commit": "abc", "date": "2026-01-01", "specs": "same", "versions": {}}
    facts |= {"absent": {}, "files": kept_digests(folder / "x.csv"), **told}
    (folder / "x.json").write_text(json.dumps(facts))
    today: dict[str, int] = {}
    asked = _plan(stems, attacks, metrics)
    patch.setattr(again, "numerics", lambda modules: dict(today))
    for name, value in (
        ("planned", lambda *given: asked), ("specs_digest", lambda *given: "same"),
        ("numerics_of", lambda *given: dict(today)),
    ):  # fmt: skip
        patch.setitem(outdated.__globals__, name, value)
        patch.setattr(verb, name, value)
    patch.setitem(outdated.__globals__, "commit", lambda root: "now")
    return folder / "x.json", today


class _Definition:
    def __init__(self, metrics: list[str]) -> None:
        self.metrics = metrics


def _plan(stems: list[str], attacks: list[str], metrics: list[str]) -> Plan:
    scored = {"metrics": metrics, "matching": "best", "judges": [], "decays": False}
    names = dict(zip(("dataset", "victim", "federation", "defence"), ORIGIN.split("/"), strict=False))
    settings = {"seeds": [0], "metrics": metrics, "success": [], "client": None, "exhibit": None}
    specs: dict[str, Any] = {
        "table/x": {"cells": stems, "scale": "quick", "left_out": "", "cells_left_out": {}, "shares": {},
                    "experiment": settings},
        f"score/{ORIGIN}": {"cell": names | {"seed": 0}, "attacks": dict.fromkeys(attacks, scored),
                            "judges": []},
        f"capture/{ORIGIN}": {"federation": {"keep": True}}, "train/made/victim/0": {},
        **{f"attack/{stem}": {} for stem in stems},
    }  # fmt: skip
    return Plan("quick", {"x": []}, {"x": _Definition(metrics)}, specs, {"x": []})  # type: ignore[dict-item]
