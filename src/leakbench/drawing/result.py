"""What a notebook is given: the table and the pictures of one experiment, and how to introduce them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.artefacts import Facts, read_tensors
from leakbench.errors import UserError

TENSORS = ("truth", "guess", "usable", "sample", "score")


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
    """One experiment: rows as the `table` verb writes them, panels, facts, the words around the figure, and the exhibit's
    tensors by name.
    """

    rows: pd.DataFrame
    panels: list[Panel]
    facts: Facts
    title: str
    scale: str
    published: str
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def missing(self) -> str:
        """Why cells are missing, or an empty string."""
        reasons = dict.fromkeys(self.facts.get("absent_cells", {}).values())
        return "; ".join([*filter(None, [self.facts.get("absent")]), *reasons])


def read_result(table: str, exhibit: str, *, title: str, scale: str, published: str) -> Result:
    """Read a table (CSV) and an exhibit (safetensors, which may hold no pictures).

    Raises UserError naming the file and what it lacks.
    """
    try:
        rows = pd.read_csv(table, dtype={"baseline": str, "seeds": str})
    except FileNotFoundError as problem:
        raise UserError(f"{table}: no such table (run the rule that writes it)") from problem
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as problem:
        raise UserError(f"{table}: not a table ({problem})") from problem
    for column in ("metric", "mean", "n", "baseline"):
        if column not in rows:
            raise UserError(f"{table}: column '{column}' is missing (the table verb writes it)")
    tensors, facts = read_tensors(Path(exhibit))
    panels = []
    for number, about in enumerate(facts.get("panels", [])):
        for name in TENSORS:
            if f"{number}/{name}" not in tensors:
                raise UserError(
                    f"{exhibit}: tensor '{number}/{name}' is missing (every panel has {', '.join(TENSORS)})"
                )
        panels.append(Panel(about, *(tensors[f"{number}/{name}"] for name in TENSORS)))
    return Result(rows.fillna({"baseline": ""}), panels, facts, title, scale, published, tensors)
