"""Worlds in which our tables hold what a paper prints, and the scorecard that they give."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.catalogue.load import load_kind
from leakbench.catalogue.shown import described
from leakbench.papers.facts import reader
from leakbench.papers.join import read
from leakbench.papers.scorecard.evidence import Evidence, Lines
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work, read_papers

ROOT = Path(__file__).parents[3]
Tables = dict[str, pd.DataFrame]


@cache
def works() -> dict[str, Work]:
    return {work.name: work for work in read_papers(ROOT / "papers")}


def line(metric: str, mean: float, **where: Any) -> dict[str, Any]:
    """One line of a result table: 200 updates that hardly differ."""
    common = {
        "baseline": "",
        "convention": "standard",
        "mean": float(mean),
        "ci_low": mean - 1e-6,
        "ci_high": mean + 1e-6,
    }
    return common | {"metric": metric, "n": 200, "std": 1e-5, "failure_rate": 0.0} | where


def printed(work: Work) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
    """Experiment -> condition of ours -> what the paper prints of it, in our unit."""
    found: dict[str, dict[tuple[tuple[str, Any], ...], float]] = {}
    for row in (row for rows in work.tables.values() for row in rows):
        reading = read(work, row)
        if reading.way != "mean" or math.isnan(row.number.value):
            continue
        where = dict(reading.where)
        lines = found.setdefault(where.pop("experiment"), {})
        value = row.number.value / reading.unit
        assert lines.setdefault(tuple(sorted(where.items())), value) == value, row.id
    return found


def tables(work: Work, more: Mapping[str, Iterable[dict[str, Any]]]) -> Tables:
    """What the paper prints, and more lines by experiment."""
    rows = {
        name: [line(mean=v, **dict(k)) for k, v in lines.items()] for name, lines in printed(work).items()
    }
    for name, lines in more.items():
        rows[name] = rows.get(name, []) + list(lines)
    return {name: pd.DataFrame(content) for name, content in rows.items()}


def known(facts: Mapping[str, Any]) -> Callable[[str], Any]:
    """Facts by path: the given ones, and what the catalogue says."""
    catalogue = _catalogue()
    return lambda path: facts[path] if path in facts else catalogue(path)


@cache
def _catalogue() -> Callable[[str], Any]:
    return reader(described(ROOT / "config"), {})


def card(work: Work, found: Tables, fact: Callable[[str], Any], **more: Any) -> pd.DataFrame:
    """The scorecard of one work, by id."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    scale = Evidence("paper", {n: Lines(n, t) for n, t in found.items()}, fact=fact, known=known, **more)
    return Card([work], [scale], scale).frame().set_index("id")


def nothing(path: str) -> Any:
    raise NotMeasured(f"{path} is not known")


def changed(found: Tables, experiment: str, change: Callable[[pd.Series], pd.Series], **where: Any) -> Tables:
    """The tables with some lines of one of them changed."""
    table = found[experiment].copy()
    chosen = pd.Series(True, index=table.index)
    for key, value in where.items():
        chosen &= table[key] == value
    assert chosen.any()
    for key in ("mean", "ci_low", "ci_high"):
        table.loc[chosen, key] = change(table.loc[chosen, key])
    return found | {experiment: table}
