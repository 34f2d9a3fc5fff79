"""Papermill's engine that runs a notebook's cells in this process."""

import os
from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from leakbench.results.figures.in_process import NAME


def run(folder: Path, *sources: str, **values: object) -> list[NotebookNode]:
    """Return the code cells of a notebook of these sources once it has run."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = nbformat.v4.new_notebook(cells=[*cells], metadata={"kernelspec": spec})
    whole.cells.insert(1, nbformat.v4.new_markdown_cell("Words."))
    nbformat.write(whole, folder / "in.ipynb")
    papermill.execute_notebook(
        str(folder / "in.ipynb"), str(folder / "out.ipynb"), values, engine_name=NAME, progress_bar=False
    )
    return code(folder)


def code(folder: Path) -> list[NotebookNode]:
    done = nbformat.read(folder / "out.ipynb", 4)
    nbformat.validate(done)
    return [cell for cell in done.cells if cell.cell_type == "code"]


def test_cells_share_names_and_parameters_replace_those_of_the_notebook(tmp_path: Path) -> None:
    cells = run(tmp_path, "x = 1", "y = x + 1", "print(y)\ny * 10", x=4)
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4]
    printed, last = cells[3].outputs
    assert (printed.name, printed.text) == ("stdout", "5\n")
    assert (last.output_type, last.data, last.execution_count) == ("execute_result", {"text/plain": "50"}, 4)
    assert [cells[n].outputs for n in (0, 1, 2)] == [[], [], []]


def test_the_last_value_is_shown_in_every_form_it_has_and_none_is_not(tmp_path: Path) -> None:
    cells = run(tmp_path, "import pandas as pd", "pd.DataFrame({'a': [1]})", "None", "z = 3", "")
    assert set(cells[1].outputs[0].data) == {"text/plain", "text/html"}
    assert [cell.outputs for cell in cells[2:]] == [[], [], []]


@pytest.mark.parametrize(
    ("source", "name"), [("1 / 0", "ZeroDivisionError"), ("1 +", "SyntaxError"), ("%time", "SyntaxError")]
)
def test_a_cell_that_fails_is_the_last_that_runs(source: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(PapermillExecutionError) as problem:
        run(tmp_path, "x = 1", source, f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert (problem.value.ename, problem.value.exec_count) == (name, 2)
    assert not (tmp_path / "ran").exists()
    assert code(tmp_path)[1].outputs[-1].output_type == "error"


def test_a_cell_runs_in_this_process(tmp_path: Path) -> None:
    cells = run(tmp_path, "import os", "os.getpid()")
    assert cells[1].outputs[0].data["text/plain"] == str(os.getpid())
