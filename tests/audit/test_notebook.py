"""The notebooks of the documents run from their first cell to their last."""

import ast
from pathlib import Path
from typing import Any

import papermill
import pytest
from project import ROOT


def run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[dict[str, Any]]]:
    """Run a notebook in its folder; return what it printed and what it showed."""
    monkeypatch.chdir(ROOT / "notebooks")
    path, out = ROOT / f"notebooks/{name}.ipynb", tmp_path / f"{name}.ipynb"
    done = papermill.execute_notebook(path, out, kernel_name="python3", progress_bar=False)
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = "".join(str(output.get("text", "")) for output in outputs)
    return printed, [output["data"] for output in outputs if "data" in output]


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, shown = run("audit", tmp_path, monkeypatch)
    assert "16 of 16 records are read" in printed
    assert any("<iframe srcdoc=" in each.get("text/html", "") for each in shown)


def test_numpy_alone_reads_sixteen_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, shown = run("numpy-leak", tmp_path, monkeypatch)
    assert "16 of 16 digits came back in every bit, with their labels" in printed
    assert "0 digits are read behind noise" in printed
    assert sum("image/png" in each for each in shown) == 2
    cells = papermill.iorw.load_notebook_node(str(ROOT / "notebooks/numpy-leak.ipynb")).cells
    code = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    used = {alias.name for node in ast.walk(code) if isinstance(node, ast.Import) for alias in node.names}
    # The second draws.
    assert used == {"numpy", "matplotlib.pyplot"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(code))
