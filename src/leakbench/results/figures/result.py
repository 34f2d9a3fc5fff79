"""The table, the pictures and the printed numbers of one experiment, from which its figure is drawn.

If a run leaves cells of the experiment to a recorded run, the figure is drawn from the recorded run.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts, read_csv, read_tensors
from leakbench.base.cellname import CELL
from leakbench.base.errors import UserError
from leakbench.papers.reference import EXHIBIT, TEXT, Kept, tables
from leakbench.papers.verdicts.tolerances import possible

TENSORS = ("truth", "guess", "usable", "sample", "score")
# The name of a fact in a record → the name of the same fact in an exhibit.
FACTS = {"device": "device", "seeds": "seeds", "versions": "versions", "knows": "knows", "code": "code"}
FACTS |= {"specs": "spec", "absent": "absent_cells"}


@dataclass(frozen=True)
class Panel:
    """The pictures of one cell."""

    about: Facts  # what the pictures are (dataset, victim, local_samples, rule, target, knows, ...)
    truth: np.ndarray  # float32 [k, C, H, W] in [0, 1], the private images
    guess: np.ndarray  # float32 [m, C, H, W] as reconstructed, in any range
    usable: np.ndarray  # bool [m], whether the attack got anything for a guess
    sample: np.ndarray  # int64 [m], the sample that a guess resembles most, -1 for none
    score: np.ndarray  # float32 [m], the Pearson r of a guess with its sample


@dataclass(frozen=True)
class Result:
    """One experiment: its table, and the pictures, facts and tensors of its exhibit."""

    rows: pd.DataFrame
    panels: list[Panel]
    facts: Facts
    tensors: dict[str, np.ndarray]
    # Title, shows, work, item, scale, figure, and under `parts` what the experiment names, in its order.
    spec: Facts
    # The printed numbers that belong to rows of the table, in the unit of the table.
    marks: pd.DataFrame = field(default_factory=pd.DataFrame)
    said: Sequence[str] = ()  # what the work prints of the item in words
    # If a recorded run is shown in place of this run, when, where and from what it was recorded.
    recorded: str = ""
    trials: Path | None = None  # the file of the single trials behind the rows, if it is known
    # The records of other experiments that drawings show beside this one, by name.
    others: Mapping[str, "Result"] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether the experiment is one of leakbench itself, and of no other work."""
        return bool(self.spec["work"] == "leakbench")

    def parts(self, kind: str) -> dict[str, Facts]:
        """Return name → entry of the parts of a kind (dataset, victim, attack, ...) in the experiment."""
        return {part["name"]: part for part in self.spec.get("parts", {}).get(kind, [])}

    def value(self, kind: str, name: str, parameter: str) -> Any:
        """Return a value of a part at full size by its path (objective.layer-weights.beta), or None."""
        value: Any = self.parts(kind).get(name, {}).get("parameters", {})
        for key in parameter.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read_result(
    table: str,
    exhibit: str,
    spec: str,
    marks: Sequence[str] = (),
    recorded: Sequence[str] = (),
    trials: str = "",
) -> Result:
    """Read the files from which one experiment's figure is drawn.

    marks: what is printed, with the experiment that each line belongs to.
    recorded: the recorded table that is drawn in place of `table`, and those of other experiments.
    trials: the file of the single trials behind `table`.
    """
    tensors, facts = read_tensors(Path(exhibit))
    panels = _panels(exhibit, tensors, facts)
    shown = json.loads(Path(spec).read_text("utf-8"))
    found = [_rows(path, ("metric", "value")) for path in marks if Path(path).stat().st_size]
    printed, name = pd.concat(found) if found else pd.DataFrame(), Path(table).stem
    rows = _rows(table, ("metric", "mean", "n", "baseline")).fillna({"baseline": "", "key": ""})
    said = [] if "says" not in printed else list(printed["says"].dropna())
    more: Any = {"said": said, "trials": Path(trials) if trials else None}
    own = Result(rows, panels, facts, tensors, shown, _marks(printed, name), **more)
    kept = {each.name: each for each in tables(map(Path, recorded))}
    others = {
        other: _of_record(replace(own, marks=_marks(printed, other)), each)
        for other, each in kept.items()
        if other != name
    }
    return with_others(_of_record(own, kept[name]) if name in kept else own, others)


def with_others(own: Result, others: Mapping[str, Result]) -> Result:
    beside = {name: replace(each, rows=cut(each.rows)) for name, each in others.items()}
    return replace(own, rows=cut(own.rows), others=beside)


def _marks(printed: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return the lines of an experiment that have a number or an outcome."""
    if "says" in printed:
        printed = printed[printed["says"].isna()]
    return printed[printed["experiment"] == experiment] if "experiment" in printed else printed


def _panels(path: str | Path, tensors: Mapping[str, np.ndarray], facts: Facts) -> list[Panel]:
    """Return the pictures of an exhibit. Raises UserError naming the file and what it lacks."""
    panels, told = [], facts.get("panels", [])
    if not isinstance(told, list) or not all(isinstance(about, dict) for about in told):
        raise UserError(f"{path}: panels is no list of what each shows (the rule that writes it has it)")
    for number, about in enumerate(told):
        for name in TENSORS:
            if f"{number}/{name}" not in tensors:
                raise UserError(
                    f"{path}: tensor '{number}/{name}' is missing (every panel has {', '.join(TENSORS)})"
                )
        truth, guess, *others = (tensors[f"{number}/{name}"] for name in TENSORS)
        panels.append(Panel(about, _as_floats(truth), _as_floats(guess), *others))
    return panels


def _as_floats(images: np.ndarray) -> np.ndarray:
    """Return images in [0, 1], of which a record may keep 8 bits."""
    return images / np.float32(255) if images.dtype == np.uint8 else images


def cut(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table, with intervals cut as `possible` cuts them."""
    if not {"ci_low", "ci_high"} <= {*rows.columns}:
        return rows
    cut = rows.copy()
    for metric, at in rows.groupby("metric").groups.items():
        least, most = possible(str(metric), -math.inf, math.inf)
        cut.loc[at, "ci_low"] = rows.loc[at, "ci_low"].clip(lower=least)
        cut.loc[at, "ci_high"] = rows.loc[at, "ci_high"].clip(upper=most)
    return cut


def _of_record(own: Result, kept: Kept) -> Result:
    """Return a recorded run in place of a run of another scale."""
    tensors, facts = read_tensors(exhibit) if (exhibit := kept.beside(EXHIBIT)) else ({}, {})
    panels = _panels(exhibit or kept.table, tensors, facts)
    if not tensors and (medians := kept.beside(".safetensors")):
        panels = [_median(medians, cell, pair) for cell, pair in read_tensors(medians)[0].items()]
    made = {name: kept.record[key] for key, name in FACTS.items() if key in kept.record}
    return replace(
        own,
        rows=kept.rows.fillna({"key": ""} if "key" in kept.rows else {}),
        panels=panels,
        facts=own.facts | facts | made,
        tensors=own.tensors | tensors,
        spec=own.spec | {"scale": kept.scale},
        recorded=kept.said(),
        trials=kept.beside(".parquet"),
    )


def _median(path: Path, cell: str, pair: np.ndarray) -> Panel:
    """Return the `pair` (uint8 [2, rows, columns, channels]) that a record keeps of a cell."""
    if len(cell.split("/")) != len(CELL) or pair.ndim != 4 or len(pair) != 2:
        raise UserError(f"{path}: {cell} is no pair of pictures of a cell (see reference/README.md)")
    truth, guess = _as_floats(pair.transpose(0, 3, 1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.corrcoef(truth.ravel(), guess.ravel())[0, 1]
    about = dict(zip(CELL, cell.split("/"), strict=True)) | {"rule": "median", "target": "images"}
    one = np.array([0])
    return Panel(about, truth[None], guess[None], one == 0, one, np.array([score], np.float32))


def _rows(path: str, columns: Sequence[str]) -> pd.DataFrame:
    rows: pd.DataFrame = read_csv(Path(path), columns, "the rule that writes it has it", dtype=TEXT)
    return rows
