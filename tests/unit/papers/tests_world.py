"""A small paper, and tables of ours as if what it prints were true."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from leakbench.metrics.interval import interval
from leakbench.papers.join import words_of
from leakbench.papers.printed import Row
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work, read_papers

PAPER: dict[str, Any] = {
    "source": "tiny", "title": "A tiny paper", "authors": "A. Uthor", "year": 2024,
    "link": "https://example.org", "claims": "Attacks work.",
    "threat_model": "An honest-but-curious server.", "lengths": {"fast": 100, "slow": 100},
}  # fmt: skip
PRINT = """id,source,table,dataset,attack,metric,value,std,note
tiny.table-1.1,tiny,table-1,Digits,Fast,psnr,30.0,,
tiny.table-1.2,tiny,table-1,Digits,Slow,psnr,20.0,,
tiny.table-1.3,tiny,table-1,Photos,Fast,psnr,25.0,,
tiny.table-1.4,tiny,table-1,Photos,Slow,psnr,not run,,
"""
MAP: dict[str, Any] = {
    "table-1": {
        "experiment": "tiny-table-1", "dataset": {"by": "dataset", "Digits": "digits", "Photos": "photos"},
        "attack": {"by": "attack", "Fast": "fast", "Slow": "slow"}, "metric": "psnr",
        "against": {"attack": {"by": "attack", "Fast": "Slow", "Slow": "Fast"}},
        "rows": {"tiny.table-1.3": {"against": {}}},
    }
}  # fmt: skip
CLAIMS: dict[str, Any] = {
    "let": {"attacks": ["fast", "slow"]},
    "claims": [
        {
            "id": "tiny.table-1.fast-better", "item": "table-1", "claim": "Fast is better than slow.",
            "read": {"experiment": "tiny-table-1", "metric": "psnr", "dataset": "digits"},
            "quantity": "at(attack='fast') - at(attack='slow')", "relation": ">", "threshold": 0,
        }
    ],
}  # fmt: skip


def paper(folder: Path, **files: Any) -> Path:
    """Write papers/tiny below `folder` and return papers/; keyword arguments replace its files' contents."""
    own = folder / "papers" / "tiny"
    (own / "tables").mkdir(parents=True, exist_ok=True)
    content = {
        "paper": PAPER, "measured": MAP, "claims": CLAIMS, "print": PRINT, "checks": None, "differs": None,
    } | files  # fmt: skip
    for name in ("paper", "measured", "claims", "differs"):
        if content[name] is not None:
            text = content[name] if isinstance(content[name], str) else yaml.safe_dump(content[name])
            (own / f"{name}.yaml").write_text(text)
    (own / "tables" / "table-1.csv").write_text(content["print"])
    if content["checks"] is not None:
        (own / "checks.py").write_text(content["checks"])
    return folder / "papers"


def files_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files that a row of papers_bad.yaml or scorecards.yaml gives the small paper."""
    files = {key: row[key] for key in ("measured", "claims", "differs", "checks", "paper") if key in row}
    if isinstance(row.get("paper"), dict):
        files["paper"] = PAPER | row["paper"]
    if "map" in row:
        files["measured"] = {"table-1": MAP["table-1"] | row["map"]}
    if "claim" in row:
        files["claims"] = CLAIMS | {"claims": [CLAIMS["claims"][0] | row["claim"]]}
    text = PRINT.replace("30.0", str(row["words"]), 1) if "words" in row else PRINT
    for old, new in row.get("print", ()):
        text = text.replace(old, new)
    return files | {"print": text + row.get("more", "")}


def cell_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell as `lines` takes it, of one that scorecards.yaml gives."""
    drawn = [*trials(*said["draw"]), *said.get("more", ())] if "draw" in said else said["values"]
    return {key: each for key, each in said.items() if key not in ("draw", "more")} | {"values": drawn}


def trials(mean: float, spread: float, n: int, seed: int = 0) -> np.ndarray:
    """Return n values with exactly this mean and about this deviation."""
    values = np.random.default_rng(seed).normal(0, spread, n)
    return mean + values - values.mean()


def lines(
    name: str, cells: Mapping[tuple[str, ...], Any],
    columns: tuple[str, ...] = ("dataset", "attack", "metric"), seed: int = 0,
) -> Table:  # fmt: skip
    """Return a table with one line for each cell, of the network of one seed.

    cells: the values of `columns` -> the cell's trials, or a mapping with more columns.
    """
    rows, kept = [], []
    for place, (condition, values) in enumerate(cells.items()):
        more = {}
        if isinstance(values, dict):
            more = {key: value for key, value in values.items() if key != "values"}
            values = values["values"]
        values = np.asarray(values, float)
        low, high = interval(values)
        row = dict(zip(columns, condition, strict=True)) | {
            "victim": "v", "federation": "f", "defence": "none", "baseline": "", "iterations": 100,
            "convention": "standard", "mean": values.mean(), "std": values.std(), "ci_low": low,
            "ci_high": high, "n": len(values), "failure_rate": 0.0, "seeds": str(seed), "scale": "quick",
        }  # fmt: skip
        rows.append(row | more)
        if (row | more)["baseline"] in ("", "snapshot", "other-update"):
            for trial, value in enumerate(values):
                update = f"{seed}/{trial}"
                named = {"cluster": update, "trial": f"{update}/0/{trial}"}
                kept.append({"line": place, **named, "value": value})
    return Table(name, pd.DataFrame(rows), pd.DataFrame(kept))


def evidence(tables: Mapping[str, Table], scale: str = "quick", **more: Any) -> ScaleEvidence:
    """Return the evidence of a scale that knows no facts but those given."""
    known = more.pop("known", frozenset({"tiny-table-1", *tables}))
    facts: Mapping[str, Any] = more.pop("facts", {})

    def fact(path: str) -> Any:
        if path not in facts:
            raise NotMeasured(f"fact {path} is not known")
        return facts[path]

    return ScaleEvidence(scale=scale, lines=tables, known=known, fact=fact, **more)


TRUE: dict[tuple[str, ...], Any] = {
    ("digits", "fast", "psnr"): trials(30, 1, 20),
    ("digits", "slow", "psnr"): trials(20, 1, 20, 1),
    ("photos", "fast", "psnr"): trials(25, 1, 20, 2),
}


def tabled(cells: Mapping[tuple[str, ...], Any] = TRUE, scale: str = "quick", **more: Any) -> ScaleEvidence:
    """Return the evidence of a scale that measured these cells of table-1."""
    return evidence({"tiny-table-1": lines("tiny-table-1", cells)}, scale, **more)


def card(papers: Path, *scales: ScaleEvidence, **more: Any) -> pd.DataFrame:
    """Return the scorecard by id; the last of the scales is the run's own."""
    return Card(read_papers(papers), scales, scales[-1], **more).frame().set_index("id")


def _unused(value: Any, key: str, rows: Sequence[Row]) -> list[str]:
    """Return "key: word" for every word of a map, and of those within it, that none of `rows` prints."""
    if not isinstance(value, dict) or "by" not in value:
        return []
    columns = value["by"] if isinstance(value["by"], list) else [value["by"]]
    printed: dict[str, list[Row]] = {}
    for row in rows:
        printed.setdefault(" | ".join(words_of(row).get(c, "") for c in columns), []).append(row)
    words = {str(word): inner for word, inner in value.items() if word != "by"}
    others = [row for word, each in printed.items() if word not in words for row in each]
    found = [f"{key}: {word}" for word in words if word not in printed and word != "else"]
    for word, inner in words.items():
        found += _unused(inner, f"{key}.{word}", printed.get(word, others))
    return found


def unused_words(work: Work) -> list[str]:
    """Return, as "table.key: word", every word of the maps that no printed row has.

    Such a word is misspelt, or its row is gone. Of `rows` a work is not read with one.
    """
    found = []
    for stem, table in work.maps.items():
        for key, value in table.items():
            found += [f"{stem}.{word}" for word in _unused(value, key, work.tables[stem])]
    return found
