"""Recorded results: small tables of earlier runs, kept in git below reference/<scale>/ with what made them.

What takes hours is measured once, recorded, and shown beside what a run measures itself, never in its place.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.artefacts import read_csv
from leakbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FACTS = "recorded.json"


def files(root: Path, experiment: str) -> list[Path]:
    """Return the recorded tables of an experiment below the checkout `root`, each followed by its scale's facts."""
    tables = sorted((root / "reference").glob(f"*/{experiment}.csv"))
    return [path for table in tables for path in (table, table.parent / FACTS)]


def recorded(root: Path, experiment: str, but: str) -> "pd.DataFrame":
    """Return the recorded rows of an experiment at every scale `but` one, with a column `device`; empty if there are none.

    Raises UserError naming a file that is no table or tells nothing of its device.
    """
    import pandas as pd

    found = []
    for table, facts in zip(*[iter(files(root, experiment))] * 2, strict=True):
        if table.parent.name == but:
            continue
        try:
            device = str(json.loads(facts.read_text())["device"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(
                f"{facts}: must tell the `device` of the tables beside it ({problem})"
            ) from problem
        found.append(
            read_csv(table, dtype={"seeds": str, "baseline": str})
            .fillna({"baseline": ""})
            .assign(device=device)
        )
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()
