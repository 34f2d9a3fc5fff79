"""Made-up tables of the thesis's chapter 3, and the scorecard that is made of them."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pandas as pd
from worlds import KNOWN, as_printed, works

from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.quantity import Measured
from leakbench.papers.scorecard.scorecard import Card

WORK = works()["grnn"]
ROWS = {row.id: row for rows in WORK.tables.values() for row in rows}
Line = dict[str, Any]


def line(experiment: str, metric: str, value: float, **where: Any) -> Line:
    attack = where.get("attack", "grnn")
    known = {
        "dataset": "mnist-32", "victim": "lenet-dlg", "federation": "grnn", "defence": "none",
        "attack": attack,
    }  # fmt: skip
    return {
        "experiment": experiment, **known, "client": 0, "baseline": "", "convention": "standard",
        "metric": metric, "mean": value, "std": 0.0, "ci_low": value - 1e-3, "ci_high": value + 1e-3, "n": 10,
        "iterations": 300 if attack == "dlg" else 20_000 if attack == "invg-grnn" else 1000, **where,
    }  # fmt: skip


def card(lines: Iterable[Line], trials: dict[int, list[float]] | None = None) -> Card:
    """A scorecard on tables of these lines. trials: place of a line -> its single values."""
    tables: dict[str, list[Line]] = defaultdict(list)
    kept: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for place, each in enumerate(lines):
        name = each["experiment"]
        kept[name] += [
            {"line": len(tables[name]), "trial": f"{each['federation']}/{number}", "cluster": str(number),
             "value": value}
            for number, value in enumerate((trials or {}).get(place, []))
        ]  # fmt: skip
        tables[name].append({key: value for key, value in each.items() if key != "experiment"})
    run = ScaleEvidence(
        "paper",
        {name: Table(name, pd.DataFrame(rows), pd.DataFrame(kept[name])) for name, rows in tables.items()},
        known=KNOWN,
    )
    return Card([WORK], [run], run)


def word(found: Card, key: str) -> str:
    frame = found.frame().set_index("id")
    return str(frame.loc[key, "verdict"])


def value(found: Card, key: str) -> Measured:
    measured = found.value(key, found.run)
    assert isinstance(measured, Measured)
    return measured


def named(dataset: str, **shares: float) -> list[Line]:
    """Table 3.15: the share of an attack's faces that each judge names. shares: attack -> share."""
    return [
        line(
            "thesis-table-3-15", f"top1_{judge}", share,
            dataset=dataset, federation="grnn-faces", attack=attack,
        )
        for judge in ("resnet18", "densenet121")
        for attack, share in shares.items()
    ]  # fmt: skip


def printed() -> list[Line]:
    """Return tables in which every mean of chapter 3 is as it is printed."""
    lines = {}
    for row, reading, where, value in as_printed("grnn", "mean", "outcome"):
        experiment, metric = where.pop("experiment"), where.pop("metric")
        values = {metric: value}
        if reading.way == "outcome":
            where.pop("convention", None)
            values = dict.fromkeys(("ssim", "identified"), 0.9 if row.published == "success" else 0.1)
        for name, number in values.items():
            key = (experiment, name, *sorted(where.items()))
            spread = {} if math.isnan(row.std) else {"std": row.std}
            lines.setdefault(key, line(experiment, name, number, **where, **spread))
    return list(lines.values())
