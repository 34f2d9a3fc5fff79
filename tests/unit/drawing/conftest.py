"""Writes synthetic tables and exhibits and reads them back as a notebook does."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from synthetic import KNOWS

from leakbench.artefacts import write_tensors
from leakbench.drawing.result import Result, read_result


@pytest.fixture
def result(tmp_path: Path) -> Callable[..., Result]:
    """Write a table and an exhibit and read them back as a notebook does."""

    def make(
        rows: pd.DataFrame | None = None, panels: list[tuple[dict, dict]] | None = None, **facts: object
    ) -> Result:
        table, exhibit = tmp_path / "table.csv", tmp_path / "exhibit.safetensors"
        if rows is None:
            table.write_text("metric,mean,n,baseline\n")
        else:
            rows.to_csv(table, index=False)
        tensors = {name: value for _, part in panels or [] for name, value in part.items()}
        written = {
            "panels": [about for about, _ in panels or []],
            "scale": "quick",
            "seeds": [0],
            "knows": {"cell": KNOWS},
        }
        write_tensors(exhibit, tensors, json.loads(json.dumps(written | facts)))
        return read_result(
            str(table),
            str(exhibit),
            title="A title",
            scale="quick",
            published="One sentence that the paper claims.",
        )

    return make
