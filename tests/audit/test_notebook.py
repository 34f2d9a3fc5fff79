"""The tutorial's notebook runs from its first cell to its last."""

from pathlib import Path

import papermill
from project import ROOT


def test_the_tutorial_runs(tmp_path: Path) -> None:
    done = papermill.execute_notebook(
        ROOT / "notebooks/audit.ipynb", tmp_path / "audit.ipynb", kernel_name="python3", progress_bar=False
    )
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    shown = "".join(str(output.get("text", "")) for output in outputs)
    assert "16 of 16 records are read" in shown
    assert any("<iframe srcdoc=" in output.get("data", {}).get("text/html", "") for output in outputs)
