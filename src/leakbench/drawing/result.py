"""What a figure is drawn from: the table, the pictures, the printed and the recorded numbers of one
experiment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.artefacts import Facts, read_csv, read_tensors
from leakbench.errors import UserError
from leakbench.reference import read_recorded

TENSORS = ("truth", "guess", "usable", "sample", "score")
TEXT = {"baseline": str, "seeds": str, "key": str}


@dataclass(frozen=True)
class Panel:
    """The pictures of one cell.

    about: what they are (dataset, victim, local_samples, rule, target, knows, ...). truth: float32
    [k, C, H, W] in [0, 1]. guess: float32 [m, C, H, W] as reconstructed, in any range. usable: bool [m].
    sample: int64 [m], the sample that a guess resembles most, -1 for none. score: float32 [m], its Pearson r.
    """

    about: dict[str, Any]
    truth: np.ndarray
    guess: np.ndarray
    usable: np.ndarray
    sample: np.ndarray
    score: np.ndarray


@dataclass(frozen=True)
class Result:
    """One experiment.

    rows: the table that the `table` verb writes. panels, facts, tensors: the exhibit. spec: title, shows,
    source, item, scale, figure, and under `parts` what the experiment names, in its order. marks: the printed
    numbers that belong to rows of the table, in our unit. recorded: rows of longer runs, with a column
    `device`.
    """

    rows: pd.DataFrame
    panels: list[Panel]
    facts: Facts
    tensors: dict[str, np.ndarray]
    spec: dict[str, Any]
    marks: pd.DataFrame = field(default_factory=pd.DataFrame)
    recorded: pd.DataFrame = field(default_factory=pd.DataFrame)

    def parts(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the parts of a kind (dataset, victim, attack, ...) that the experiment names: name →
        entry."""
        return {part["name"]: part for part in self.spec.get("parts", {}).get(kind, [])}

    def value(self, kind: str, name: str, parameter: str) -> Any:
        """Return a value of a part at its full size, None where it has none.

        parameter: its name, or its path, such as objective.layer-weights.beta.
        """
        value: Any = self.parts(kind).get(name, {}).get("parameters", {})
        for key in parameter.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read_result(
    table: str, exhibit: str, spec: str, marks: Sequence[str] = (), recorded: Sequence[str] = ()
) -> Result:
    """Read what one experiment's figure is drawn from.

    table: CSV. exhibit: safetensors, which may hold no pictures. spec: JSON. marks: no file, or one CSV of
    printed numbers, which may be empty. recorded: tables of longer runs, each followed by the facts of its
    scale. Raises UserError naming the file and what it lacks.
    """
    tensors, facts = read_tensors(Path(exhibit))
    panels = []
    for number, about in enumerate(facts.get("panels", [])):
        for name in TENSORS:
            if f"{number}/{name}" not in tensors:
                raise UserError(
                    f"{exhibit}: tensor '{number}/{name}' is missing (every panel has {', '.join(TENSORS)})"
                )
        panels.append(Panel(about, *(tensors[f"{number}/{name}"] for name in TENSORS)))
    shown = json.loads(Path(spec).read_text())
    printed = [_rows(path, ("metric", "value")) for path in marks if Path(path).stat().st_size]
    return Result(
        _rows(table, ("metric", "mean", "n", "baseline")).fillna({"baseline": "", "key": ""}),
        panels,
        facts,
        tensors,
        shown,
        pd.concat(printed) if printed else pd.DataFrame(),
        read_recorded([Path(path) for path in recorded], but=shown["scale"]),
    )


def _rows(path: str, columns: Sequence[str]) -> pd.DataFrame:
    rows: pd.DataFrame = read_csv(Path(path), dtype=TEXT)
    for column in columns:
        if column not in rows:
            raise UserError(f"{path}: column '{column}' is missing (the rule that writes it has it)")
    return rows
